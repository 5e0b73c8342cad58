# What must hold on every system; flake.nix has the rest.
{
  pkgs,
  hermitmq,
  # The whole tree: the tests read the documentation and the configuration, too.
  source,
}:
let
  cargo =
    name: tools: command:
    hermitmq.overrideAttrs (previous: {
      pname = "hermitmq-${name}";
      src = source;
      nativeBuildInputs = previous.nativeBuildInputs ++ tools;
      buildPhase = ''
        runHook preBuild
        ${command}
        runHook postBuild
      '';
      doCheck = false;
      installPhase = "touch $out";
      postInstall = "";
    });
in
{
  inherit hermitmq;
  # A sandbox has neither loop devices nor ptrace.
  tests = cargo "tests" [ ] "HERMITMQ_SKIP_PRIVILEGED=1 cargo test --offline";
  clippy = cargo "clippy" [ pkgs.clippy ] "cargo clippy --offline --all-targets -- -D warnings";
  format = cargo "format" [ pkgs.rustfmt ] "cargo fmt --all --check";
}
