//! Names as the text that they are in files and answers.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde::ser::Serializer;

pub(super) fn serialize<T: Display, S: Serializer>(name: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(name)
}

pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
