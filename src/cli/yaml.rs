//! Values as YAML in its block style. Keys of objects are in the order of their names.

use std::fmt::Write as _;

use serde_json::Value;

/// A document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    node(value, 0, &mut text);
    text
}

/// A value on lines of its own. Writing to a String cannot fail.
fn node(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let _ = write!(text, "{pad}{}:", plain_or_quoted(name));
                if is_collection(value) {
                    text.push('\n');
                    node(value, indent + 2, text);
                } else {
                    let _ = writeln!(text, " {}", scalar(value));
                }
            }
        }
        Value::Array(values) if !values.is_empty() => {
            for value in values {
                let mut item = String::new();
                node(value, indent + 2, &mut item);
                // The first line stands behind the dash, which takes the place of its indentation.
                let _ = write!(text, "{pad}- {}", item.trim_start_matches(' '));
            }
        }
        value => {
            let _ = writeln!(text, "{pad}{}", scalar(value));
        }
    }
}

/// Whether a value has lines of its own.
fn is_collection(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(values) => !values.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain_or_quoted(text),
        // Numbers, true, false, null, {} and [] are the same in both.
        value => value.to_string(),
    }
}

/// Text as it is where nothing takes it for something else; else in double quotes, as in JSON.
fn plain_or_quoted(text: &str) -> String {
    const TAKEN: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    if begins && plain && !TAKEN.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented() {
        let value = json!({
            "name": "orders",
            "partitions": [{ "partition": 0, "damaged": [] }, { "damaged": [{ "bytes": 1 }] }],
            "nested": [[1, 2], []],
            "settings": {},
            "yes": "no",
        });
        let text = "\
name: orders
nested:
  - - 1
    - 2
  - []
partitions:
  - damaged: []
    partition: 0
  - damaged:
      - bytes: 1
settings: {}
\"yes\": \"no\"
";
        assert_eq!(document(&value), text);
        assert_eq!(document(&json!([])), "[]\n");
        assert_eq!(document(&json!([{ "a": null }])), "- a: null\n");
    }

    #[test]
    fn text_stays_text() {
        for (text, yaml) in [
            ("a-b.c/d_1", "a-b.c/d_1"),
            ("", "\"\""),
            ("1", "\"1\""),
            ("True", "\"True\""),
            ("~", "\"~\""),
            ("- a", "\"- a\""),
            ("a: b", "\"a: b\""),
            ("\u{e4}\n\"", "\"\u{e4}\\n\\\"\""),
        ] {
            assert_eq!(plain_or_quoted(text), yaml);
        }
    }
}
