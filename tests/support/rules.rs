//! Who may do what, where a test asks.

/// The rules of `access`, and of `tls` in front of them.
pub const RULES: &str = r#"
[[access.network]]
cidr = "127.0.0.2/32"
principal = "legacy"

[[access.rule]]
principals = ["alice"]
operations = ["produce"]
topics = ["orders"]

[[access.rule]]
principals = ["bob"]
operations = ["consume", "commit"]
topics = ["orders"]
groups = ["bob-*"]

[[access.rule]]
principals = ["carol"]
operations = ["consume"]
topics = ["orders"]
groups = ["carol"]

[[access.rule]]
principals = ["anonymous"]
operations = ["produce"]
topics = ["inbox"]

[[access.rule]]
principals = ["legacy"]
operations = ["produce", "consume", "commit"]
topics = ["legacy-*"]
groups = ["legacy"]

[[access.rule]]
principals = ["ops"]
operations = ["admin"]

[[access.rule]]
principals = ["team"]
operations = ["admin"]
topics = ["team-*"]
groups = ["team"]
"#;
