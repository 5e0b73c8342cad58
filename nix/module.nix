# A NixOS service: the unit of systemd/, with settings as in config/hermitmq.toml.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.hermitmq;
  format = pkgs.formats.toml { };
  written = format.generate "hermitmq.toml" cfg.settings;
  # A wrong key is an error of the build, not of the next start. (The program of another platform cannot be asked.)
  checked = pkgs.runCommand "hermitmq.toml" { } ''
    ${lib.getExe cfg.package} config check ${written}
    cp ${written} $out
  '';
  canRun = pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform;
in
{
  options.services.hermitmq = {
    enable = lib.mkEnableOption "HermitMQ, a message broker";

    package = lib.mkPackageOption pkgs "hermitmq" { };

    openFirewall = lib.mkEnableOption "clients from elsewhere: opens `settings.server.port`";

    settings = lib.mkOption {
      description = ''
        The configuration file, `/etc/hermitmq/hermitmq.toml`. `config/hermitmq.toml` lists every key. What is changed here is
        read again by the running broker; what needs a restart is named in its log.
      '';
      default = { };
      example = lib.literalExpression ''
        {
          server.host = "0.0.0.0";
          storage.max_total_mb = 10240;
          topic = [ { name = "orders"; partitions = 4; durability = "always"; } ];
        }
      '';
      type = lib.types.submodule {
        freeformType = format.type;
        options = {
          server.host = lib.mkOption {
            type = lib.types.str;
            default = "127.0.0.1";
            description = "Address to listen on; 0.0.0.0 is every IPv4 address.";
          };
          server.port = lib.mkOption {
            type = lib.types.port;
            default = 9092;
            description = "TCP port for clients.";
          };
          admin.listen = lib.mkOption {
            type = lib.types.str;
            default = "127.0.0.1:9093";
            description = "Address of the HTTP listener for health, metrics and administration; `\"\"` for none.";
          };
        };
      };
    };
  };

  config = lib.mkIf cfg.enable {
    # For its command line.
    environment.systemPackages = [ cfg.package ];
    environment.etc."hermitmq/hermitmq.toml".source = if canRun then checked else written;

    networking.firewall.allowedTCPPorts = lib.mkIf cfg.openFirewall [ cfg.settings.server.port ];

    # Of the files with tokens and keys: systemd/hermitmq.sysusers.
    users.groups.hermitmq-secrets = { };

    systemd.packages = [ cfg.package ];
    systemd.services.hermitmq = {
      wantedBy = [ "multi-user.target" ];
      reloadTriggers = [ config.environment.etc."hermitmq/hermitmq.toml".source ];
    };
  };
}
