//! The inputs that a corpus begins with: right ones, so that a fuzzer begins where it is interesting.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::v1_1::{
    Answer, AnswerTo, Client, ControlFrame, Durability, Fallback, Handshake, Role, Start, Token,
    TraceParent,
};
use hermitmq::protocol::{Request, Status};
use hermitmq::record::{FrameBuilder, wire};

use super::targets::input::Input;
use super::targets::log_dir::LogDir;

type Seeds = Vec<(String, Vec<u8>)>;

/// The seeds of a target, by name.
pub(super) fn of(target: &str) -> Seeds {
    match target {
        "access_rules" => access_rules(),
        "admin_json" => admin_json(),
        "catalog" => catalog(),
        "config" => config(),
        "connection" => connection(),
        "handshake" => handshake(),
        "index" => files_of("idx", 3),
        "recovery" => recovery(),
        "sums" => files_of("sum", 7),
        "transport" => transport(),
        other => panic!("{other} has no seeds"),
    }
}

fn named<T: Into<Vec<u8>>>(seeds: impl IntoIterator<Item = (&'static str, T)>) -> Seeds {
    seeds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())).collect()
}

// ---------------------------------------------------------------------------------------------------------------
// Logs.

/// Segments of 600, 3,000, 9,000 bytes and 1 MiB; the bit for `always`, and for readers that skip damage.
const SMALL: u8 = 0;
const MIDDLE: u8 = 1;
const LARGE: u8 = 2;
const ONE: u8 = 3;
const ALWAYS: u8 = 4;
const SKIP: u8 = 8;
/// Of a run: flushed after it.
const FLUSH: u8 = 0x40;
/// Of a log: closed in the end.
const CLOSED: u8 = 0x80;

/// A log of runs, each a size and a kind.
fn log(how: u8, runs: &[(u8, u8)], end: u8) -> Vec<u8> {
    let mut bytes = vec![how, u8::try_from(runs.len()).unwrap() | end];
    bytes.extend(runs.iter().flat_map(|&(size, kind)| [size, kind]));
    bytes
}

/// Logs that differ in what a start meets.
fn logs() -> Vec<(&'static str, Vec<u8>)> {
    let small: Vec<(u8, u8)> = (0..14).map(|n| (80, (n % 4) | 8)).collect();
    let flushed: Vec<(u8, u8)> =
        (0..14).map(|n| (80, (n % 4) | if n == 9 { FLUSH } else { 0 })).collect();
    let large: Vec<(u8, u8)> =
        (0..12).map(|n| (200 + n, n | if n == 7 { FLUSH } else { 0 })).collect();
    let once = [(150, 1 | FLUSH), (150, 0), (210, 0x11 | FLUSH), (30, 2), (255, 1), (3, 3)];
    vec![
        ("closed", log(SMALL, &small, CLOSED)),
        ("killed", log(SMALL, &small, 0)),
        ("flushed-and-killed", log(SMALL, &flushed, 0)),
        ("always", log(MIDDLE | ALWAYS, &flushed, 0)),
        ("large", log(LARGE, &large, 0)),
        ("large-skip", log(LARGE | SKIP, &large, CLOSED)),
        ("one-segment", log(ONE, &once, 0)),
        ("one-segment-closed", log(ONE, &once, CLOSED)),
        ("always-skip", log(ONE | ALWAYS | SKIP, &once, 0)),
    ]
}

/// Logs with one kind of file changed in each of the ways there are.
fn files_of(extension: &str, per_log: u8) -> Seeds {
    let mut seeds = Vec::new();
    for (name, log) in logs() {
        seeds.push((name.to_owned(), log.clone()));
        for number in 0..per_log {
            let mut bytes = log.clone();
            // Two changes of two files, at places that differ.
            for change in [number, number + per_log] {
                bytes.extend([change, change % 5, 0, 16 * change + 1, 0, 9, change, 3, 1, 4, 1, 5]);
            }
            seeds.push((format!("{name}-{extension}-{number}"), bytes));
        }
    }
    seeds
}

fn recovery() -> Seeds {
    let mut seeds = Vec::new();
    for (name, log) in logs() {
        seeds.push((name.to_owned(), log.clone()));
        for (number, file) in [0, 1, 16, 17, 32, 33, 2, 34].into_iter().enumerate() {
            let number = u8::try_from(number).unwrap();
            let mut bytes = log.clone();
            bytes.extend([13, file, number, 30 * number, 1 << (number % 8)]);
            bytes.extend([3 + number, file ^ 1, 0, 70, 0, 9, 1, 1]);
            seeds.push((format!("{name}-hurt-{number}"), bytes));
        }
    }
    for (name, files) in original() {
        let mut bytes = vec![ONE, 0, 0, 1];
        for (extension, kind) in [("wal", 0), ("idx", 16)] {
            let file = &files[extension];
            bytes.extend([6, kind]);
            bytes.extend([0, 0]);
            bytes.extend(wire::u16_bytes(u16::try_from(file.len()).unwrap()));
            bytes.extend(file);
        }
        seeds.push((format!("original-{name}"), bytes));
    }
    seeds.push(("raw".to_owned(), raw()));
    seeds
}

/// A log as its files: two segments with all that belongs to them.
fn raw() -> Vec<u8> {
    let recipe =
        log(SMALL, &[(80, 1), (80, 2), (80, FLUSH), (80, 3), (80, 1), (80, FLUSH)], CLOSED);
    let mut input = Input::new(&recipe);
    let dir = LogDir::new(&mut input);
    dir.build(&mut input);
    let files = dir.files();
    let bases: Vec<u8> = files
        .keys()
        .filter(|name| name.ends_with(".wal"))
        .map(|name| name[..20].parse().unwrap())
        .collect();
    assert_eq!(bases.len(), 2);
    let mut bytes = vec![SMALL, 0, bases[0], bases[1]];
    for (number, base) in (0u8..).zip(&bases) {
        for (extension, kind) in [("wal", 0), ("idx", 16), ("sum", 32)] {
            let file = &files[&format!("{base:020}.{extension}")];
            bytes.extend([6, number | kind, 0, 0]);
            bytes.extend(wire::u16_bytes(u16::try_from(file.len()).unwrap()));
            bytes.extend(file);
        }
    }
    bytes
}

/// The small partitions that the original wrote.
fn original() -> Vec<(String, BTreeMap<String, Vec<u8>>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1/data-dir.tar.gz");
    let file = std::fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut partitions: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        let Some(extension) = path.extension() else { continue };
        let extension = extension.to_str().unwrap().to_owned();
        let partition = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        partitions.entry(partition).or_default().insert(extension, bytes);
    }
    partitions.into_iter().filter(|(_, files)| files["wal"].len() < 4000).collect()
}

// ---------------------------------------------------------------------------------------------------------------
// The protocols.

fn topic() -> TopicName {
    TopicName::parse("orders").unwrap()
}

fn group() -> GroupName {
    GroupName::parse("billing").unwrap()
}

fn requests() -> Vec<(&'static str, Request)> {
    vec![
        ("produce", Request::Produce { topic: topic(), partition: 3 }),
        ("consume", Request::Consume { group: group(), topic: topic(), partition: 0 }),
        ("commit", Request::Commit { group: group(), topic: topic(), partition: 0, offset: 9 }),
    ]
}

fn handshakes_1_1() -> Vec<(&'static str, Vec<u8>)> {
    let client = Client {
        name: Some("orders-service".to_owned()),
        software: Some("orders/2.1".to_owned()),
        traceparent: TraceParent::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    };
    let consume = |start, group| Role::Consume {
        group,
        start,
        heartbeat_ms: std::num::NonZeroU32::new(1000),
        until_end: true,
    };
    let roles = [
        ("produce", Role::Produce { durability: Durability::Flushed }),
        ("consume", consume(Start::Committed(Fallback::Latest), Some(group()))),
        ("consume-offset", consume(Start::Offset(77), None)),
        ("commit", Role::Commit { group: group() }),
    ];
    let written = roles.map(|(name, role)| {
        let mut handshake = Handshake::new(topic(), 2, role);
        handshake.token = Some(Token::new("secret").unwrap());
        handshake.client = client.clone();
        let mut bytes = Vec::new();
        handshake.write(&mut bytes).unwrap();
        (name, bytes)
    });
    written.to_vec()
}

fn handshake() -> Seeds {
    let mut seeds = Vec::new();
    for (name, request) in requests() {
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        seeds.push((format!("v1_0-{name}"), bytes));
    }
    for (name, bytes) in handshakes_1_1() {
        seeds.push((format!("v1_1-{name}"), bytes));
    }
    let mut bytes = Vec::new();
    Answer::error(Status::UnknownTopic, 0, "no such topic").write(AnswerTo::Handshake, &mut bytes);
    seeds.push(("answer".to_owned(), bytes));
    let mut bytes = Vec::new();
    ControlFrame::new(Status::ShuttingDown, 12, "bye").write(&mut bytes);
    seeds.push(("control".to_owned(), bytes));
    let mut bytes = Vec::new();
    FrameBuilder::new(7).key(b"k").offset(3).write(b"hello", &mut bytes).unwrap();
    seeds.push(("frame".to_owned(), bytes));
    seeds
}

/// A byte for the limits and the number of cuts, the cuts, then what a peer sends.
fn connection() -> Seeds {
    let frame = |payload: &[u8], count| {
        let mut bytes = Vec::new();
        FrameBuilder::new(7).key(b"k").record_count(count).write(payload, &mut bytes).unwrap();
        bytes
    };
    let frames = [frame(b"one", 1), frame(b"", 0), frame(b"three", 3)].concat();
    let too_large = [frame(b"good", 1), frame(&[b'x'; 101], 1)].concat();
    let commits: Vec<u8> = (0..5).flat_map(|n| wire::u64_bytes(n * 7)).chain([1, 2, 3]).collect();
    let v1_0 = requests().into_iter().map(|(name, request)| {
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        (format!("v1_0-{name}"), bytes)
    });
    let v1_1 = handshakes_1_1().into_iter().map(|(name, bytes)| (format!("v1_1-{name}"), bytes));
    let mut seeds = Vec::new();
    for (name, hello) in v1_0.chain(v1_1) {
        let follows = if name.ends_with("commit") { &commits } else { &frames };
        let whole = [&hello[..], &follows[..]].concat();
        seeds.push((name.clone(), [&[0][..], &whole].concat()));
        seeds.push((format!("{name}-cut"), [&[0x31, 0, 3, 0, 20, 0, 50][..], &whole].concat()));
        if name.ends_with("produce") {
            seeds.push((format!("{name}-bad"), [&[0][..], &hello, &too_large].concat()));
        }
    }
    seeds
}

// ---------------------------------------------------------------------------------------------------------------
// The catalog.

fn catalog() -> Seeds {
    let of = |topics: &str| format!("{{\"version\": 1, \"topics\": [{topics}]}}");
    let orders = "{\"name\": \"orders\", \"partitions\": 4, \"durability\": \"always\", \
                  \"retention_hours\": null, \"retention_mb\": 100}";
    let events = "{\"name\": \"events\", \"partitions\": 1, \"retention_hours\": 24}";
    named([
        ("empty", of("")),
        ("one", of(orders)),
        ("two", of(&format!("{orders}, {events}"))),
        ("twice", of(&format!("{orders}, {orders}"))),
        ("too-many", of("{\"name\": \"a\", \"partitions\": 10001}")),
        ("none", of("{\"name\": \"a\", \"partitions\": 0}")),
        ("without", of("{\"name\": \"a\"}")),
        ("reserved", of("{\"name\": \"__a\", \"partitions\": 1}")),
        ("path", of("{\"name\": \"../a\", \"partitions\": 1}")),
        ("unknown-key", of("{\"name\": \"a\", \"partitions\": 1, \"color\": \"red\"}")),
        ("version", "{\"version\": 2, \"topics\": []}".to_owned()),
        ("deep", format!("{{\"version\": 1, \"topics\": {}", "[".repeat(1200))),
    ])
}

// ---------------------------------------------------------------------------------------------------------------
// Configuration: a byte for the language, the text, then variables, each after a zero byte.

fn config() -> Seeds {
    let shipped = include_str!("../../config/hermitmq.toml");
    let topics = "[[topic]]\nname = \"a\"\npartitions = 3\ndurability = \"always\"\n\
                  [[topic]]\nname = \"b\"\n[storage]\non_corruption = \"skip\"\n";
    let json = r#"{"server":{"port":9092,"host":"::"},"storage":{"max_segment_mb":0,"data_dir":"x"},
                   "topic":[{"name":"a","partitions":2}]}"#;
    let wrong = "[server]\nprot = 1\nport = 70000\n[storage]\ndurability = \"never\"\n[topics]\n\
                 default_partitions = 9\nmax_partitions = 3\n";
    let env = "\0HERMITMQ_SERVER__PORT=1\0HERMITMQ_STORAGE__DATA_DIR=/d\0HERMITMQ_PORT=tcp://x\0\
               HERMITMQ_TOPICS__AUTO_CREATE=false\0HERMITMQ_A__B__C=1";
    named([
        ("shipped", format!("\0{shipped}")),
        ("topics", format!("\0{topics}")),
        ("json", format!("\x01{json}")),
        ("wrong", format!("\0{wrong}")),
        ("environment", format!("\0{env}")),
        ("both", format!("\0{topics}{env}")),
        ("dotted", "\0server.port = 1\nserver.port.x = 2\n".to_owned()),
        ("deep-toml", format!("\0a = {}", "[".repeat(1500))),
        ("deep-table", format!("\0[{}a]", "a.".repeat(1500))),
        ("deep-inline", format!("\0a = {}", "{a=".repeat(1200))),
        ("deep-json", format!("\x01{}", "{\"a\":".repeat(1200))),
        ("deep-variable", format!("\0\0HERMITMQ_A__{}A=1", "A.".repeat(1200))),
    ])
}

// ---------------------------------------------------------------------------------------------------------------
// Who may do what: texts with zero bytes between them.

fn access_rules() -> Seeds {
    let hash = "$argon2id$v=19$m=8,t=1,p=1,keyid=ASNFZ4mr$AAAAAAAAAAAAAAAAAAAAAA$\
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let token = "hmq_0123456789ab_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    named([
        (
            "rules",
            "ralice,*;produce,commit;orders,in-*;billing\0rops;admin\0oorders\0gbilling".to_owned(),
        ),
        ("own", "r*;consume,admin;*,__consumer_offsets;*\0o__consumer_offsets".to_owned()),
        ("wrong", "ra;prodce;o*s;\0r;;;\0n10.0.0.1/8=a\0c=x\0h=".to_owned()),
        ("networks", "n10.0.0.0/8=a\0n10.1.0.0/16=b\0n10.1.2.3=c\0a10.1.2.3".to_owned()),
        ("mapped", "n::ffff:10.0.0.0/104=a\0n::/0=b\0a::ffff:10.1.2.3".to_owned()),
        ("ipv6", "nfd00::/8=a\0nfd00:1::/32=b\0afd00:1::9".to_owned()),
        ("certificates", "cci.test=ci\0Sci.test\0rci;produce;*".to_owned()),
        ("certificate-of-its-name", "Sbilling\0rbilling;commit;;billing-*\0gbilling-1".to_owned()),
        ("token", format!("halice={hash}\0s{token}\0ralice;produce;orders")),
        ("tokens", format!("talice:{hash}\n# no\n;bob:{hash}\0shmq_\0Sx")),
        ("wrong-token", format!("ta:{token}\0hanonymous={token}")),
    ])
}

// ---------------------------------------------------------------------------------------------------------------
// Bodies of administrative requests: a byte for which, and the text.

fn admin_json() -> Seeds {
    named([
        ("create", "\0{\"name\":\"orders\",\"partitions\":4,\"durability\":\"always\",\"retention_hours\":24,\"cleanup\":\"compact\"}".to_owned()),
        ("create-null", "\0{\"name\":\"a\",\"retention_mb\":null,\"timestamp\":\"broker\"}".to_owned()),
        ("create-nearly", "\0{\"name\":\"a\",\"partition\":1}".to_owned()),
        ("create-path", "\0{\"name\":\"../a\"}".to_owned()),
        ("alter", "\x01{\"partitions\":9,\"retention_hours\":null,\"max_payload_mb\":1}".to_owned()),
        ("alter-wrong", "\x01{\"partitions\":-1}".to_owned()),
        ("reset", "\x02{\"topic\":\"orders\",\"partitions\":[0,1],\"to\":\"earliest\",\"dry_run\":true}".to_owned()),
        ("reset-offset", "\x02{\"topic\":\"orders\",\"to\":{\"offset\":18446744073709551615}}".to_owned()),
        ("reset-time", "\x02{\"topic\":\"orders\",\"to\":{\"timestamp_ns\":1}}".to_owned()),
        ("produce", "\x03{\"key\":{\"data\":\"k\"},\"payload\":{\"encoding\":\"base64\",\"data\":\"aGk=\"},\"timestamp_ns\":7}".to_owned()),
        ("produce-not-base64", "\x03{\"payload\":{\"encoding\":\"base64\",\"data\":\"?\"}}".to_owned()),
        ("level", "\x04{\"log_level\":\"info,hermitmq::storage=debug\"}".to_owned()),
        ("list", "\0[\"a\",1]".to_owned()),
        ("twice", "\x01{\"partitions\":1,\"partitions\":2}".to_owned()),
        ("deep", format!("\0{{\"name\":{}", "[".repeat(1200))),
        ("deep-unknown", format!("\x02{{\"x\":{}", "{\"a\":".repeat(600))),
    ])
}

// ---------------------------------------------------------------------------------------------------------------
// A TLS connection: a byte for how, then steps.

/// Steps of the target.
const SAY: u8 = 0;
const DELIVER: u8 = 3;
const DELIVER_ALL: u8 = 6;
const FLIP: u8 = 8;
const DROP: u8 = 9;
const INSERT: u8 = 10;
const OTHER: u8 = 11;

fn transport() -> Seeds {
    let greeting = [SAY, 0x10, 0, DELIVER_ALL, DELIVER_ALL, DELIVER_ALL];
    let mut seeds = Seeds::new();
    for (name, how) in [("tls13", 0), ("tls12", 1)] {
        let mut add = |what: &str, how: u8, steps: &[u8]| {
            seeds.push((format!("{name}-{what}"), [&[how], steps].concat()));
        };
        for buffer in 0..4u8 {
            let large = [SAY, 0xff, 0xff, DELIVER_ALL, SAY, 0, 9, DELIVER_ALL];
            add(&format!("buffer-{buffer}"), how | buffer << 2, &[&greeting[..], &large].concat());
        }
        let cuts = [DELIVER, 0, 1, DELIVER, 0, 4, DELIVER, 1, 0, DELIVER_ALL, OTHER, 4];
        add("cut", how | 2, &[&greeting[..3], &cuts, &cuts, &[SAY, 0, 20], &cuts].concat());
        add("flip-hello", how | 2, &[&greeting[..3], &[FLIP, 0, 0, 1, DELIVER_ALL]].concat());
        let behind = |step: &[u8]| {
            [&greeting[..], &[SAY, 0, 50, SAY, 0, 60], step, &[DELIVER_ALL, DELIVER_ALL]].concat()
        };
        add("flip", how | 4, &behind(&[FLIP, 0, 80, 2]));
        add("drop", how, &behind(&[DROP, 0, 3, 1]));
        add("insert", how | 0xc, &behind(&[INSERT, 0, 0, 3, 0x17, 3, 3]));
        add("other-keys", how | 4, &behind(&[OTHER, 0, SAY, 0, 9]));
        add("end", how, &behind(&[OTHER, 1, DELIVER_ALL, SAY, 0, 9]));
        add(
            "end-before",
            how,
            &[&greeting[..], &[OTHER, 3, SAY, 0, 9, FLIP, 0, 7, 9, DELIVER_ALL]].concat(),
        );
        add("cut-off", how, &behind(&[DELIVER, 0, 30, OTHER, 2]));
    }
    seeds
}
