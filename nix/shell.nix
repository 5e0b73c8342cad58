# What .ci/run uses.
{
  lib,
  stdenv,
  mkShell,
  hermitmq,
  actionlint,
  cargo-deny,
  clippy,
  e2fsprogs,
  kubectl,
  python3,
  rust-analyzer,
  rustfmt,
  strace,
}:
mkShell {
  inputsFrom = [ hermitmq ];
  packages = [
    actionlint
    cargo-deny
    clippy
    kubectl
    python3
    rust-analyzer
    rustfmt
  ]
  ++ lib.optionals stdenv.hostPlatform.isLinux [
    e2fsprogs
    strace
  ];
}
