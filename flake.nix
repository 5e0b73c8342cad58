{
  description = "HermitMQ: a persistent topic/partition message broker in one small binary";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;

      linux = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      all = linux ++ [
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      # For each of these systems what `make` gives for its packages.
      forSystems = systems: make: lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      # What there is on all systems, and what there is on Linux as well.
      forAll =
        everywhere: onLinux:
        lib.recursiveUpdate (forSystems all everywhere) (forSystems linux onLinux);

      own = pkgs: self.packages.${pkgs.stdenv.hostPlatform.system};
      package = pkgs: pkgs.callPackage ./nix/package.nix { };
      # In the image's label alone: anywhere else each commit would build everything anew.
      revision = self.rev or self.dirtyRev or null;
      image =
        pkgs: kind:
        pkgs.callPackage ./nix/image.nix {
          inherit revision;
          hermitmq = (own pkgs).hermitmq-static;
          build = pkgs.dockerTools.${kind};
        };
    in
    {
      packages =
        forAll
          (pkgs: {
            default = (own pkgs).hermitmq;
            hermitmq = package pkgs;
          })
          (pkgs: {
            # Not pkgsCross.musl64, which links dynamically.
            hermitmq-static = package pkgs.pkgsStatic;
            image = image pkgs "buildLayeredImage";
            image-stream = image pkgs "streamLayeredImage";
          });

      apps =
        forAll
          (pkgs: {
            default = {
              type = "app";
              program = lib.getExe (own pkgs).hermitmq;
              meta.description = "A broker on 127.0.0.1:9092, with its log in ./hermitmq-data";
            };
          })
          (pkgs: {
            image = {
              type = "app";
              program = "${(own pkgs).image-stream}";
              meta.description = "Writes the image to standard output, for `docker load`";
            };
          });

      checks =
        forAll
          (
            pkgs:
            import ./nix/checks.nix {
              inherit pkgs;
              inherit (own pkgs) hermitmq;
              source = self;
            }
          )
          (pkgs: {
            inherit (own pkgs) hermitmq-static;
            service = pkgs.callPackage ./nix/service-test.nix { module = self.nixosModules.default; };
          });

      devShells = forSystems all (pkgs: {
        default = pkgs.callPackage ./nix/shell.nix { inherit (own pkgs) hermitmq; };
      });

      formatter = forSystems all (pkgs: pkgs.nixfmt-tree);

      overlays.default = final: _previous: { hermitmq = package final; };

      nixosModules.default = {
        imports = [ ./nix/module.nix ];
        nixpkgs.overlays = [ self.overlays.default ];
      };
    };
}
