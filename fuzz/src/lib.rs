//! The bodies of the fuzz targets, which `tests/fuzz_twins` runs too.

#[path = "../../tests/fuzz_twins/targets/mod.rs"]
pub mod targets;
