//! What an operator can set about access.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Section `access` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Tokens for the environment: `PRINCIPAL:HASH`, with line breaks or semicolons between them.
    pub tokens: Secret,
    /// File of tokens, one `PRINCIPAL:HASH` a line; empty for none. Read again at each SIGHUP.
    pub tokens_file: String,
    /// Tokens, as tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token: Vec<TokenOptions>,
    /// Principals by where they come from; the narrowest network counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkOptions>,
    /// Principals by the name in their client certificate; one that is not listed is the principal of that name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate: Vec<CertificateOptions>,
    /// What is allowed. Without rules everything is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<RuleOptions>,
}

/// A text that is not shown: neither by `Debug` nor when it is written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

/// What is shown in its place.
const HIDDEN: &str = "(hidden)";

impl Secret {
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { HIDDEN })
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { HIDDEN })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenOptions {
    /// Whose it is.
    pub principal: String,
    /// What `hermitmq token generate` has printed.
    pub hash: Secret,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkOptions {
    /// The network, such as `10.1.0.0/16`, or an address.
    pub cidr: String,
    /// Who comes from there.
    pub principal: String,
}

/// A client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateOptions {
    /// The name in it.
    pub subject: String,
    /// Whose it is.
    pub principal: String,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleOptions {
    /// Names, or `*` for everybody but `anonymous`.
    pub principals: Vec<String>,
    /// `produce`, `consume`, `commit`, `admin`.
    pub operations: Vec<String>,
    /// Names of topics, beginnings such as `orders-*`, or `*`.
    #[serde(default)]
    pub topics: Vec<String>,
    /// The same for groups.
    #[serde(default)]
    pub groups: Vec<String>,
}
