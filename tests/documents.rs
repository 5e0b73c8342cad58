//! What the documents say, against the code: settings, alerts, metrics, links to sections. The commands in them are parsed
//! by `cli::documents`, the bytes of the protocol replayed by `tests/protocol_doc`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every document, by its path from the root.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(Into::into).into();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name();
        if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
            found.push(Path::new("docs").join(name));
        }
    }
    found
}

// ---------------------------------------------------------------------------------------------------------------
// Settings.

/// A key of `config/hermitmq.toml`: its section, its default as TOML, and what is said of it.
struct Setting {
    section: String,
    key: String,
    default: String,
    text: String,
}

/// Keys stand behind a `#` of their own, their texts in the comment before them.
fn settings(file: &str) -> Vec<Setting> {
    let mut found = Vec::new();
    let (mut section, mut text, mut in_table) = (String::new(), String::new(), false);
    for line in file.lines() {
        // Examples of keys that have no default are indented, and so are tables of examples.
        in_table = !line.is_empty() && (in_table || line.starts_with("#   [["));
        let indented = line.strip_prefix("#   ");
        if in_table && (indented.is_some() || line == "#") {
            continue;
        }
        let example = indented;
        let key = line.strip_prefix('#').and_then(|rest| rest.split_once(" = "));
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            text.clear();
        } else if let Some((key, default)) = key.filter(|(key, _)| !key.contains(' ')) {
            found.push(Setting {
                section: section.clone(),
                key: key.to_owned(),
                default: default.to_owned(),
                text: std::mem::take(&mut text),
            });
        } else if let Some((key, value)) = example.and_then(|rest| rest.split_once(" = ")) {
            found.push(Setting {
                section: section.clone(),
                key: key.to_owned(),
                default: "(none)".to_owned(),
                text: format!("{} `{value}`", std::mem::take(&mut text)),
            });
        } else if let Some(comment) = line.strip_prefix('#') {
            if !text.is_empty() && !comment.is_empty() {
                text.push(' ');
            }
            text.push_str(comment.trim());
        } else {
            text.clear();
        }
    }
    found
}

fn configuration_page(file: &str) -> String {
    let mut page = "# Configuration\n\n\
        Every setting, its default, its unit and what it means: [config/hermitmq.toml](../config/hermitmq.toml) as a table, made from it and \
        compared with\nit by a test. How layers add up is in the [README](../README.md#configure); what changes while the broker runs, in \
        [OPERATIONS.md](OPERATIONS.md#a-changed-configuration).\nThe environment variable of `section.key` is `HERMITMQ_SECTION__KEY`. Topics \
        and other lists are explained in the file.\n"
        .to_owned();
    let mut section = "";
    let settings = settings(file);
    for setting in &settings {
        if setting.section != section {
            section = &setting.section;
            write!(page, "\n## {section}\n\n| key | default | |\n|---|---|---|\n").unwrap();
        }
        let Setting { key, default, text, .. } = setting;
        let text = text
            .replace('|', "\\|")
            .replace("docs/LIMITS.md", "[LIMITS.md](LIMITS.md#bytes-in-a-second)");
        writeln!(page, "| `{key}` | `{default}` | {text} |").unwrap();
    }
    page
}

#[test]
fn the_table_of_settings_is_that_of_the_file() {
    let page = configuration_page(&read("config/hermitmq.toml"));
    if std::env::var_os("HERMITMQ_BLESS").is_some() {
        fs::write(root().join("docs/CONFIGURATION.md"), &page).unwrap();
    }
    let differs = read("docs/CONFIGURATION.md") != page;
    assert!(
        !differs,
        "make docs/CONFIGURATION.md anew: HERMITMQ_BLESS=1 cargo test --test documents"
    );
}

#[test]
fn settings_are_read_from_comments() {
    let file = "# Not a key = no.\n\n[a]\n\n# What it is,\n# and its unit.\n#x = 1\n\n# More | less.\n#y = \"z\"\n[b]\n#q = []\n\n# An example.\n#   f = 1\n\n# A table.\n#\n#   [[b.t]]\n#   # No.\n#   no = 2\n#t = []\n";
    let found = settings(file);
    let keys: Vec<_> =
        found.iter().map(|s| format!("{}.{}={}", s.section, s.key, s.default)).collect();
    assert_eq!(keys, ["a.x=1", "a.y=\"z\"", "b.q=[]", "b.f=(none)", "b.t=[]"]);
    assert_eq!(found[3].text, "An example. `1`");
    assert_eq!(found[4].text, "A table.");
    assert_eq!(found[0].text, "What it is, and its unit.");
    assert!(configuration_page(file).contains("| `y` | `\"z\"` | More \\| less. |"));
}

// ---------------------------------------------------------------------------------------------------------------
// Alerts and metrics.

#[test]
fn every_alert_has_its_page_in_the_runbook() {
    let alerts = read("config/monitoring/hermitmq-alerts.yaml");
    let alerts: BTreeSet<_> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let runbook = read("docs/RUNBOOK.md");
    let pages: BTreeSet<_> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(alerts.len() > 5);
    assert_eq!(pages, alerts);
}

/// Words that look like metrics.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metric = |word: &&str| {
        let rest =
            ["hermitmq_", "process_"].into_iter().find_map(|prefix| word.strip_prefix(prefix));
        rest.is_some_and(|rest| rest.contains('_'))
    };
    words.filter(metric).collect()
}

#[test]
fn metrics_that_are_named_exist() {
    let listed = read("docs/METRICS.md");
    let listed = metrics(&listed);
    for path in documents().iter().filter(|path| !path.ends_with("METRICS.md")) {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let unknown: Vec<_> = metrics(&text)
            .into_iter()
            .filter(|name| !listed.contains(name) && !name.starts_with("hermitmq_hermitmq_"))
            .collect();
        assert!(unknown.is_empty(), "{}: {unknown:?} are not in docs/METRICS.md", path.display());
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Links to sections.

/// The name by which a heading is linked to.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

fn sections(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| slug(line.trim_start_matches('#'))).collect()
}

/// Targets of the links of a document that name a section: file (empty for itself) and section.
fn section_links(text: &str) -> Vec<(String, String)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let local = targets.filter(|target| !target.contains("://"));
    let named = local.filter_map(|target| target.split_once('#'));
    named.map(|(file, section)| (file.to_owned(), section.to_owned())).collect()
}

#[test]
fn links_lead_to_sections() {
    let mut followed = 0;
    for path in documents() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for (file, section) in section_links(&text) {
            let target = if file.is_empty() { path.clone() } else { path.with_file_name(&file) };
            let target = fs::read_to_string(root().join(&target)).unwrap();
            let there = sections(&target).contains(&section);
            assert!(there, "{}: {file}#{section} does not exist", path.display());
            followed += 1;
        }
    }
    assert!(followed > 3, "the documents link to sections");
}

#[test]
fn sections_and_links_are_found() {
    let text = "# From the Go original, in place\n[a](B.md#x) [b](#y-z) [c](https://example.org/#no) [d](E.md)";
    assert!(sections(text).contains("from-the-go-original-in-place"));
    let links =
        [("B.md", "x"), ("", "y-z")].map(|(file, section)| (file.to_owned(), section.to_owned()));
    assert_eq!(section_links(text), links);
    assert_eq!(
        metrics("`hermitmq_a_total`, process_b_c and hermitmq_"),
        BTreeSet::from(["hermitmq_a_total", "process_b_c"])
    );
}
