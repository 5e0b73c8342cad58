//! The examples of the document: fenced blocks of lines that are sent and received.

use super::support::unhex;

/// A line of an example.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Receive(Vec<u8>),
    Closed,
}

/// How a block is fenced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// `wire LABEL`: one conversation of version 1.0.
    Wire,
    /// `wire-1.1 LABEL`: one of version 1.1.
    Wire11,
    /// `message-1.1 LABEL`: a single message of version 1.1, of the type that the label says.
    Message11,
}

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Example {
    pub kind: Kind,
    pub label: String,
    pub line: usize,
    pub steps: Vec<Step>,
}

impl Example {
    pub(crate) fn is_refused(&self) -> bool {
        self.label.starts_with("refused")
    }

    pub(crate) fn sent(&self) -> Vec<u8> {
        let sent = |step: &Step| if let Step::Send(bytes) = step { bytes.clone() } else { vec![] };
        self.steps.iter().flat_map(sent).collect()
    }

    pub(crate) fn received(&self) -> Vec<u8> {
        let got = |step: &Step| if let Step::Receive(b) = step { b.clone() } else { vec![] };
        self.steps.iter().flat_map(got).collect()
    }
}

pub(crate) fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/PROTOCOL.md");
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn examples(document: &str) -> Vec<Example> {
    let mut out: Vec<Example> = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        let line_number = index + 1;
        let fence = line.strip_prefix("```").and_then(|fence| fence.split_once(' '));
        let kind = fence.and_then(|(kind, _)| match kind {
            "wire" => Some(Kind::Wire),
            "wire-1.1" => Some(Kind::Wire11),
            "message-1.1" => Some(Kind::Message11),
            _ => None,
        });
        if let (Some(kind), Some((_, label))) = (kind, fence) {
            let (label, steps) = (label.to_owned(), Vec::new());
            out.push(Example { kind, label, line: line_number, steps });
            inside = true;
        } else if line.starts_with("```") {
            inside = false;
        } else if inside {
            let text = line.split('#').next().unwrap().trim();
            let step = match text.split_at(1) {
                (">", bytes) => Step::Send(unhex(bytes)),
                ("<", " closed") => Step::Closed,
                ("<", bytes) => Step::Receive(unhex(bytes)),
                _ => panic!("line {line_number}: {line}"),
            };
            out.last_mut().unwrap().steps.push(step);
        }
    }
    out
}
