//! What cannot run says why, in one line that a person can act on, and leaves everything as it was.

use serde_json::json;

use crate::cli::house::{House, free_port, import_line, text};

#[test]
fn a_bad_setting_is_shown_with_line_caret_and_the_known_keys() {
    let house = House::new();
    house.configure("owner = \"ann\"\n[policy]\nidle_aftre = \"2h\"\n");
    let said = house.call(&["sweep"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    let lines: Vec<&str> = said.err.lines().collect();
    assert!(lines[0].starts_with("sexton: ") && lines[0].contains("config.toml: line 3, column 1"), "{said:?}");
    assert!(said.err.contains("3 | idle_aftre = \"2h\"") && said.err.contains("^^^^^^^^^^"), "{said:?}");
    assert!(said.err.contains("unknown field `idle_aftre`") && said.err.contains("`idle_after`"), "{said:?}");
    assert!(!house.path("state").exists(), "nothing was made");
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let house = House::new();
    assert!(house.refused(&["sweep", "--config", "no.toml"]).contains("cannot read the settings in no.toml"));
    let file = house.write("other.toml", "owner = \"bob\"");
    let config = house.json(&["config", "--json", "--config", text(&file)]);
    assert_eq!((&config["file"], &config["settings"]["owner"]), (&json!(file), &json!("bob")));
}

#[test]
fn a_variable_that_is_no_setting_is_refused_by_name() {
    let mut house = House::new();
    house.set("SEXTON_POLICY__IDLE_AFTRE", "2h");
    let why = house.refused(&["sweep"]);
    assert_eq!(
        why,
        "SEXTON_POLICY__IDLE_AFTRE: no setting has this variable; the nearest is SEXTON_POLICY__IDLE_AFTER"
    );
}

#[test]
fn settings_that_contradict_each_other_are_refused_by_name() {
    let mut house = House::new();
    house.set("SEXTON_POLICY__ACTIVITY_THROTTLE", "2h");
    assert!(house.refused(&["sweep"]).contains("policy.activity_throttle (2h)"));
}

#[test]
fn an_address_that_is_none_is_refused_with_one_that_is() {
    let mut house = House::new();
    house.set("SEXTON_SERVER__LISTEN", "localhost:7117");
    let why = house.refused(&["sweep"]);
    assert!(why.starts_with("SEXTON_SERVER__LISTEN: ") && why.contains("such as \"127.0.0.1:7117\""), "{why}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let mut house = House::new();
    let (cert, key) = (house.write("cert.pem", "nothing"), house.write("key.pem", "nothing"));
    for (table, command) in [("RUNNER", "runner"), ("SERVER", "serve")] {
        house.set(&format!("SEXTON_{table}__LISTEN"), &format!("127.0.0.1:{}", free_port()));
        house.set(&format!("SEXTON_{table}__TLS_CERT"), text(&cert));
        let table = table.to_lowercase();
        assert!(house.refused(&[command]).starts_with(&format!("{table}.tls_cert and {table}.tls_key")), "{command}");
        house.set(&format!("SEXTON_{}__TLS_KEY", table.to_uppercase()), text(&key));
        let why = house.refused(&[command]);
        assert!(why.starts_with(&format!("{table}.tls_cert: {} holds no certificate", cert.display())), "{why}");
    }
    house.set("SEXTON_SERVER__RUNNER_CA", text(&cert));
    assert!(house.refused(&["sessions"]).contains("(server.runner_ca) are none in PEM"));
    house.set("SEXTON_SERVER__RUNNER_CA", "no-such-file.pem");
    assert!(house.refused(&["sessions"]).starts_with("server.runner_ca: cannot read no-such-file.pem"));
}

#[test]
fn a_taken_port_is_named() {
    let port = free_port();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let mut house = House::new();
    house.set("SEXTON_RUNNER__LISTEN", &format!("127.0.0.1:{port}"));
    house.set("SEXTON_SERVER__LISTEN", &format!("127.0.0.1:{port}"));
    assert!(house.refused(&["serve"]).contains("server.listen and runner.listen are both"));
    house.set("SEXTON_SERVER__LISTEN", &format!("127.0.0.1:{}", free_port()));
    let why = house.refused(&["runner"]);
    assert!(why.starts_with(&format!("127.0.0.1:{port} is taken")) && why.contains("runner.listen"), "{why}");
    house.set("SEXTON_SERVER__LISTEN", &format!("127.0.0.1:{port}"));
    house.set("SEXTON_RUNNER__LISTEN", &format!("127.0.0.1:{}", free_port()));
    for command in ["serve", "up"] {
        let why = house.refused(&[command]);
        assert!(why.starts_with(&format!("127.0.0.1:{port} is taken")) && why.contains("server.listen"), "{why}");
    }
}

#[test]
fn what_answers_at_the_runners_port_must_be_the_runner() {
    let house = House::with_engines("6h");
    let config = house.json(&["config", "--json"]);
    let listen = config["settings"]["runner"]["listen"].as_str().unwrap().to_owned();
    house.write("state/sexton/runner.token", "secret\n");
    let _foreign = std::net::TcpListener::bind(&listen).unwrap();
    let mut house = house;
    house.set("SEXTON_LIMITS__CONNECT_TIMEOUT", "300ms");
    house.set("SEXTON_LIMITS__REQUEST_TIMEOUT", "300ms");
    let why = house.refused(&["up"]);
    assert!(why.contains(&listen) && why.contains("is not this machine's runner local"), "{why}");
    assert!(!house.path("state/sexton/runner.log").exists(), "no runner was started");
}

#[test]
fn a_store_that_cannot_be_used_is_named() {
    let mut house = House::new();
    let file = house.write("file", "x");
    house.set("SEXTON_STORE__URL", &format!("sqlite://{}/below.db", text(&file)));
    let why = house.refused(&["sweep"]);
    assert!(why.starts_with("the store ") && why.contains("/file/below.db cannot be used"), "{why}");
    house.set("SEXTON_STORE__URL", &format!("sqlite://{}", text(&house.folder("folder"))));
    assert!(house.refused(&["sweep"]).contains("it is a folder"));
    house.set("SEXTON_STORE__URL", "postgres://db/sexton");
    assert!(house.refused(&["sweep"]).contains("store.url must be a SQLite file"));
}

#[test]
fn a_damaged_store_is_refused_and_stays_as_it_is() {
    let house = House::new();
    house.done(&["sweep"]);
    let path = house.path("state/sexton/sexton.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The second half of each page but the first: the header stays what it is.
    for page in bytes.chunks_mut(4_096).skip(1) {
        page.fill(0xff);
    }
    std::fs::write(&path, &bytes).unwrap();
    for command in ["sweep", "sessions", "timeline"] {
        let why = house.refused(&[command]);
        assert!(why.contains("sexton.db is damaged, so nothing is reaped"), "{why}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn an_import_is_whole_or_not_at_all() {
    let house = House::new();
    let good = import_line("a", 1_000, &json!({}));
    let faults = [
        (format!("{good}\n\n{{\"id\":\"b\"}}\n"), "line 3: missing field `runner_id`"),
        (format!("{good}\n{good}"), "line 2: there is a session a already"),
        (format!("{good}\nnull\n[]\n"), "line 2: "),
        (
            import_line("a", 0, &json!({"started_at": 1_700_000_000})),
            "line 1: started_at is 1700000000, which looks like seconds",
        ),
        (import_line("a", 0, &json!({"colour": "red"})), "line 1: unknown field `colour`"),
        (import_line("a", 0, &json!({"status": "\u{1b}[31mx"})), "line 1: "),
        (
            format!("{good}\n{}", import_line("b", 0, &json!({"repo": "/src/a"}))),
            "line 2: session b would be the second open one",
        ),
    ];
    for (content, fault) in faults {
        let file = house.write("sessions.jsonl", &content);
        let why = house.refused(&["sessions", "import", text(&file)]);
        assert!(why.contains(fault) && why.ends_with("nothing was imported"), "{fault}: {why}");
        assert_eq!(house.json(&["sessions", "--all", "--json"])["items"], json!([]), "{fault}");
        assert_eq!(house.json(&["timeline", "--json"])["items"], json!([]), "{fault}");
    }
    assert!(house.refused(&["sessions", "import", "no.jsonl"]).contains("cannot read no.jsonl"));
}

#[test]
fn bad_arguments_are_refused() {
    let house = House::new();
    for args in [
        &["explain", "a b"][..],
        &["sweep", "--only", "observe"],
        &["sweep", "--only", "idle,all"],
        &["keep", "a", "--for", "soon", "--because", "x"],
        &["keep", "a", "--for", "1h"],
        &["up", "--once"],
        &["sessions", "--limit", "0"],
        &["runs", "--limit", "0"],
        &["timeline", "--limit", "0"],
        &["sweeps", "--limit", "some"],
        &["start", "", "--repo", "."],
        &["start", "sample", "--repo", ".", "--runner", "nobody"],
        &["tokens", "create", "--owner", "ann", "--scope", "root"],
        &["attack"],
        &[],
    ] {
        let said = house.call(args);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
    }
}

#[test]
fn a_start_without_a_runner_finds_an_open_session_takes_the_only_runner_or_lists_them() {
    let mut house = House::new();
    house.set("SEXTON_LIMITS__READY_WAIT", "1s");
    let open = house.folder("open");
    let line = import_line("s", 0, &json!({"owner_id": "ann", "repo": text(&open)}));
    let file = house.write("sessions.jsonl", line);
    house.done(&["sessions", "import", text(&file)]);
    house.done(&["runners", "add", "mac", "http://127.0.0.1:9"]);
    let found = house.json(&["start", "claude", "--repo", text(&open), "--json"]);
    assert_eq!((&found["opened"], &found["session"]["id"]), (&json!(false), &json!("s")), "it is open on mac");

    let fresh = house.folder("fresh");
    let said = house.call(&["start", "claude", "--repo", text(&fresh)]);
    assert!(said.code == 1 && said.err.contains("claude did not start on runner mac"), "{said:?}");
    house.done(&["runners", "add", "pc", "http://127.0.0.1:9"]);
    let why = house.refused(&["start", "claude", "--repo", text(&fresh)]);
    assert_eq!(why, "name the runner, one of mac, pc");
    let found = house.json(&["start", "claude", "--repo", text(&open), "--json"]);
    assert_eq!(found["session"]["id"], "s", "it is open on mac still");
}

#[test]
fn wishes_that_cannot_be_met_are_refused_in_one_line() {
    let house = House::new();
    let folder = house.folder("repo");
    house.write("file", "x");
    for (args, why) in [
        (&["explain", "nobody"][..], "there is no session nobody"),
        (&["timeline", "nobody"], "there is no session nobody"),
        (&["send", "nobody", "hello"], "there is no session nobody"),
        (&["end", "nobody"], "there is no session nobody"),
        (&["keep", "nobody", "--for", "31d", "--because", "x"], "at most 30 days"),
        (&["keep", "nobody", "--for", "0s", "--because", "x"], "more than nothing"),
        (&["send", "nobody", ""], "the message is empty"),
        (&["start", "sample", "--repo", "no-such-folder"], "--repo no-such-folder cannot be used"),
        (&["start", "sample", "--repo", "file"], "--repo file is no folder"),
        (
            &["start", "sample", "--repo", text(&folder)],
            "no runner local answers on this machine; `sexton up` starts one",
        ),
        (&["runners", "add", "mac", "http://ann:pw@127.0.0.1"], "shown around"),
        (&["runners", "remove", "mac"], "no runner mac is enrolled"),
        (&["runners", "reset", "mac"], "no runner mac is enrolled"),
        (&["tokens", "create", "--owner", "bob", "--scope", "keep"], "`use` allows the same"),
        (&["tokens", "create", "--owner", " ", "--scope", "read"], "is no owner"),
        (&["keep", "--for", "1h", "--because", "x"], "name the session: without one, only an agent can keep its own"),
        (&["tokens", "revoke", "x"], "there is no token x"),
    ] {
        let said = house.refused(args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn a_pass_that_takes_too_long_is_abandoned() {
    let mut house = House::new();
    // Connections are made, and nobody answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    house.done(&["runners", "add", "mac", &format!("http://{}", silent.local_addr().unwrap())]);
    house.set("SEXTON_SCHEDULE__PASS_LIMIT", "200ms");
    let why = house.refused(&["sweep"]);
    assert!(why.contains("longer than schedule.pass_limit (200ms) and was abandoned"), "{why}");
}
