//! The commands in the documents, parsed as they would be typed; and that none is left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use super::args::Cli;

/// Documents with commands.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// The lines of the shell examples of a document, those that go on with a backslash joined.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    let mut open = String::new();
    for line in text.lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            inside = language == "sh";
        } else if inside {
            match line.strip_suffix('\\') {
                Some(start) => open.push_str(start),
                None => lines.push(std::mem::take(&mut open) + line),
            }
        }
    }
    lines
}

/// What a shell makes of a line: commands, each of words. Quotes keep a word together; what a shell would fill in
/// is left as it stands.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (' ' | '|' | '&' | ';', None) => {
                if let Some(word) = word.take() {
                    all.last_mut().unwrap().push(word);
                }
                if c != ' ' {
                    all.push(Vec::new());
                }
            }
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    all.last_mut().unwrap().extend(word);
    all.retain(|words| !words.is_empty());
    all
}

/// The arguments, if this is the program.
fn arguments(mut words: Vec<String>) -> Option<Vec<String>> {
    if words.first().is_some_and(|word| word == "sudo") {
        words.remove(0);
    }
    let program = words.first()?.rsplit('/').next()? == "hermitmq" && !words[0].starts_with("--");
    let redirected =
        words.iter().position(|word| word.starts_with(['<', '>']) || word.starts_with("2>"));
    words.truncate(redirected.unwrap_or(words.len()));
    program.then_some(words)
}

#[test]
fn the_commands_in_the_documents_can_be_typed() {
    let mut parsed = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in shell_lines(&text) {
            for words in commands(&line).into_iter().filter_map(arguments) {
                if let Err(error) = Cli::try_parse_from(&words)
                    && error.use_stderr()
                {
                    panic!("{}: {line}\n{error}", path.display());
                }
                parsed += 1;
            }
        }
    }
    assert!(parsed > 30, "{parsed} commands were found");
}

#[test]
fn shell_lines_become_words() {
    let text = "```sh\nprintf 'a b' | hermitmq produce t --key-sep ': ' \\\n    --batch 2   # why\n```\n```\nhermitmq no\n```\n";
    let lines = shell_lines(text);
    assert_eq!(lines.len(), 1);
    let found: Vec<_> = commands(&lines[0]).into_iter().filter_map(arguments).collect();
    assert_eq!(found, [["hermitmq", "produce", "t", "--key-sep", ": ", "--batch", "2"]]);
    let redirected =
        commands("target/release/hermitmq consume t > out").into_iter().filter_map(arguments);
    assert_eq!(redirected.collect::<Vec<_>>(), [["target/release/hermitmq", "consume", "t"]]);
    assert!(
        commands("docker run hermitmq:0.1.0 health")
            .into_iter()
            .all(|words| arguments(words).is_none())
    );
}

#[test]
fn the_table_of_commands_is_the_whole_command_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/TOOLS.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `hermitmq")?.split_once(" |"));
    let cells = rows.map(|(cell, _)| format!("`hermitmq{cell}"));
    let typed: Vec<String> = cells
        .flat_map(|cell| cell.split('`').map(ToOwned::to_owned).collect::<Vec<_>>())
        .filter_map(|typed| Some(typed.strip_prefix("hermitmq ")?.to_owned()))
        .collect();
    let cli = Cli::command();
    let mut named = BTreeSet::new();
    for typed in &typed {
        let mut words = typed.split(' ');
        let name = words.next().unwrap();
        let command = cli.find_subcommand(name).unwrap_or_else(|| panic!("there is no {typed}"));
        if let Some(word) = words.next().filter(|_| command.has_subcommands()) {
            assert!(command.find_subcommand(word).is_some(), "there is no {typed}");
        }
        named.insert(command.get_name());
    }
    let known = cli.get_subcommands().filter(|command| !command.is_hide_set());
    assert_eq!(named, known.map(clap::Command::get_name).collect());
}
