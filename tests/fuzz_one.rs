//! temporary
#![allow(dead_code, clippy::all, clippy::pedantic, clippy::unwrap_used, missing_docs)]
#[path = "fuzz_twins/targets/mod.rs"]
mod targets;
#[test]
fn one() {
    let t = std::env::var("T").unwrap();
    let f = std::env::var("F").unwrap();
    let sub = tracing_subscriber::fmt().with_writer(std::io::stderr).finish();
    let _ = tracing::subscriber::set_global_default(sub);
    let bytes = std::fs::read(f).unwrap();
    targets::ALL.iter().find(|(n, _)| *n == t).unwrap().1(&bytes);
}
