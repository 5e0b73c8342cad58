# The program. With `pkgsStatic.callPackage` it is one static file.
{
  lib,
  stdenv,
  rustPlatform,
}:
let
  manifest = (lib.importTOML ../Cargo.toml).package;
in
rustPlatform.buildRustPackage {
  pname = manifest.name;
  inherit (manifest) version;

  # What the build reads and nothing else: a change to a page of the documentation builds nothing.
  src = lib.fileset.toSource {
    root = ../.;
    fileset = lib.fileset.unions [
      ../Cargo.toml
      ../Cargo.lock
      ../benches
      ../config/hermitmq.toml
      ../src
      ../systemd/hermitmq.service
    ];
  };
  cargoLock.lockFile = ../Cargo.lock;
  cargoBuildFlags = [ "--bin=hermitmq" ];
  # nix/checks.nix has the tests: they read the whole tree.
  doCheck = false;

  postInstall = ''
    install -Dm644 config/hermitmq.toml -t $out/share/doc/hermitmq
  ''
  + lib.optionalString stdenv.hostPlatform.isLinux ''
    install -Dm644 systemd/hermitmq.service -t $out/lib/systemd/system
    substituteInPlace $out/lib/systemd/system/hermitmq.service --replace-fail /usr/bin/hermitmq $out/bin/hermitmq
  '';

  meta = {
    inherit (manifest) description;
    license = lib.licenses.mit;
    mainProgram = "hermitmq";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
