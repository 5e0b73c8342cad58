//! Layers, errors and the shipped file, as an operator meets them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use figment::providers::{Format as _, Toml};
use figment::value::{Dict, Value};

use super::{
    Config, ConfigError, Container, Cpus, Flag, Loaded, Memory, Sources, defaults, flatten,
};
use crate::telemetry::{LogFormat, Traces};

/// The file that the Go original ships, in its values.
const ORIGINAL: &str = r#"{
    "server": { "host": "0.0.0.0", "port": 9092, "handshake_timeout_sec": 5 },
    "storage": {
        "data_dir": "hermitmq-data", "max_segment_mb": 1024, "retention_hours": 168,
        "cleanup_interval_min": 5, "buffer_pool_size_kb": 32, "max_buffer_return_kb": 64,
        "flush_interval_ms": 500
    },
    "security": { "max_payload_mb": 50 }
}"#;

fn env(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn flag(key: &str, name: &str, value: &str) -> BTreeMap<String, Flag> {
    BTreeMap::from([(key.to_owned(), Flag { name: name.to_owned(), value: value.to_owned() })])
}

/// Loads a file of this name and text, with this environment.
fn load(name: &str, text: &str, variables: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(name);
    std::fs::write(&file, text).unwrap();
    Config::load(&Sources { file: Some(file), env: env(variables), ..Sources::default() })
}

fn load_env(variables: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    Config::load(&Sources { env: env(variables), ..Sources::default() })
}

/// The lines of the error, without the directory of the file.
fn lines(result: Result<Loaded, ConfigError>) -> Vec<String> {
    let text = result.unwrap_err().to_string();
    let dir = std::env::temp_dir().display().to_string();
    text.lines().map(|line| line.replace(&dir, "TMP")).collect()
}

#[test]
fn nothing_set_is_the_default() {
    let loaded = Config::load(&Sources::default()).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(loaded.sources["server.port"], "default");
    assert_eq!(loaded.sources.len(), flatten(&defaults().unwrap()).len());
}

#[test]
fn each_layer_wins_over_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hermitmq.toml");
    std::fs::write(&file, "server.port = 1\nserver.host = \"::1\"\nserver.reactors = 2").unwrap();
    let mut sources = Sources { search: vec![file.clone()], ..Sources::default() };
    let loaded = Config::load(&sources).unwrap();
    assert_eq!((loaded.config.server.port, loaded.config.server.reactors), (1, 2));
    assert_eq!(loaded.sources["server.port"], file.display().to_string());
    assert_eq!(loaded.file, Some(file.clone()));

    sources.env = env(&[("HERMITMQ_SERVER__PORT", "2"), ("HERMITMQ_SERVER__HOST", "10.0.0.1")]);
    let loaded = Config::load(&sources).unwrap();
    assert_eq!(loaded.config.server.port, 2);
    assert_eq!(loaded.sources["server.port"], "HERMITMQ_SERVER__PORT");

    sources.flags = flag("server.port", "--port", "3");
    let loaded = Config::load(&sources).unwrap();
    assert_eq!(loaded.config.server.port, 3);
    assert_eq!(loaded.sources["server.port"], "--port");
    assert_eq!(loaded.config.server.host, "10.0.0.1");
    assert_eq!(loaded.sources["server.host"], "HERMITMQ_SERVER__HOST");
    assert_eq!(loaded.config.server.reactors, 2);
    assert_eq!(loaded.sources["server.reactors"], file.display().to_string());
    assert_eq!(loaded.sources["topics.auto_create"], "default");
    let show = loaded.show().unwrap();
    assert!(show.contains("server.port = 3  # --port\n"), "{show}");
    assert!(show.contains("server.host = \"10.0.0.1\"  # HERMITMQ_SERVER__HOST\n"), "{show}");
    assert!(!show.contains("buffer_pool_size_kb"), "{show}");
}

#[test]
fn a_file_that_cannot_be_looked_at_is_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("right.toml"), "server.port = 1").unwrap();
    // Neither a file that is not there nor one below what is no directory is one.
    let search = vec![at("none.toml"), at("right.toml/a.toml"), at("right.toml")];
    let mut sources = Sources { search, ..Sources::default() };
    assert_eq!(Config::load(&sources).unwrap().config.server.port, 1);
    // Whoever runs the tests may be allowed to look everywhere.
    std::os::unix::fs::symlink(at("loop.toml"), at("loop.toml")).unwrap();
    sources.search.insert(0, at("loop.toml"));
    let error = Config::load(&sources).unwrap_err().to_string();
    assert!(error.contains("loop.toml: cannot see whether it is there: "), "{error}");
    std::fs::create_dir(at("dir.toml")).unwrap();
    sources.search.insert(0, at("dir.toml"));
    let error = Config::load(&sources).unwrap_err().to_string();
    assert!(error.ends_with("dir.toml: cannot read it: is a directory"), "{error}");
}

#[test]
fn the_file_of_the_original_works_unchanged() {
    let loaded = load("hermitmq.json", ORIGINAL, &[]).unwrap();
    let config = loaded.config;
    assert_eq!((config.server.host.as_str(), config.server.port), ("0.0.0.0", 9092));
    assert_eq!(config.storage.data_dir, PathBuf::from("hermitmq-data"));
    assert_eq!(config.storage.max_segment_mb, 1024);
    assert_eq!(config.security.max_payload_mb, 50);
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert_eq!(config.storage.retention_hours, 168);
    for (key, what) in
        [("storage.buffer_pool_size_kb ", "ignored"), ("storage.max_buffer_return_kb ", "ignored")]
    {
        let named = |w: &&String| w.starts_with(key) && w.contains("hermitmq.json");
        assert!(loaded.warnings.iter().find(named).unwrap().contains(what));
    }
}

#[test]
fn zero_and_less_mean_the_default_as_in_the_original() {
    let text = r#"{"storage": {"max_segment_mb": 0, "flush_interval_ms": -1, "data_dir": "",
        "buffer_pool_size_kb": 0}, "security": {"max_payload_mb": 0}}"#;
    let loaded = load("hermitmq.json", text, &[]).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings.len(), 5, "{:?}", loaded.warnings);
    assert!(loaded.warnings.iter().any(|w| {
        w.starts_with("storage.flush_interval_ms (set by ")
            && w.ends_with("is -1, which means the default, 500")
    }));
    assert_eq!(loaded.sources["storage.flush_interval_ms"], "default");
    assert_eq!(load_env(&[("HERMITMQ_SERVER__PORT", "0")]).unwrap().config.server.port, 0);
    let refused = lines(load_env(&[("HERMITMQ_TOPICS__DEFAULT_PARTITIONS", "0")]));
    assert_eq!(
        refused,
        ["topics.default_partitions (set by HERMITMQ_TOPICS__DEFAULT_PARTITIONS): \
             must be a whole number from 1 to 10000, not 0"]
    );
}

#[test]
fn an_unknown_key_is_named_with_its_layer_and_the_nearest() {
    let result = load(
        "a.toml",
        "prot = 1\n[server]\nhots = 'x'\n[sever]\nport = 1\n[storage]\nzzz = 1\n[topics]",
        &[("HERMITMQ_STORAGE__FLUSH_INTERVAL", "5"), ("HERMITMQ_server__port", "5")],
    );
    let lines = lines(result);
    let has = |start: &str, end: &str| {
        let found = lines.iter().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(found, "{start} … {end}: {lines:#?}");
    };
    has("prot (set by TMP/", "a.toml): unknown key; did you mean server.port?");
    has("server.hots (set by TMP/", "did you mean server.host?");
    has("sever.port (set by TMP/", "did you mean server.port?");
    has("storage.zzz (set by TMP/", "unknown key; `hermitmq config show` lists the keys");
    has(
        "storage.flush_interval (set by HERMITMQ_STORAGE__FLUSH_INTERVAL): ",
        "did you mean storage.flush_interval_ms?",
    );
    has("HERMITMQ_server__port: must be upper-case: ", "HERMITMQ_SERVER__PORT");
    assert_eq!(lines.len(), 6, "{lines:#?}");
}

#[test]
fn wrong_types_and_impossible_values_are_all_reported() {
    let result = load(
        "a.toml",
        "topics.auto_create = 'maybe'\ntelemetry.log_format = 'xml'\nstorage = 5\n\
         server.port = 70000\ntopics.default_partitions = 7\n",
        &[
            ("HERMITMQ_SERVER__HANDSHAKE_TIMEOUT_SEC", "soon"),
            ("HERMITMQ_SERVER__HOST", ""),
            ("HERMITMQ_TELEMETRY__LOG_LEVEL", "hermitmq=loud"),
            ("HERMITMQ_TELEMETRY__TRACE_SAMPLE_RATIO", "1.5"),
            ("HERMITMQ_TOPICS__MAX_PARTITIONS", "6"),
            ("HERMITMQ_SECURITY__MAX_PAYLOAD_MB", "4096"),
        ],
    );
    let lines = lines(result);
    for (start, end) in [
        ("topics.auto_create (set by TMP/", "must be true or false, not \"maybe\""),
        ("telemetry.log_format (set by TMP/", "must be one of auto, text, json, not \"xml\""),
        ("storage (set by TMP/", "this is a section with keys of its own, not 5"),
        ("server.port (set by TMP/", "must be a whole number from 0 to 65535, not 70000"),
        (
            "server.handshake_timeout_sec (set by HERMITMQ_SERVER__HANDSHAKE_TIMEOUT_SEC)",
            "must be a whole number of seconds from 1 to 3600, not \"soon\"",
        ),
        ("server.host (set by HERMITMQ_SERVER__HOST)", "0.0.0.0 listens on every address"),
        ("telemetry.log_level (set by HERMITMQ_TELEMETRY__LOG_LEVEL)", "not \"hermitmq=loud\""),
        ("telemetry.trace_sample_ratio (set by", "must be a number from 0.0 to 1.0, not 1.5"),
        (
            "topics.max_partitions (set by HERMITMQ_TOPICS__MAX_PARTITIONS)",
            "topics.max_partitions (6) must be at least topics.default_partitions (7)",
        ),
        (
            "security.max_payload_mb (set by",
            "must be a whole number of MiB from 1 to 1024, not 4096",
        ),
    ] {
        let found = lines.iter().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(found, "{start} … {end}: {lines:#?}");
    }
    assert_eq!(lines.len(), 10, "{lines:#?}");
}

/// A text where none fits, in the layers that know only texts, and the same in a file.
#[test]
fn a_wrong_value_is_told_alike_whatever_has_set_it() {
    for (key, given, said) in [
        ("server.port", "x", "must be a whole number from 0 to 65535, not \"x\""),
        ("server.reactors", "", "must be a whole number from 0 to 256, not \"\""),
        (
            "storage.retention_hours",
            "a week",
            "must be a whole number of hours from 1 to 4294967295, not \"a week\"",
        ),
        ("storage.cleanup_interval_min", "x", "of minutes from 1 to 4294967295, not \"x\""),
        ("compaction.mb_per_s", "x", "of MiB a second from 1 to 4095, not \"x\""),
        ("compaction.min_dirty_percent", "x", "of percent from 1 to 100, not \"x\""),
        ("security.max_key_kb", "x", "of KiB from 1 to 1024, not \"x\""),
        ("server.drain_delay_ms", "x", "of milliseconds from 0 to 3600000, not \"x\""),
        ("admin.tls", "yes", "must be true or false, not \"yes\""),
        ("storage.durability", "never", "must be one of interval, always, not \"never\""),
        ("telemetry.trace_sample_ratio", "half", "must be a number from 0.0 to 1.0, not \"half\""),
        ("security.quota", "x", "is a list in a file, each of it a table [[security.quota]]"),
        ("admin.listen", "x", "or empty for no listener, not \"x\""),
    ] {
        let variable = format!("HERMITMQ_{}", key.replace('.', "__").to_uppercase());
        let flags = flag(key, "--set", given);
        let of_flag = Config::load(&Sources { flags, ..Sources::default() });
        for (result, layer) in [
            (load("a.toml", &format!("{key} = '{given}'"), &[]), "a.toml"),
            (load_env(&[(&variable, given)]), &variable),
            (of_flag, "--set"),
        ] {
            let lines = lines(result);
            assert_eq!(lines.len(), 1, "{lines:#?}");
            assert!(lines[0].starts_with(&format!("{key} (set by ")), "{lines:#?}");
            assert!(lines[0].contains(&format!("{layer}): ")), "{lines:#?}");
            assert!(lines[0].ends_with(said), "{lines:#?}");
        }
    }
}

#[test]
fn a_value_of_another_type_is_told_with_what_it_must_be() {
    for (text, said) in [
        ("storage.durability = 7", "must be one of interval, always, not 7"),
        ("tls.client_auth = []", "must be one of off, optional, required, not a list"),
        ("server.reactors = [1]", "must be a whole number from 0 to 256, not a list"),
        ("storage.max_segment_mb = 2.5", "must be a whole number of MiB from 1 to 65536, not 2.5"),
        ("tls.cert_file = 3", "must be a string, not 3"),
        ("server.port.a = 1", "must be a whole number from 0 to 65535, not a table"),
        ("server.host.a = 1", "must be a string, not a table"),
        ("storage.durability.a = 1", "must be one of interval, always, not a table"),
        ("security.quota.a = 1", "is a list in a file, each of it a table [[security.quota]]"),
        ("server.host = false", "must be a string, not false"),
        ("topics.auto_create = 1", "must be true or false, not 1"),
        ("telemetry.trace_sample_ratio = nan", "must be a number from 0.0 to 1.0, not NaN"),
        (
            "[[security.quota]]\nprincipal = 5",
            "security.quota[0].principal (set by TMP): must be a string, not 5",
        ),
        ("security.quota = [7]", "security.quota[0] (set by TMP): must be a table, not 7"),
    ] {
        let lines = lines(load("a.toml", text, &[]));
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let (start, end) = said.split_once("TMP)").unwrap_or(("", said));
        assert!(lines[0].starts_with(start) && lines[0].ends_with(end), "{text}: {lines:#?}");
    }
}

#[test]
fn what_is_wrong_between_keys_is_told_beside_what_is_wrong_with_others() {
    let text = "server.port = 'x'\ntls.mode = 'required'\nadmin.listen = '0.0.0.0:9093'\n\
                access.tokens = 'nothing'\n";
    let lines = lines(load("a.toml", text, &[]));
    for start in ["server.port (", "admin.listen (", "access.tokens (entry 1) ("] {
        assert!(lines.iter().any(|line| line.starts_with(start)), "{start}: {lines:#?}");
    }
    for file in ["tls.cert_file", "tls.key_file"] {
        let end = format!("needs {file}, which is not set");
        let is = |line: &String| line.starts_with("tls.mode (") && line.ends_with(&end);
        assert!(lines.iter().any(is), "{file}: {lines:#?}");
    }
    assert_eq!(lines.len(), 5, "{lines:#?}");
}

#[test]
fn what_kubernetes_and_docker_inject_does_no_harm() {
    let noise = [
        ("HERMITMQ_PORT", "tcp://10.96.0.7:9092"),
        ("HERMITMQ_SERVICE_HOST", "10.96.0.7"),
        ("HERMITMQ_SERVICE_PORT", "9092"),
        ("HERMITMQ_SERVICE_PORT_BROKER", "9092"),
        ("HERMITMQ_PORT_9092_TCP", "tcp://10.96.0.7:9092"),
        ("HERMITMQ_PORT_9092_TCP_PROTO", "tcp"),
        ("HERMITMQ_NAME", "/web/hermitmq"),
        ("HERMITMQ_ENV_HERMITMQ_SERVER__HOST", "0.0.0.0"),
        ("HERMITMQ__X_SERVICE_HOST", "10.96.0.8"),
        ("HERMITMQ_BROKER", "127.0.0.1:9092"),
        ("OTHER_SERVER__PORT", "1"),
    ];
    let loaded = load_env(&noise).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn text_takes_the_type_of_its_key() {
    let loaded = load_env(&[
        ("HERMITMQ_STORAGE__DATA_DIR", "123"),
        ("HERMITMQ_TOPICS__AUTO_CREATE", "false"),
        ("HERMITMQ_TELEMETRY__TRACE_SAMPLE_RATIO", "1"),
        ("HERMITMQ_TELEMETRY__TRACES", "stdout"),
        ("HERMITMQ_TELEMETRY__LOG_FORMAT", "json"),
        ("HERMITMQ_TELEMETRY__LOG_LEVEL", "info,hermitmq::storage=debug"),
    ])
    .unwrap()
    .config;
    assert_eq!(loaded.storage.data_dir, PathBuf::from("123"));
    assert!(!loaded.topics.auto_create);
    assert_eq!(loaded.telemetry.traces, Traces::Stdout);
    assert_eq!(loaded.telemetry.log_format, LogFormat::Json);
}

#[test]
fn files_that_cannot_be_read_are_reported_in_one_line() {
    let missing = Sources { file: Some("/nonexistent/a.toml".into()), ..Sources::default() };
    let error = Config::load(&missing).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/a.toml: cannot read it: No such file"), "{error}");
    for (name, text, want) in [
        ("a.toml", "[server]\nport = \n", "not valid TOML: line 2: "),
        ("a.json", "{\"server\": ", "not valid JSON: EOF while parsing a value at line 1"),
        ("a.yaml", "server:", "must end in .toml or .json"),
    ] {
        let lines = lines(load(name, text, &[]));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(want), "{lines:?}");
    }
}

#[test]
fn the_shipped_file_lists_every_key_with_its_default() {
    let shipped = include_str!("../../config/hermitmq.toml");
    let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
    let active: Vec<&str> =
        shipped.lines().map(|line| if is_setting(line) { &line[1..] } else { line }).collect();
    let listed: Dict = Toml::from_str(&active.join("\n")).unwrap();
    let mut expected = flatten(&defaults().unwrap());
    expected.retain(|_, value| !matches!(value, Value::Empty(..)));
    let plain = |values: BTreeMap<String, Value>| -> Vec<String> {
        values.iter().map(|(key, value)| format!("{key} = {}", super::shown(value))).collect()
    };
    assert_eq!(plain(flatten(&listed)), plain(expected));

    let loaded = load("hermitmq.toml", shipped, &[]).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, Vec::<String>::new(), "as shipped it sets nothing");
}

#[test]
fn every_range_is_of_a_key_that_exists_and_holds_its_default() {
    for (key, default) in flatten(&defaults().unwrap()) {
        let Some((min, max)) = super::keys::range(&key) else { continue };
        if let Some(number) = default.to_u128() {
            assert!((u128::from(min)..=u128::from(max)).contains(&number), "{key}");
        }
    }
    let numbers = flatten(&defaults().unwrap())
        .into_iter()
        .filter(|(_, value)| value.to_u128().is_some() || matches!(value, Value::Empty(..)))
        .map(|(key, _)| key);
    let ranged = numbers.filter(|key| super::keys::range(key).is_some()).count();
    assert_eq!(ranged, 38, "each whole-number key has its range");
}

#[test]
fn the_container_decides_what_is_left_to_it() {
    let container = |memory: u64| Container {
        cpus: Some(Cpus { count: 3, source: "cpu quota 2.5 of cgroup v2".to_owned() }),
        memory: Some(Memory { bytes: memory, source: "memory limit".to_owned() }),
    };
    let of = |memory, variables: &[(&str, &str)]| {
        let sources =
            Sources { env: env(variables), container: container(memory), ..Sources::default() };
        let loaded = Config::load(&sources).unwrap();
        let config = &loaded.config;
        let values = (config.server.reactors, config.security.receive_memory_mb);
        (values, loaded.show().unwrap())
    };
    let (values, show) = of(512 << 20, &[]);
    assert_eq!(values, (3, 128));
    assert!(show.contains("server.reactors = 3  # cpu quota 2.5 of cgroup v2\n"), "{show}");
    assert!(
        show.contains("security.receive_memory_mb = 128  # a quarter of memory limit\n"),
        "{show}"
    );
    assert!(show.contains("security.max_connections = 20000  # default\n"), "{show}");
    let show = of(64 << 20, &[]).1;
    let fewer = "security.max_connections = 8192  # 2 KiB each of a quarter of memory limit\n";
    assert!(show.contains(fewer), "{show}");
    let (values, show) = of(1 << 20, &[("HERMITMQ_SERVER__REACTORS", "0")]);
    assert_eq!(values, (3, 1), "never nothing");
    assert!(show.contains("server.reactors = 3  # cpu quota"), "{show}");
    let (values, show) = of(64 << 30, &[("HERMITMQ_SERVER__REACTORS", "5")]);
    assert_eq!(values, (5, 256), "no more than without a limit");
    assert!(show.contains("receive_memory_mb = 256  # default\n"), "{show}");
    let set = [("HERMITMQ_SECURITY__RECEIVE_MEMORY_MB", "300")];
    assert_eq!(of(64 << 20, &set).0, (3, 300), "what is set holds");
}

const TOPICS: &str = "[storage]\ndurability = 'always'\n[topics]\ndefault_partitions = 2\n\
    [[topic]]\nname = 'orders'\npartitions = 4\ndurability = 'interval'\n\
    retention_hours = 0\n[[topic]]\nname = 'plain'\n";

#[test]
fn topics_are_declared_in_tables() {
    let loaded = load("a.toml", TOPICS, &[]).unwrap();
    let [orders, plain] = &loaded.config.topic[..] else { panic!("{:?}", loaded.config.topic) };
    assert_eq!((orders.name.as_str(), orders.partitions), ("orders", Some(4)));
    assert_eq!(format!("{:?}", orders.durability), "Some(Interval)");
    assert_eq!((plain.name.as_str(), plain.partitions), ("plain", None));
    assert_eq!(plain.durability, None);
    assert_eq!((orders.retention_hours, orders.retention_mb), (Some(0), None));
    assert!(loaded.sources["topic[1].name"].ends_with("a.toml"));
    let show = loaded.show().unwrap();
    let list: Vec<&str> = show.lines().filter(|line| line.starts_with("topic[")).collect();
    let starts = [
        "topic[0].durability = \"interval\"  # ",
        "topic[0].name = \"orders\"  # ",
        "topic[0].partitions = 4  # ",
        "topic[0].retention_hours = 0  # ",
        "topic[1].name = \"plain\"  # ",
    ];
    assert_eq!(list.len(), starts.len(), "{show}");
    assert!(list.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{show}");
    assert!(show.contains("storage.durability = \"always\"  # "), "{show}");

    let json = r#"{"topic": [{"name": "a", "partitions": null}], "storage": {"min_free_mb": 0}}"#;
    let config = load("a.json", json, &[]).unwrap().config;
    assert_eq!((config.topic.len(), config.topic[0].partitions), (1, None));
    assert_eq!(config.storage.min_free_mb, 0);
    let env =
        [("HERMITMQ_STORAGE__DURABILITY", "always"), ("HERMITMQ_STORAGE__ON_CORRUPTION", "skip")];
    let storage = load_env(&env).unwrap().config.storage;
    assert_eq!(format!("{:?} {:?}", storage.durability, storage.on_corruption), "Always Skip");
}

#[test]
fn what_is_wrong_with_a_declared_topic_is_named() {
    let table = |lines: &[&str]| format!("[[topic]]\n{}\n", lines.join("\n"));
    let text = [
        table(&["name = 'right'"]),
        table(&["name = 'a'", "durability = 'sometimes'", "partitons = 2"]),
        table(&["name = 'right'", "partitions = 0"]),
        table(&["partitions = 'many'", "durability = true"]),
        table(&["name = '../a'", "zzz = 1"]),
        table(&["name = '__consumer_offsets'", "partitions = 10001"]),
        table(&["name = 7", "retention_mb = -1"]),
        table(&["name = 'b'", "max_segment_mb = 0", "max_payload_mb = 1025"]),
    ]
    .concat();
    let lines = lines(load("a.toml", &text, &[]));
    let expected = [
        ("topic[1].durability (", "must be one of interval, always, not \"sometimes\""),
        ("topic[1].partitons (", "unknown key; did you mean topic[1].partitions?"),
        ("topic[2].name (", "\"right\" is declared by topic[0] already"),
        ("topic[2].partitions (", "must be a whole number from 1 to 10000, not 0"),
        ("topic[3].name (", "is missing: a declared topic has a name"),
        ("topic[3].partitions (", "must be a whole number from 1 to 10000, not \"many\""),
        ("topic[3].durability (", "must be one of interval, always, not true"),
        ("topic[4].name (", "contains the byte 0x2f; allowed are A-Z a-z 0-9 . _ -"),
        ("topic[4].zzz (", "topic[4].retention_hours, topic[4].retention_mb, topic[4].timestamp"),
        ("topic[5].name (", "\"__consumer_offsets\" is a name that the broker keeps for itself"),
        ("topic[5].partitions (", "must be a whole number from 1 to 10000, not 10001"),
        ("topic[6].name (", "must be a string, not 7"),
        ("topic[6].retention_mb (", "must be a whole number of MiB from 0 to 4294967295, not -1"),
        ("topic[7].max_segment_mb (", "must be a whole number of MiB from 1 to 65536, not 0"),
        ("topic[7].max_payload_mb (", "must be a whole number of MiB from 1 to 1024, not 1025"),
    ];
    for (start, end) in expected {
        let found = lines.iter().any(|line| {
            line.starts_with(start) && line.contains("set by TMP/") && line.ends_with(end)
        });
        assert!(found, "{start} … {end}: {lines:#?}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}

#[test]
fn topics_that_are_no_tables_are_refused() {
    let declared = "topics are declared in a file, each as a table [[topic]]";
    let both = |text, variables: &[(&str, &str)]| lines(load("a.toml", text, variables)).join("\n");
    for (text, start) in [
        ("topic = 5", "topic (set by TMP/"),
        ("[topic]\nname = 'a'", "topic.name (set by TMP/"),
        ("topic = ['a']", "topic[0] (set by TMP/"),
    ] {
        let line = both(text, &[]);
        assert!(line.starts_with(start) && line.ends_with(declared), "{line}");
    }
    let line = both(TOPICS, &[("HERMITMQ_TOPIC__NAME", "a")]);
    assert_eq!(line, format!("topic.name (set by HERMITMQ_TOPIC__NAME): {declared}"));
    let line = both("[[topics]]\nname = 'a'", &[]);
    assert!(line.ends_with("not a list; topics are declared as [[topic]]"), "{line}");
    let line = both("[[topc]]\nname = 'a'", &[]);
    assert!(line.ends_with("unknown key; did you mean topic?"), "{line}");
    let line = both("storage.durability = 'allways'", &[]);
    assert!(line.ends_with("must be one of interval, always, not \"allways\""), "{line}");
}

#[test]
fn what_would_stop_the_start_is_found_by_the_check() {
    let found = |text: &str| lines(load("a.toml", text, &[]));
    let public = found("[admin]\nlisten = '0.0.0.0:9093'");
    assert_eq!(public.len(), 1, "{public:#?}");
    assert!(public[0].starts_with("admin.listen (set by TMP/"), "{public:#?}");
    assert!(public[0].ends_with("set admin.insecure = true"), "{public:#?}");
    for fine in ["'0.0.0.0:9093'\ninsecure = true", "'[::1]:9093'", "'localhost:9093'", "''"] {
        assert!(load("a.toml", &format!("[admin]\nlisten = {fine}"), &[]).is_ok(), "{fine}");
    }
    let topics = "[[topic]]\nname = 'a'\npartitions = 3\n[[topic]]\nname = 'b'\n";
    let many = found(&format!("[topics]\nmax_topics = 1\nmax_partitions = 3\n{topics}"));
    assert_eq!(many.len(), 2, "{many:#?}");
    assert!(
        many[0].ends_with("topics.max_topics (1) must be at least the 2 topics that are declared")
    );
    let partitions =
        "topics.max_partitions (3) must be at least the 4 partitions that are declared";
    assert!(many[1].ends_with(partitions), "{many:#?}");
    assert!(
        load("a.toml", &format!("[topics]\nmax_topics = 2\nmax_partitions = 4\n{topics}"), &[])
            .is_ok()
    );
}

#[test]
fn quotas_are_tables_each_of_its_own_principal() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    let load = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Config::load(&Sources { file: Some(file.clone()), ..Sources::default() })
    };
    let table = |fields: &str| format!("[[security.quota]]\nprincipal = \"192.0.2.1\"\n{fields}\n");
    let show = load(&table("consume_kb_per_s = 9")).unwrap().show().unwrap();
    let line = "security.quota = [{ consume_kb_per_s = 9, principal = \"192.0.2.1\" }]  # ";
    assert!(show.contains(line), "{show}");
    let show = load("").unwrap().show().unwrap();
    assert!(show.contains("security.quota = []  # default\n"), "{show}");
    let of = |principal: &str| format!("[[security.quota]]\nprincipal = '{principal}'\n");
    let loaded = load(&[of("::ffff:10.0.0.1"), of("2001:DB8::1"), of("anonymous")].concat());
    let loaded = loaded.unwrap();
    let names: Vec<_> = loaded.config.security.quota.iter().map(|it| &*it.principal).collect();
    assert_eq!(names, ["10.0.0.1", "2001:db8::1", "anonymous"], "as connections are looked up");
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let rule = "[[access.network]]\ncidr = '10.0.0.0/8'\nprincipal = 'billing'\n";
    let warnings = load(&[&of("biling"), &of("10.1.0.0/16"), rule].concat()).unwrap().warnings;
    let start = format!("security.quota[0].principal (set by {}): nobody can be ", file.display());
    assert!(warnings[0].starts_with(&start), "{warnings:?}");
    assert!(warnings[0].ends_with("did you mean \"billing\"?"), "{warnings:?}");
    assert!(warnings[1].contains("nobody can be \"10.1.0.0/16\""), "{warnings:?}");
    let twice = [table(""), table("")].concat();
    for (wrong, why) in [
        (&*twice, "more than one quota"),
        (&[of("10.0.0.1"), of("::ffff:10.0.0.1")].concat(), "more than one quota"),
        (
            &of("*"),
            "security.quota[0].principal (set by FILE): a principal has 1 to 255 bytes, \
             no control characters, no blank at its ends, and is not *, not \"*\"",
        ),
        (
            &of(""),
            "security.quota[0].principal (set by FILE): a principal has 1 to 255 bytes, \
             no control characters, no blank at its ends, and is not *, not \"\"",
        ),
        (
            &table("produce_kb_per_s = 0"),
            "security.quota[0].produce_kb_per_s (set by FILE): \
             must be a whole number of KiB a second from 1 to 4294967295, not 0",
        ),
        (
            &table("produce = 1"),
            "security.quota[0].produce (set by FILE): \
             unknown key; did you mean security.quota[0].produce_kb_per_s?",
        ),
        (
            "[[security.quota]]\nproduce_kb_per_s = 1\n",
            "security.quota[0].principal (set by FILE): is missing",
        ),
        (
            "security.quota = 5\n",
            "security.quota (set by FILE): is a list in a file, each of it a table [[security.quota]]",
        ),
    ] {
        let error = load(wrong).unwrap_err().to_string();
        assert!(error.ends_with(&why.replace("FILE", &file.display().to_string())), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
