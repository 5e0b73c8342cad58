//! The commands, and that no secret is ever shown.

use std::fs;
use std::process::Output;

use super::support::{hermitmq, run_to_end};
use super::{Guarded, RULES, generate};

fn run(words: &[&str], env: &[(&str, &str)], input: &str) -> (i32, String) {
    let mut command = hermitmq(words);
    command.envs(env.iter().copied());
    let Output { status, stdout, stderr } = run_to_end(command, input.as_bytes().to_vec());
    let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    (status.code().unwrap(), text)
}

#[test]
fn tokens_are_made_and_shown_by_file_or_environment() {
    let guarded = Guarded::start();
    let broker = guarded.broker.addr().to_string();
    let admin = guarded.broker.admin().to_string();
    let file = guarded.dir.path().join("alice.token");
    fs::write(&file, format!("{}\n", guarded.token("alice"))).unwrap();
    let file = file.display().to_string();
    let produce = ["produce", "orders", "--broker", &broker];
    let (code, said) = run(&produce, &[], "x\n");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("unauthorized: anonymous may not produce to topic orders"), "{said}");
    let (code, said) = run(&[&produce[..], &["--token-file", &file]].concat(), &[], "x\n");
    assert_eq!(code, 0, "{said}");
    let (code, said) = run(&produce, &[("HERMITMQ_TOKEN_FILE", &file)], "y\n");
    assert_eq!(code, 0, "{said}");
    let consume = ["consume", "orders", "--broker", &broker, "--until-end", "--group", "bob-1"];
    let (code, said) = run(&consume, &[("HERMITMQ_TOKEN", guarded.token("bob"))], "");
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("x\ny\n"), "{said}");
    let (code, said) = run(&consume, &[("HERMITMQ_TOKEN", "hmq_000000000000_no")], "");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("unauthenticated: the token is not valid"), "{said}");
    // A group that may not commit what it has read.
    let consume = ["consume", "orders", "--broker", &broker, "--until-end", "--group", "carol"];
    let (code, said) = run(&consume, &[("HERMITMQ_TOKEN", guarded.token("carol"))], "");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("unauthorized: carol may not commit for group carol"), "{said}");
    let list = ["topic", "list", "--admin", &admin];
    let (code, said) = run(&list, &[], "");
    assert_eq!(code, 1, "{said}");
    let (code, said) = run(&list, &[("HERMITMQ_TOKEN", guarded.token("ops"))], "");
    assert_eq!(code, 0, "{said}");
    assert_eq!(run(&["health", "--admin", &admin], &[], "").0, 0, "health needs none");
    let (code, said) = run(&[&produce[..], &["--token-file", "/nonexistent"]].concat(), &[], "");
    assert_eq!(code, 2, "{said}");
    assert!(run(&["produce", "--help"], &[], "").1.contains("--token-file"));
}

#[test]
fn a_generated_token_works_where_its_line_stands() {
    let (code, said) = run(&["token", "generate", "--principal", "dora"], &[], "");
    assert_eq!(code, 0, "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
    let [token, line] = lines[..] else { panic!("{said}") };
    assert!(token.starts_with("hmq_") && line.starts_with("dora:$argon2id$"), "{said}");
    let (code, other) = run(&["token", "generate"], &[], "");
    assert_eq!(code, 0);
    assert!(other.contains("\nPRINCIPAL:$argon2id$") && !other.contains(token), "{other}");
    assert_eq!(run(&["token", "generate", "--principal", "*"], &[], "").0, 2);
    let rules = format!(
        "access.tokens = {line:?}\n[[access.rule]]\nprincipals = ['dora']\noperations = ['produce']\n\
         topics = ['*']\n{RULES}"
    );
    let guarded = Guarded::start_with(&rules);
    let broker = guarded.broker.addr().to_string();
    let (code, said) =
        run(&["produce", "orders", "--broker", &broker], &[("HERMITMQ_TOKEN", token)], "x\n");
    assert_eq!(code, 0, "{said}");
}

#[test]
fn secrets_are_shown_nowhere() {
    let secret = generate().unwrap();
    let text = format!(
        "access.tokens = 'extra:{}'\n[[access.token]]\nprincipal = 'table'\nhash = '{}'\n{RULES}",
        generate().unwrap().hash,
        secret.hash
    );
    let guarded = Guarded::start_with(&text);
    let broker = guarded.broker.addr().to_string();
    for principal in ["alice", "bob"] {
        let token = guarded.token(principal);
        run(&["produce", "orders", "--broker", &broker], &[("HERMITMQ_TOKEN", token)], "x\n");
    }
    let wrong = format!("{}x", guarded.token("alice"));
    let (_, mut all) =
        run(&["produce", "orders", "--broker", &broker], &[("HERMITMQ_TOKEN", &wrong)], "x\n");
    let config = guarded.config().display().to_string();
    let (code, show) = run(&["config", "show", "--config", &config], &[], "");
    assert_eq!(code, 0, "{show}");
    assert!(show.contains("access.tokens = \"(hidden)\""), "{show}");
    assert!(show.contains("access.token[0].hash = \"(hidden)\""), "{show}");
    assert!(show.contains("access.rule[0].topics = [\"orders\"]  # "), "{show}");
    all += &show;
    for path in ["/api/v1/config", "/api/v1/cluster", "/api/v1/connections", "/metrics"] {
        let answer = guarded.ask("ops", "GET", path, "");
        assert_eq!(answer.status, 200);
        all += &answer.body;
    }
    assert_eq!(guarded.ask("alice", "DELETE", "/api/v1/topics/orders", "").status, 403);
    let bad = guarded.dir.path().join("bad.toml");
    let hash = &guarded.tokens["alice"].hash;
    fs::write(&bad, format!("[[access.token]]\nprincipal = 'a'\nhash = '{hash}x'\n")).unwrap();
    let (code, said) = run(&["config", "check", &bad.display().to_string()], &[], "");
    assert_eq!(code, 2, "{said}");
    all += &said;
    guarded.audit(|line| line.get("principal") == "bob");
    all += &guarded.broker.log_text();
    for made in guarded.tokens.values().chain([&secret]) {
        let hash = made.hash.rsplit('$').next().unwrap();
        assert!(!all.contains(&made.token[17..]), "a token");
        assert!(!all.contains(hash), "a hash");
    }
    assert!(!all.contains("argon2id$v=19$m"), "{all}");
}

#[test]
fn a_decision_is_explained() {
    let guarded = Guarded::start();
    let config = guarded.config().display().to_string();
    let can = |words: &[&str]| {
        run(&[&["config", "check", &config, "--can"][..], words].concat(), &[], "")
    };
    for (words, code, said) in [
        (
            ["alice", "produce", "orders"],
            0,
            "allowed: alice produce topic orders: access.rule[0] allows it",
        ),
        (["bob", "produce", "orders"], 1, "denied: bob produce topic orders: no rule allows it"),
        (
            ["bob", "commit", "bob-7"],
            0,
            "allowed: bob commit group bob-7: access.rule[1] allows it",
        ),
        (
            ["bob", "consume", "group:bob-7"],
            0,
            "allowed: bob consume group bob-7: access.rule[1] allows it",
        ),
        (["ops", "admin", "broker"], 0, "allowed: ops admin the broker: access.rule[5] allows it"),
        (
            ["team", "admin", "topic:team-x"],
            0,
            "allowed: team admin topic team-x: access.rule[6] allows it",
        ),
        (["team", "admin", "broker"], 1, "denied: team admin the broker: no rule allows it"),
    ] {
        assert_eq!(can(&words), (code, format!("{said}\n")), "{words:?}");
    }
    assert_eq!(can(&["alice", "prod", "orders"]).0, 2);
    assert_eq!(can(&["alice", "produce", "a/b"]).0, 2);
    assert_eq!(can(&["alice", "produce"]).0, 2);
    let (code, said) = run(&["config", "check", &config], &[], "");
    assert_eq!((code, said.as_str()), (0, &*format!("{config}: ok\n")));
    // Without rules everything is allowed, as before there were any.
    let open = guarded.dir.path().join("open.toml");
    fs::write(&open, "").unwrap();
    let open = open.display().to_string();
    let (code, said) = run(&["config", "check", &open, "--can", "x", "admin", "broker"], &[], "");
    assert_eq!(code, 0);
    assert!(said.contains("there are no rules"), "{said}");
}

#[test]
fn the_check_names_what_is_wrong_with_its_key() {
    let guarded = Guarded::start();
    let file = guarded.dir.path().join("wrong.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        run(&["config", "check", &file.display().to_string()], &[], "")
    };
    let rule = |fields: &str| format!("[[access.rule]]\nprincipals = ['a']\n{fields}\n");
    for (text, key, end) in [
        (
            rule("operations = ['prodce']\ntopics = ['*']"),
            "access.rule[0].operations (set by ",
            "did you mean \"produce\"?",
        ),
        (
            rule("operation = ['produce']"),
            "access.rule[0].operation (set by ",
            "did you mean access.rule[0].operations?",
        ),
        (
            rule("operations = 'admin'"),
            "access.rule[0].operations (set by ",
            "must be a list of strings, not \"admin\"",
        ),
        (
            "[[access.network]]\ncidr = '10.0.0.1/8'\nprincipal = 'a'".to_owned(),
            "access.network[0].cidr (set by ",
            "did you mean 10.0.0.0/8?",
        ),
        (
            "[[access.network]]\ncidr = '10.0.0.0/8'".to_owned(),
            "access.network[0].principal (set by ",
            "is missing",
        ),
        (
            "[access]\nrule = 5".to_owned(),
            "access.rule (set by ",
            "each of it a table [[access.rule]]",
        ),
        (
            "[[access.token]]\nprincipal = 'a'\nhash = 'x'".to_owned(),
            "access.token[0].hash (set by ",
            "($argon2id$…)",
        ),
        ("[[acess.rule]]".to_owned(), "acess.rule (set by ", "did you mean access.rule?"),
    ] {
        let (code, said) = check(&text);
        assert_eq!(code, 2, "{text}: {said}");
        let found = said.lines().any(|line| line.contains(key) && line.ends_with(end));
        assert!(found, "{key} … {end}: {said}");
    }
}

#[test]
fn what_a_start_may_still_find_right_is_a_warning() {
    let guarded = Guarded::start();
    let file = guarded.dir.path().join("wrong.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        run(&["config", "check", &file.display().to_string()], &[], "")
    };
    // Whoever asks what rules allow may be another user than the broker is.
    let missing = "access.tokens_file = '/nonexistent/tokens'\n";
    let why = "access.tokens_file: cannot read /nonexistent/tokens: No such file";
    let (code, said) = check(missing);
    assert_eq!(code, 2, "{said}");
    assert!(said.starts_with(&format!("hermitmq: {why}")) && said.lines().count() == 1, "{said}");
    let config = file.display().to_string();
    let (code, said) = run(&["config", "check", &config, "--can", "x", "admin", "broker"], &[], "");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("access.tokens_file (set by "), "{said}");
    let data = guarded.dir.path().join("other").display().to_string();
    let (code, said) =
        run(&["serve", "--config", &config, "--port", "0", "--data-dir", &data], &[], "");
    assert_ne!(code, 0, "{said}");
    assert!(said.contains(why), "{said}");
    let token = generate().unwrap();
    let text = format!(
        "[[access.token]]\nprincipal = 'alice'\nhash = '{}'\n[[access.rule]]\nprincipals = ['alcie']\n\
         operations = ['admin']\n",
        token.hash
    );
    let (code, said) = check(&text);
    assert_eq!(code, 0, "a warning: {said}");
    assert!(
        said.contains("access.rule[0].principals") && said.contains("did you mean \"alice\"?"),
        "{said}"
    );
}

#[test]
fn a_guarded_broker_is_measured_with_a_token() {
    let both = "[[access.rule]]\nprincipals = ['team']\noperations = ['produce', 'consume']\ntopics = ['orders']\n";
    let guarded = Guarded::start_with(&format!("{both}{RULES}"));
    let broker = guarded.broker.addr().to_string();
    for load in [
        &["produce", "--count", "100", "--window", "1"][..],
        &["consume", "--count", "100", "--connections", "2"],
        &["e2e", "--count", "10", "--rate", "1000"],
    ] {
        let words = [&["bench"], load, &["--broker", &broker, "--topic", "orders"]].concat();
        let (code, said) = run(&words, &[("HERMITMQ_TOKEN", guarded.token("team"))], "");
        assert_eq!(code, 0, "{said}");
        let (code, said) = run(&words, &[("HERMITMQ_TOKEN", guarded.token("carol"))], "");
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("unauthorized: carol may not produce to topic orders"), "{said}");
        assert_eq!(run(&words, &[], "").0, 1, "not without one");
    }
}
