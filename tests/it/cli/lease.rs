//! An agent that keeps its own session: a real engine, a real runner, a real worker, and the program inside.

use serde_json::{Value, json};

use crate::cli::house::{House, SEXTON, free_port, text, wait_for};

/// A house with an engine that keeps its own session, writes down what it was told and what it knows, and stays.
fn house() -> (House, String) {
    let house = House::new();
    let api = format!("127.0.0.1:{}", free_port());
    let script = house.write(
        "agent.sh",
        format!(
            "{SEXTON} keep --for 2h --because 'long build' > said 2>&1\n\
             echo $? >> said\n\
             {SEXTON} keep --for 25h --because 'too long' > refused 2>&1\n\
             printf %s \"$SEXTON_TOKEN\" > token.part && mv token.part token\n\
             exec cat\n"
        ),
    );
    house.configure(&format!(
        "[server]\nlisten = \"{api}\"\n[runner]\nlisten = \"127.0.0.1:{}\"\nstdin_grace = \"2s\"\n\
         [schedule]\nsweep = \"0 0 0 1 1 *\"\n[engines.agent]\ncommand = [\"/bin/sh\", {:?}]\n",
        free_port(),
        text(&script),
    ));
    (house, api)
}

/// Reads every file below a folder that is not the agent's own.
fn everything_in(folder: &std::path::Path, found: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => everything_in(&entry.path(), found),
            kind if kind.is_file() => found.extend(std::fs::read(entry.path()).unwrap_or_default()),
            _ => {}
        }
    }
}

#[test]
fn an_agent_keeps_its_own_session_with_what_stands_in_its_environment() {
    let (house, api) = house();
    let _runner = house.runner();
    let _worker = house.daemon(&["serve"]);
    wait_for("the worker", || std::net::TcpStream::connect(&api));
    let repo = house.folder("repo");
    let id = house.start("agent", "repo");
    let read = |name: &str| std::fs::read_to_string(repo.join(name));
    let token = wait_for("the agent", || read("token"));
    let said = read("said").unwrap();
    assert!(said.starts_with(&format!("Session {id} is kept for 2 h, until ")) && said.ends_with("\n0\n"), "{said}");
    assert!(read("refused").unwrap().contains("at most 24 hours at once"), "{:?}", read("refused"));

    let entries = house.json(&["timeline", &id, "--json"]);
    let kept: Vec<&Value> =
        entries["items"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "kept").collect();
    assert_eq!((kept.len(), &kept[0]["actor"]), (1, &json!("agent")), "{entries}");

    assert!(token.starts_with("sxt_") && token.len() == 68, "{token}");
    let bare = &token.as_bytes()[4..];
    let mut found = Vec::new();
    everything_in(&house.path("state"), &mut found);
    assert!(!found.windows(bare.len()).any(|bytes| bytes == bare), "neither store nor runner keep it on disk");
    for pid in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(pid.path().join("cmdline")).unwrap_or_default();
        assert!(!line.windows(bare.len()).any(|bytes| bytes == bare), "it stands on no command line");
    }
    let seen = house.done(&["sessions", "--json"]) + &house.done(&["tokens", "--json"]);
    assert!(!seen.contains(&token[4..]), "{seen}");
    house.done(&["end", &id]);
}

#[test]
fn an_agent_without_a_worker_or_with_an_old_token_is_told() {
    let mut house = House::new();
    house.set("SEXTON_SESSION_ID", "s");
    house.set("SEXTON_TOKEN", "sxt_old");
    house.set("SEXTON_URL", &format!("http://127.0.0.1:{}", free_port()));
    let why = house.refused(&["keep", "--for", "1h", "--because", "x"]);
    assert!(why.starts_with("the worker at http://127.0.0.1:") && why.contains("does not answer"), "{why}");
    assert!(!house.path("state/sexton/sexton.db").exists(), "an agent's program makes no store");
}
