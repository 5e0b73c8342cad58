//! The `hermitmq` binary: everything it does is in [`hermitmq::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    hermitmq::cli::main(std::env::args_os())
}
