# The image: the program, a user and an empty directory that is theirs. `nix/image.json` says how it is run;
# `nix/assemble-image` makes the same one of a given program without Nix.
{
  lib,
  stdenv,
  hermitmq,
  # dockerTools.buildLayeredImage or streamLayeredImage; native ones, since a cross one runs its script in a foreign shell.
  build,
  revision ? null,
}:
let
  image = lib.importJSON ./image.json;
  uid = toString image.uid;
  gid = toString image.gid;
in
build {
  name = "hermitmq";
  tag = hermitmq.version;
  # Without it the image says amd64 wherever it is built.
  architecture = if stdenv.hostPlatform.isAarch64 then "arm64" else "amd64";
  # Everything is in the one layer made below: no store paths.
  includeStorePaths = false;
  # As root, so that the owner can be set.
  fakeRootCommands = ''
    mkdir -p bin etc data
    cp ${lib.getExe hermitmq} bin/hermitmq
    chmod 0755 bin bin/hermitmq etc
    echo 'hermitmq:x:${uid}:${gid}::/data:/bin/hermitmq' > etc/passwd
    echo 'hermitmq:x:${gid}:' > etc/group
    chmod 0644 etc/passwd etc/group
    chmod 0700 data
    chown ${uid}:${gid} data
  '';
  config = image.config // {
    Labels =
      image.config.Labels
      // {
        "org.opencontainers.image.version" = hermitmq.version;
      }
      // lib.optionalAttrs (revision != null) {
        "org.opencontainers.image.revision" = revision;
      };
  };
}
