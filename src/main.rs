//! The `hermitmq` binary.
fn main() {}
