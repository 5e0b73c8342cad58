//! What can happen to the files of a log, decoded from the input.

use super::input::Input;
use super::log_dir::Files;
use super::sum_file;

/// Which files an input may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    /// Those with this extension alone.
    Only(&'static str),
}

/// What was done to a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hurt {
    /// Some checksums are not those that were written.
    pub sums: bool,
    /// Checksums may say what no broker ever wrote, with all their checks right.
    pub forged: bool,
    /// A log file was removed, renamed or replaced as a whole.
    pub moved: bool,
}

const KINDS: [&str; 3] = ["wal", "idx", "sum"];
/// Files grow no larger than this.
const LEN_MAX: usize = 1 << 16;
const CHANGES: usize = 24;

/// Changes files until the input ends.
pub fn hurt(files: &mut Files, input: &mut Input<'_>, scope: Scope) -> Hurt {
    let mut done = Hurt::default();
    let bases = bases(files, input);
    for _ in 0..CHANGES {
        if input.is_empty() {
            break;
        }
        let what = input.byte();
        let name = pick(files, &bases, scope, input);
        change(files, &name, what, &bases, scope, input, &mut done);
        done.sums |= name.ends_with(".sum");
    }
    done
}

/// Base offsets of the segments, in digits. An empty directory gets two from the input.
fn bases(files: &Files, input: &mut Input<'_>) -> Vec<String> {
    let mut bases: Vec<String> =
        files.keys().filter(|name| name.contains(".wal")).map(|name| name[..20].into()).collect();
    if bases.is_empty() {
        let first = input.byte();
        let second = input.byte();
        for choice in [first, second] {
            let base = match choice {
                0xff => u64::MAX,
                0xfe => (1 << 62) - 1,
                0xfd => input.u64(),
                small => u64::from(small),
            };
            bases.push(format!("{base:020}"));
        }
    }
    bases
}

fn pick(files: &Files, bases: &[String], scope: Scope, input: &mut Input<'_>) -> String {
    let choice = usize::from(input.byte());
    let base = &bases[choice % 16 % bases.len()];
    let kind = match scope {
        Scope::Only(kind) => kind,
        Scope::All => KINDS[choice / 16 % KINDS.len()],
    };
    let name = format!("{base}.{kind}");
    let provisional = format!("{name}.new");
    if kind == "wal" && files.contains_key(&provisional) { provisional } else { name }
}

fn change(
    files: &mut Files,
    name: &str,
    what: u8,
    bases: &[String],
    scope: Scope,
    input: &mut Input<'_>,
    done: &mut Hurt,
) {
    let is_log = name.contains(".wal");
    match what % 14 {
        0 => {
            files.remove(name);
            done.moved |= is_log;
            return;
        }
        1 => {
            let from = pick(files, bases, scope, input);
            if let Some(bytes) = files.get(&from).cloned() {
                files.insert(name.into(), bytes);
                done.moved |= is_log;
            }
            return;
        }
        2 if is_log && scope == Scope::All => {
            if let Some(bytes) = files.remove(name) {
                let other = name.strip_suffix(".new").map_or(format!("{name}.new"), str::to_owned);
                files.insert(other, bytes);
                done.moved = true;
            }
            return;
        }
        _ => {}
    }
    let bytes = files.entry(name.into()).or_default();
    // Towards the end of a file there is more to get wrong: half of the positions count from there.
    let position = |input: &mut Input<'_>, len: usize| {
        let at = input.u16();
        if at % 2 == 0 { at / 2 % (len + 1) } else { len - at / 2 % (len + 1) }
    };
    let at = position(input, bytes.len());
    match what % 14 {
        3 => bytes.truncate(at),
        4 => {
            let n = input.u16().min(bytes.len() - at);
            bytes[at..at + n].fill(0);
        }
        5 => {
            let (n, byte) = (input.u16() % 9000, input.byte());
            bytes.resize(bytes.len() + n, byte);
        }
        6 => {
            let n = input.u16();
            *bytes = input.bytes(n).to_vec();
            done.moved |= is_log;
        }
        7 => {
            let n = usize::from(input.byte());
            let new = input.bytes(n);
            bytes.resize(bytes.len().max(at + new.len()), 0);
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        8 => {
            let (n, to) = (input.u16().min(bytes.len() - at), position(input, bytes.len()));
            let copy = bytes[at..at + n].to_vec();
            bytes.resize(bytes.len().max(to + n), 0);
            bytes[to..to + n].copy_from_slice(&copy);
        }
        9 => {
            let n = usize::from(input.byte()).min(bytes.len() - at);
            bytes.drain(at..at + n);
        }
        10 | 11 => {
            // A word, by what it says.
            let at = at / 8 * 8;
            let by = input.byte().cast_signed();
            if let Some(word) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                let value = hermitmq::record::wire::u64_from(*word);
                *word = hermitmq::record::wire::u64_bytes(if by == 0 {
                    input.u64()
                } else {
                    value.wrapping_add_signed(by.into())
                });
            }
        }
        12 if name.ends_with(".sum") => {
            sum_file::reseal(bytes, input.byte());
            done.forged = true;
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= input.byte().max(1);
            }
        }
    }
    bytes.truncate(LEN_MAX);
}
