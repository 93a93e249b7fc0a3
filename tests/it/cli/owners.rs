//! Many owners on one store, as the person at the machine sees them.

use std::process::Stdio;

use serde_json::{Value, json};
use sexton::entry::{EntryKind, NewEntry};
use sexton::session::Session;
use sexton::store::{Inserted, Store};
use sexton::time::HOUR;

use crate::cli::house::{House, free_port, import_line, text, wait_for};

fn ids(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn a_store_holds_many_owners_and_the_person_at_the_machine_sees_them_all() {
    let house = House::new();
    for owner in ["ann", "bob"] {
        let token = house.done(&["tokens", "create", "--owner", owner, "--scope", "read,use"]);
        assert!(token.starts_with("sxt_") && token.trim().len() == 68, "{token}");
    }
    let lines =
        ["ann", "bob", "eve"].map(|owner| import_line(owner, HOUR, &json!({"owner_id": owner, "repo": "/src"})));
    let file = house.write("sessions.jsonl", lines.join("\n"));
    house.done(&["sessions", "import", text(&file)]);
    assert_eq!(ids(&house.json(&["sessions", "--json"])), ["ann", "bob", "eve"], "one repo, three owners");
    assert_eq!(ids(&house.json(&["sessions", "--owner", "bob", "--json"])), ["bob"]);
    assert_eq!(ids(&house.json(&["sessions", "--owner", "nobody", "--json"])), Vec::<&str>::new());
    let said = house.call(&["doctor"]).out;
    assert!(said.contains("those of 3 owners (ann, bob, eve)"), "{said}");
}

/// Puts in a row as versions before there were owners left it.
fn insert(house: &House, id: &str, repo: &str, owner: Option<&str>) {
    let line = import_line(id, HOUR, &json!({"repo": repo}));
    let row = Session { owner_id: owner.map(str::to_owned), ..sexton::import::parse_line(&line).unwrap() };
    let entry = NewEntry {
        session_id: row.id.clone(),
        generation: 1,
        at: row.started_at.unwrap(),
        kind: EntryKind::Started,
        actor: "test".to_owned(),
        reason: None,
        message: "Opened.".to_owned(),
        evidence: json!({}),
        once: None,
        engine_gone: false,
    };
    let url = format!("sqlite://{}", house.path("state/sexton/sexton.db").display());
    let insert = async {
        let store = Store::open(&url).await.unwrap();
        assert_eq!(store.insert_started(&row, &[], &entry).await.unwrap(), Inserted::Done);
        store.close().await;
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(insert);
}

#[test]
fn rows_without_an_owner_are_adopted_at_start_once_and_counted() {
    let mut house = House::new();
    house.done(&["sessions"]);
    insert(&house, "taken", "/src/taken", Some("me"));
    for (id, repo) in [("a", "/src/a"), ("b", "/src/b"), ("left", "/src/taken")] {
        insert(&house, id, repo, None);
    }
    house.set("SEXTON_OWNER", "me");
    house.set("SEXTON_SERVER__LISTEN", &format!("127.0.0.1:{}", free_port()));
    house.set("SEXTON_SCHEDULE__SWEEP", "0 0 0 1 1 *");
    let serve = |name: &str| {
        let log = std::fs::File::create(house.path(name)).unwrap();
        let mut command = house.command(&["serve"]);
        let mut child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let said = wait_for("the worker", || {
            let said = std::fs::read_to_string(house.path(name)).unwrap();
            if said.contains("the API is at") { Ok(said) } else { Err(said) }
        });
        child.kill().unwrap();
        child.wait().unwrap();
        said
    };
    let first = serve("first.log");
    assert!(first.contains("sessions that had no owner are me's now") && first.contains("adopted=2"), "{first}");
    assert!(first.contains("a session without an owner stays so: me has another one open in /src/taken"), "{first}");
    assert_eq!(ids(&house.json(&["sessions", "--owner", "me", "--json"])), ["a", "b", "taken"]);
    let second = serve("second.log");
    assert!(!second.contains("sessions that had no owner are"), "once: {second}");
    assert!(second.contains("stays so"), "until somebody ends one: {second}");
}
