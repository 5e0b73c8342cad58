//! The style of the source tree as a test: who may import whom, and what may stand where.
//!
//! `LAYERS` is the import table of `ARCHITECTURE.md` as data. Each check takes text and returns its findings, so that
//! the second half of this file can show each of them failing on a small bad input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a top-level module may import: modules, or `module::part` for a part of one. `*::X` is an item `X` of any
/// module.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("metrics", &[]),
    ("access", &["model", "metrics"]),
    ("record", &["model"]),
    ("telemetry", &["metrics"]),
    ("tls", &["model", "metrics"]),
    ("protocol", &["model", "record"]),
    ("storage", &["model", "metrics", "record"]),
    ("client", &["model", "record", "protocol", "tls::pem"]),
    ("broker", &["model", "metrics", "record", "storage"]),
    (
        "net",
        &[
            "model",
            "metrics",
            "record",
            "protocol",
            "access",
            "broker",
            "storage::file_slice",
            "telemetry::join",
            "tls",
        ],
    ),
    ("admin", &["model", "metrics", "access", "broker", "telemetry::join", "tls"]),
    (
        "config",
        &[
            "model",
            "*::Options",
            "*::SecurityOptions",
            "*::TopicOptions",
            "*::OffsetsOptions",
            "*::CompactionOptions",
        ],
    ),
    (
        "server",
        &[
            "model",
            "metrics",
            "record",
            "telemetry",
            "tls",
            "protocol",
            "storage",
            "access",
            "broker",
            "net",
            "admin",
            "config",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "protocol::v1_1",
            "access",
            "config",
            "client",
            "server",
            "telemetry::tell",
            "telemetry::flush",
        ],
    ),
    ("main", &["cli"]),
];

/// No async runtime here.
const DATA_PLANE: &[&str] =
    &["model", "metrics", "access", "record", "tls", "protocol", "storage", "broker", "net"];

/// The only files that touch mio, by how their path begins.
const MIO: &[&str] = &["src/net/reactor", "src/net/reactor", "src/net/sys"];

/// The only files with `unsafe`.
const UNSAFE: &[&str] = &["src/net/sys", "src/storage/mmap.rs"];

const MAX_LINES: usize = 700;
const MAX_LINES_MAIN: usize = 40;
const BANNED_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];
const BANNED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

// ---------------------------------------------------------------------------------------------------------------
// Reading Rust, as far as needed.

/// A word or a single character of punctuation, and the line it stands on.
#[derive(Debug, Clone, PartialEq)]
struct Token {
    text: String,
    line: usize,
}

/// The text with the contents of comments, strings and characters blanked; line breaks stay.
fn mask(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let blank = |out: &mut String, range: &[char]| {
        out.extend(range.iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
    };
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            blank(&mut out, &chars[at..end]);
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// The end of the comment, string or character that begins at `at`; `at` if none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let starts = |from: usize, what: &str| {
        what.chars().enumerate().all(|(i, c)| chars.get(from + i) == Some(&c))
    };
    let find = |from: usize, what: &str| {
        (from..chars.len()).find(|&i| starts(i, what)).map_or(chars.len(), |i| i + what.len())
    };
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts(at, "//") {
        return (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len());
    }
    if starts(at, "/*") {
        let (mut depth, mut i) = (1, at + 2);
        while i < chars.len() && depth > 0 {
            if starts(i, "/*") {
                depth += 1;
                i += 2;
            } else if starts(i, "*/") {
                depth -= 1;
                i += 2;
            } else {
                i += 1;
            }
        }
        return i;
    }
    if !in_word {
        for prefix in ["r", "br", "cr"] {
            let hashes_at = at + prefix.len();
            if !starts(at, prefix) {
                continue;
            }
            let hashes =
                chars[hashes_at.min(chars.len())..].iter().take_while(|&&c| c == '#').count();
            if chars.get(hashes_at + hashes) == Some(&'"') {
                return find(hashes_at + hashes + 1, &format!("\"{}", "#".repeat(hashes)));
            }
        }
    }
    match chars[at] {
        '"' => quoted_end(chars, at, '"'),
        // A character, not a lifetime: `'x'` or an escape.
        '\'' if chars.get(at + 1) == Some(&'\\') => quoted_end(chars, at, '\''),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    for (index, line) in mask(text).lines().enumerate() {
        let mut word = String::new();
        for c in line.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                out.push(Token { text: std::mem::take(&mut word), line: index + 1 });
            }
            if !c.is_whitespace() {
                out.push(Token { text: c.to_string(), line: index + 1 });
            }
        }
    }
    out
}

fn is_word(token: &Token) -> bool {
    token.text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn text_at(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |t| &t.text)
}

/// Whether `::` stands at `at`.
fn double_colon(tokens: &[Token], at: usize) -> bool {
    text_at(tokens, at) == ":" && text_at(tokens, at + 1) == ":"
}

/// Whether the word at `at` is not the continuation of something: `a::word`, `a.word`.
fn begins_path(tokens: &[Token], at: usize) -> bool {
    let after_path = at >= 2 && double_colon(tokens, at - 2);
    // A single dot: `0..crate::MAX` is a range.
    let dot = |back: usize| at >= back && tokens[at - back].text == ".";
    let after_dot = dot(1) && !dot(2);
    !after_path && !after_dot
}

/// The paths of the tree that begins at `at` (`a::b`, `{a, b::{c, d}}`), each with its line. Returns where it ends.
fn paths(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    out: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        let Some(token) = tokens.get(at) else { return at };
        if token.text == "{" {
            at += 1;
            while at < tokens.len() && tokens[at].text != "}" {
                let before = at;
                at = paths(tokens, at, &path, out);
                while at < tokens.len() && tokens[at].text != "," && tokens[at].text != "}" {
                    at += 1; // `as name`
                }
                if text_at(tokens, at) == "," || at == before {
                    at += 1;
                }
            }
            return at + 1;
        }
        if token.text != "*" && !is_word(token) {
            return at;
        }
        path.push(token.text.clone());
        at += 1;
        let goes_on = double_colon(tokens, at)
            && tokens.get(at + 2).is_some_and(|t| is_word(t) || t.text == "{" || t.text == "*");
        if !goes_on {
            out.push((path, token.line));
            return at;
        }
        at += 2;
    }
}

/// Every path from the crate's root: `crate::…`, `hermitmq::…`, and `super::…` as far as it leaves the top-level module.
/// `depth` is the number of modules around the file's items.
fn crate_paths(tokens: &[Token], depth: usize) -> Vec<(Vec<String>, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let goes_on = double_colon(tokens, at + 1);
        let begins = begins_path(tokens, at);
        let mut glob = true;
        let root = match tokens[at].text.as_str() {
            "crate" | "hermitmq" if goes_on && begins => Some(at + 3),
            "super" if goes_on && begins => {
                let mut ups = 1;
                while text_at(tokens, at + 3 * ups) == "super"
                    && double_colon(tokens, at + 3 * ups + 1)
                {
                    ups += 1;
                }
                // `super::*` of an inline module is that file, not the crate.
                glob = false;
                (ups >= depth).then_some(at + 3 * ups)
            }
            _ => None,
        };
        match root {
            Some(start) => {
                at = paths(tokens, start, &[], &mut out).max(at + 1);
                out.retain(|(path, _)| glob || path[0] != "*");
            }
            None => at += 1,
        }
    }
    out
}

// ---------------------------------------------------------------------------------------------------------------
// The checks: a file's path and text in, findings out.

fn top_module(path: &str) -> &str {
    let rest = path.strip_prefix("src/").unwrap_or(path);
    let first = rest.split('/').next().unwrap_or(rest);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Modules around the items of a file: 0 for `lib.rs`, 1 for `src/net/mod.rs`, 2 for `src/net/reactor.rs`.
fn depth(path: &str) -> usize {
    let parts = path.strip_prefix("src/").unwrap_or(path).split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

fn check_imports(path: &str, text: &str) -> Vec<String> {
    let module = top_module(path);
    if module == "lib" || is_test_file(path) {
        return Vec::new();
    }
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{path}:1: module {module} is not in the import table")];
    };
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (target, line) in crate_paths(&tokens, depth(path)) {
        let first = target[0].as_str();
        let whole = target.len() == 1 && !allowed.contains(&first);
        let in_parts = allowed.iter().any(|rule| {
            rule.split_once("::").is_some_and(|(owner, _)| owner == "*" || owner == first)
        });
        // `use crate::net;` where only parts of it are allowed: what counts is what is then used of it.
        let targets = if whole && in_parts { uses(&tokens, first) } else { Vec::new() };
        let targets = if targets.is_empty() { vec![(target.clone(), line)] } else { targets };
        for (target, line) in targets {
            if !may_import(module, allowed, &target) {
                found.push(format!("{path}:{line}: {module} may not import {}", target.join("::")));
            }
        }
    }
    found
}

/// Every path `name::…` in the file that begins with an imported module's name.
fn uses(tokens: &[Token], name: &str) -> Vec<(Vec<String>, usize)> {
    let mut out = Vec::new();
    for at in 0..tokens.len() {
        if begins_path(tokens, at) && tokens[at].text == name && double_colon(tokens, at + 1) {
            paths(tokens, at, &[], &mut out);
        }
    }
    out
}

fn may_import(module: &str, allowed: &[&str], target: &[String]) -> bool {
    let first = target[0].as_str();
    let known = LAYERS.iter().any(|(name, _)| *name == first);
    // Items of `lib.rs` itself are nobody's layer; `crate::*` would be everybody's.
    if first == module || (!known && first != "*") {
        return true;
    }
    allowed.iter().any(|rule| match rule.split_once("::") {
        None => *rule == first,
        Some(("*", item)) => known && target.len() == 2 && target[1] == item,
        Some((owner, part)) => owner == first && target.get(1).is_some_and(|name| name == part),
    })
}

fn check_words(path: &str, text: &str) -> Vec<String> {
    let module = top_module(path);
    let begins = |list: &[&str]| list.iter().any(|start| path.starts_with(start));
    let lines: Vec<&str> = text.lines().collect();
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (at, Token { text: word, line }) in tokens.iter().enumerate() {
        let mut say = |what: String| found.push(format!("{path}:{line}: {what}"));
        let is_macro = text_at(&tokens, at + 1) == "!";
        let source = path.starts_with("src/");
        match word.as_str() {
            "tokio" if source && DATA_PLANE.contains(&module) => {
                say("tokio in the data plane".to_owned());
            }
            "mio" if source && !begins(MIO) => say("mio outside the reactors".to_owned()),
            "unsafe" => {
                if !begins(UNSAFE) {
                    say("unsafe outside net::sys and storage::mmap".to_owned());
                } else if text_at(&tokens, at + 1) == "{" && !has_safety(&lines, *line) {
                    say("unsafe block without a SAFETY comment before it".to_owned());
                }
            }
            "ignore"
                if text_at(&tokens, at + 1) == "]"
                    && text_at(&tokens, at.wrapping_sub(1)) == "[" =>
            {
                say("#[ignore] without a reason".to_owned());
            }
            "mod" if BANNED_NAMES.contains(&text_at(&tokens, at + 1)) => {
                say(format!("a module named {} has no one job", text_at(&tokens, at + 1)));
            }
            word if is_macro && BANNED_MACROS.contains(&word) => {
                say(format!("{word}! left behind"));
            }
            _ => {}
        }
    }
    found
}

/// Whether a comment with `SAFETY:` stands on the line, or on the comment lines above its statement.
fn has_safety(lines: &[&str], line: usize) -> bool {
    let is_comment = |l: &str| l.trim_start().starts_with("//");
    if lines[line - 1].split("unsafe").next().is_some_and(|before| before.contains("SAFETY:")) {
        return true;
    }
    let mut above = lines[..line - 1].iter().rev().peekable();
    // The statement may begin a line or more above its block.
    while above.peek().is_some_and(|l| {
        !is_comment(l) && !l.trim().is_empty() && !l.trim_end().ends_with([';', '{', '}'])
    }) {
        above.next();
    }
    above.take_while(|l| is_comment(l)).any(|l| l.contains("SAFETY:"))
}

fn check_shape(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    let max = if path == "src/main.rs" { MAX_LINES_MAIN } else { MAX_LINES };
    if lines > max {
        found.push(format!("{path}:{max}: {lines} lines, the most is {max}"));
    }
    if !is_test_file(path) && !text.trim_start().starts_with("//!") {
        found.push(format!("{path}:1: no //! that says what the file is for"));
    }
    let parts = path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    for part in parts.filter(|part| BANNED_NAMES.contains(part)) {
        found.push(format!("{path}:1: a module named {part} has no one job"));
    }
    found
}

/// The names in `[dependencies]`, `[dev-dependencies]`, `[build-dependencies]` and their `[target.…]` forms.
fn manifest_dependencies(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut in_table = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            let last = header.rsplit('.').next().unwrap_or(header);
            in_table = last.ends_with("dependencies");
            let parent = header.rsplit_once('.').map_or("", |(parent, _)| parent);
            if parent.ends_with("dependencies") {
                names.insert(last.to_owned()); // `[dependencies.name]`
            }
        } else if in_table
            && let Some((name, _)) = line.split_once('=')
            && !line.starts_with(['#', '"', '}'])
        {
            names.insert(name.trim().split('.').next().unwrap_or(name).to_owned());
        }
    }
    names
}

/// Each dependency has exactly one table line `` | `name` | reason | `` and no line is without a dependency.
fn check_dependencies(manifest: &str, document: &str) -> Vec<String> {
    let wanted = manifest_dependencies(manifest);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (index, line) in document.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(name) = cells.get(1).and_then(|c| c.strip_prefix('`')?.strip_suffix('`')) else {
            continue;
        };
        let mut say = |what: &str| {
            found.push(format!("docs/DEPENDENCIES.md:{}: {name} {what}", index + 1));
        };
        if !wanted.contains(name) {
            say("is not a dependency");
        }
        if !seen.insert(name.to_owned()) {
            say("stands twice");
        }
        if cells[2..].iter().all(|cell| cell.len() < 10) {
            say("has no reason");
        }
    }
    let missing = wanted.difference(&seen);
    found.extend(missing.map(|name| format!("docs/DEPENDENCIES.md:1: {name} is missing")));
    found
}

/// Each use of `unsafe` has a line `` | `file` | what | why | why sound | `` and no line is without a use.
fn check_unsafe(document: &str, files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, line) in document.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(file) = cells.get(1).and_then(|c| c.strip_prefix('`')?.strip_suffix('`')) else {
            continue;
        };
        *listed.entry(file).or_default() += 1;
        if cells.len() != 6 || cells[2..5].iter().any(|cell| cell.len() < 8) {
            found.push(format!("docs/UNSAFE.md:{}: {file} has no reason", index + 1));
        }
    }
    for (path, text) in files {
        let uses = tokens(text).iter().filter(|token| token.text == "unsafe").count();
        let lines = listed.remove(path.as_str()).unwrap_or(0);
        if uses != lines {
            found.push(format!("docs/UNSAFE.md:1: {path} has {uses} uses, {lines} are listed"));
        }
    }
    found.extend(listed.keys().map(|file| format!("docs/UNSAFE.md:1: {file} is no file")));
    found
}

/// Relative links of a document, with their lines; code is skipped.
fn links(document: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    let mut fenced = false;
    for (index, line) in document.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        // Code spans are every second piece between backticks.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let definition = prose
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .and_then(|(_, target)| target.split_whitespace().next());
        for target in inline.chain(definition) {
            let file = target.split('#').next().unwrap_or("");
            if !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:") {
                out.push((file.to_owned(), index + 1));
            }
        }
    }
    out
}

// ---------------------------------------------------------------------------------------------------------------
// The tree.

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn walk(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            walk(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

/// Files below `dir`, as paths from the root with `/`, and their texts.
fn files(dir: &str, extension: &str) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    walk(&root().join(dir), extension, &mut paths);
    paths.sort();
    let name =
        |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn source_is_tidy() {
    let files = files("src", "rs");
    assert!(files.len() > 10, "the walk finds the source");
    let checks = [check_imports, check_words, check_shape];
    let found: Vec<String> = files
        .iter()
        .flat_map(|(path, text)| checks.iter().flat_map(move |check| check(path, text)))
        .collect();
    assert_none(&found);
}

#[test]
fn tests_and_benches_are_tidy() {
    let files: Vec<_> = ["tests", "benches"].iter().flat_map(|dir| files(dir, "rs")).collect();
    assert!(files.iter().any(|(path, _)| path == "tests/tidy.rs"), "the walk finds this file");
    let found: Vec<String> =
        files.iter().flat_map(|(path, text)| check_words(path, text)).collect();
    assert_none(&found);
}

#[test]
fn dependencies_are_explained() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    assert_none(&check_dependencies(&read("Cargo.toml"), &read("docs/DEPENDENCIES.md")));
}

#[test]
fn unsafe_is_explained() {
    let document = fs::read_to_string(root().join("docs/UNSAFE.md")).unwrap();
    assert_none(&check_unsafe(&document, &files("src", "rs")));
}

#[test]
fn links_lead_to_files() {
    let mut documents = files("docs", "md");
    assert!(!documents.is_empty(), "the walk finds the documents");
    let names = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    for name in names {
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            documents.push((name.to_owned(), text));
        }
    }
    let mut found = Vec::new();
    for (path, text) in &documents {
        let folder = root().join(path).parent().unwrap().to_owned();
        for (target, line) in links(text) {
            if !folder.join(&target).exists() {
                found.push(format!("{path}:{line}: {target} does not exist"));
            }
        }
    }
    assert_none(&found);
}

// ---------------------------------------------------------------------------------------------------------------
// The checks can fail.

fn found_at(found: &[String], place: &str) -> bool {
    found.len() == 1 && found[0].starts_with(&format!("{place}: "))
}

#[test]
fn forbidden_imports_are_found() {
    let bad = [
        ("src/storage/log.rs", "use crate::net::Options;"),
        ("src/storage/log.rs", "use crate::{model::Offset, broker::{Topic, Partition as P}};"),
        ("src/model/names.rs", "struct A { a: crate::record::Run }"),
        ("src/model/names.rs", "fn f() { let x = crate::record::HEADER_LEN; }"),
        ("src/net/connection.rs", "use crate::storage::Log;"),
        ("src/net/connection.rs", "use crate::storage;"),
        ("src/net/connection.rs", "use super::super::storage::Log;"),
        ("src/net/mod.rs", "use super::storage::Log;"),
        ("src/net/a/b.rs", "use super::super::super::{model::Offset, admin::Options};"),
        ("src/config/mod.rs", "use crate::storage::Log;"),
        ("src/config/mod.rs", "use crate::storage::Options::hidden;"),
        ("src/config/mod.rs", "use crate::server;"),
        (
            "src/config/mod.rs",
            "use crate::{net, model}; struct A { a: net::Options, b: net::Listener }",
        ),
        (
            "src/net/mod.rs",
            "use crate::storage; fn f(a: storage::file_slice::A, b: storage::Log) {}",
        ),
        ("src/client/mod.rs", "pub use crate::broker::Options;"),
        ("src/client/mod.rs", "use crate::*;"),
        ("src/cli/mod.rs", "use crate::net::Options;"),
        ("src/main.rs", "fn main() { hermitmq::server::run(); }"),
        ("src/broker/mod.rs", "use crate::telemetry::init;"),
        ("src/surprise.rs", "use std::fmt;"),
    ];
    for (path, text) in bad {
        let found = check_imports(path, text);
        let names = if text.contains("Topic, Partition") { 2 } else { 1 };
        assert_eq!(found.len(), names, "{path}: {text}: {found:?}");
        assert!(found[0].starts_with(&format!("{path}:1: ")), "{found:?}");
    }
    let found = check_imports("src/model/names.rs", "\n// crate::net\n\nuse crate::net;\n");
    assert!(found_at(&found, "src/model/names.rs:4"), "{found:?}");
}

#[test]
fn allowed_imports_pass() {
    let good = [
        ("src/storage/log.rs", "use crate::{model::Offset, record::{Run, wire}};"),
        ("src/storage/log.rs", "use super::super::storage::Log; use super::segment;"),
        (
            "src/storage/log.rs",
            "//! [`crate::net`]\n/* crate::net */ const A: &str = \"crate::net\";",
        ),
        ("src/storage/log.rs", "pub(crate) fn f() -> char { '\"' } // crate::net \""),
        ("src/net/connection.rs", "use crate::storage::file_slice::FileSlice;"),
        (
            "src/config/mod.rs",
            "use crate::{net::{Options as Net, SecurityOptions}, storage::Options};",
        ),
        (
            "src/config/mod.rs",
            "use crate::{net, model}; struct A { a: net::Options, b: net::SecurityOptions }",
        ),
        ("src/net/tests.rs", "use crate::storage::Log;"),
        ("src/net/tests/model.rs", "use crate::storage::Log;"),
        ("src/net/mod.rs", "mod tests { use super::*; }"),
        ("src/lib.rs", "pub use crate::net::Options;"),
        ("src/main.rs", "fn main() { hermitmq::cli::run(); }"),
    ];
    for (path, text) in good {
        assert_none(&check_imports(path, text));
    }
}

#[test]
fn words_in_the_wrong_place_are_found() {
    let bad = [
        ("src/net/reactor.rs", "\nuse tokio::net;"),
        ("src/storage/tests.rs", "\nfn f() { tokio::spawn(x) }"),
        ("src/broker/wake.rs", "\nuse mio::Waker;"),
        ("src/net/connection.rs", "\nuse mio::Token;"),
        ("src/net/connection.rs", "\nlet x = unsafe { f() };"),
        ("src/net/sys/linux.rs", "\nlet x = unsafe { f() };"),
        (
            "src/storage/mmap.rs",
            "// SAFETY: of something else.\nlet x = unsafe { f() };\nlet y = unsafe { g() };",
        ),
        ("src/model/mod.rs", "\n#[ignore]\nfn t() {}"),
        ("tests/pipeline.rs", "\n#[ignore]\nfn t() {}"),
        ("src/model/mod.rs", "\nmod util { }"),
        ("src/model/mod.rs", "\nfn f() { todo!() }"),
        ("src/model/mod.rs", "\nfn f() { unimplemented!() }"),
        ("src/model/mod.rs", "\nfn f() { dbg!(1); }"),
    ];
    for (path, text) in bad {
        let found = check_words(path, text);
        let line = if path.ends_with("mmap.rs") { 3 } else { 2 };
        assert!(found_at(&found, &format!("{path}:{line}")), "{path}: {text}: {found:?}");
    }
}

#[test]
fn words_in_their_place_pass() {
    let good = [
        ("src/server/mod.rs", "use tokio::runtime::Runtime;"),
        ("src/net/reactor/poll.rs", "use mio::Poll;"),
        (
            "src/net/sys.rs",
            "use mio::Token;\n// SAFETY: the descriptor is open.\nlet x = unsafe { f() };",
        ),
        (
            "src/storage/mmap.rs",
            "// SAFETY: the file is ours,\n// and locked.\nlet x =\n    unsafe { f() };",
        ),
        ("src/storage/mmap.rs", "/* SAFETY: one line. */ unsafe { f() }"),
        (
            "src/model/mod.rs",
            "#![forbid(unsafe_code)] // unsafe\nconst A: &str = r#\"unsafe \"todo!\"#;",
        ),
        ("src/model/mod.rs", "#[ignore = \"takes an hour\"]\nfn t(ignore: [u8; 1]) {}"),
        ("src/model/mod.rs", "fn f<'a>(x: &'a u8, c: char) -> bool { c == 'u' /* dbg! */ }"),
    ];
    for (path, text) in good {
        assert_none(&check_words(path, text));
    }
}

#[test]
fn shapes_are_checked() {
    let long = |n| format!("//! Doc.\n{}", "\n".repeat(n));
    assert_none(&check_shape("src/net/a.rs", &long(MAX_LINES - 1)));
    assert_eq!(check_shape("src/net/a.rs", &long(MAX_LINES)).len(), 1);
    assert_none(&check_shape("src/main.rs", &long(MAX_LINES_MAIN - 1)));
    assert_eq!(check_shape("src/main.rs", &long(MAX_LINES_MAIN)).len(), 1);
    assert_eq!(check_shape("src/net/a.rs", "// Doc.\nuse x;").len(), 1);
    assert_none(&check_shape("src/net/tests.rs", "use x;"));
    assert_eq!(check_shape("src/net/util.rs", "//! Doc.").len(), 1);
    assert_eq!(check_shape("src/common/mod.rs", "//! Doc.").len(), 1);
}

#[test]
fn the_dependency_table_is_checked() {
    let manifest = "[features]\nx = [\"dep:a\"]\n[dependencies]\na = \"1\"\n# c = 1\nb = { version = \"1\", features = [\n\
                    \"x=y\",\n] }\n[dev-dependencies]\nd.version = \"1\"\n[dependencies.e]\nversion = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nf = \"1\"\n[profile.release]\nlto = true\n";
    let names: Vec<_> = manifest_dependencies(manifest).into_iter().collect();
    assert_eq!(names, ["a", "b", "d", "e", "f"]);

    let row = |name: &str| format!("| `{name}` | needed for a good reason |\n");
    let all: String = ["a", "b", "d", "e", "f"].map(row).concat();
    let head = "| crate | why |\n|---|---|\n";
    assert_none(&check_dependencies(manifest, &format!("{head}{all}")));
    let broken = [
        all.replace(&row("d"), ""),
        all.clone() + &row("g"),
        all.clone() + &row("a"),
        all.replace(&row("a"), "| `a` | |\n"),
    ];
    for document in broken {
        assert_eq!(check_dependencies(manifest, &document).len(), 1, "{document}");
    }
}

#[test]
fn the_table_of_unsafe_is_checked() {
    let files = [
        (
            "src/a.rs".to_owned(),
            "fn f() { unsafe { g() } } // unsafe\nunsafe impl A for B {}".into(),
        ),
        ("src/b.rs".to_owned(), "const A: &str = \"unsafe\";".into()),
    ];
    let row = "| `src/a.rs` | what it is | why it is | why it holds |\n";
    assert_none(&check_unsafe(&row.repeat(2), &files));
    for document in [
        row.to_owned(),
        row.repeat(3),
        format!("{}{}", row.repeat(2), row.replace("a.rs", "b.rs")),
        format!("{}{}", row.repeat(2), row.replace("a.rs", "c.rs")),
        format!("{row}{}", row.replace("why it holds", "")),
    ] {
        assert_eq!(check_unsafe(&document, &files).len(), 1, "{document}");
    }
}

#[test]
fn links_are_found() {
    let document = "[a](docs/A.md) and [b](B.md#part \"title\")\n[x](https://example.org) [y](#here)\n```\n[c](C.md)\n```\n\
                    ![d](img/d.svg) `[e](E.md)` [g](G.md)\n[f]: F.md\n";
    let expected = [("docs/A.md", 1), ("B.md", 1), ("img/d.svg", 6), ("G.md", 6), ("F.md", 7)];
    assert_eq!(links(document), expected.map(|(file, line)| (file.to_owned(), line)));
}
