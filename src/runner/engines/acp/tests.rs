use serde_json::{Value, json};

use crate::runner::engines::playback::{play, recorded};
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, adapter};
use crate::runner::{AdapterKind, EngineSpec};

#[test]
fn recorded_transcripts_read_as_what_happened() {
    for name in ["turns", "resume", "unknown", "permission", "interrupt"] {
        let played = play(&recorded(&format!("acp/{name}")), || adapter(AdapterKind::Acp));
        insta::assert_snapshot!(name, played);
    }
}

fn read(adapter: &mut dyn Adapter, line: &Value) -> Exchange {
    adapter.read(line.to_string().as_bytes())
}

fn sent(text: &str) -> Value {
    assert!(text.ends_with('\n'));
    serde_json::from_str(text).unwrap()
}

/// The method of each text that was written, or `answer`.
fn methods(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| sent(text)["method"].as_str().unwrap_or("answer").to_owned()).collect()
}

fn initialized(capabilities: &Value) -> Value {
    json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}})
}

fn all() -> Value {
    json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "close": {}}})
}

/// An adapter with the conversation `c1` open.
fn open() -> Box<dyn Adapter> {
    let mut adapter = adapter(AdapterKind::Acp);
    adapter.greet(&Opening { cwd: "/repo".into(), engine_session_id: None });
    let new = read(&mut *adapter, &initialized(&all())).write;
    assert_eq!(sent(&new[0])["params"], json!({"cwd": "/repo", "mcpServers": []}));
    assert!(!adapter.is_ready());
    let opened = read(&mut *adapter, &json!({"id": 2, "result": {"sessionId": "c1"}}));
    assert_eq!(opened.events, [Event::Session("c1".into()), Event::TurnEnded]);
    assert!(adapter.is_ready());
    adapter
}

fn done(adapter: &mut dyn Adapter, id: u64) -> Vec<Event> {
    read(adapter, &json!({"id": id, "result": {"stopReason": "end_turn"}})).events
}

fn asks(adapter: &mut dyn Adapter, id: &Value) -> Exchange {
    read(adapter, &json!({"id": id, "method": "session/request_permission", "params": {}}))
}

const OUTPUT: Event = Event::Output { task: None };

#[test]
fn a_conversation_is_taken_up_the_way_the_agent_can() {
    let opening = Opening { cwd: "/repo".into(), engine_session_id: Some("c7".into()) };
    let how = |capabilities: &Value| {
        let mut adapter = adapter(AdapterKind::Acp);
        adapter.greet(&opening);
        let written = read(&mut *adapter, &initialized(capabilities)).write;
        let opened = read(&mut *adapter, &json!({"id": 2, "result": null})).events;
        (methods(&written), opened)
    };
    let taken_up = vec![Event::Session("c7".into()), Event::TurnEnded];
    assert_eq!(how(&all()), (vec!["session/resume".to_owned()], taken_up.clone()));
    assert_eq!(how(&json!({"loadSession": true})), (vec!["session/load".to_owned()], taken_up));
    assert_eq!(how(&json!({})).0, Vec::<String>::new(), "a fresh one is not what was asked for");
}

#[test]
fn a_refusal_leaves_it_unready_and_says_why() {
    let refused = json!({"id": 1, "error": {"code": -32_000, "message": "log in first"}});
    let newer = json!({"id": 1, "result": {"protocolVersion": 2, "agentCapabilities": all()}});
    for (line, why) in [
        (refused, "the agent refuses to begin: log in first"),
        (newer, "the agent does not speak version 1 of the protocol"),
    ] {
        let mut adapter = adapter(AdapterKind::Acp);
        adapter.greet(&Opening::default());
        assert_eq!(adapter.trouble(), None);
        assert_eq!(read(&mut *adapter, &line), Exchange { events: vec![OUTPUT], write: Vec::new() });
        assert_eq!((adapter.is_ready(), adapter.trouble().as_deref()), (false, Some(why)));
    }
    let mut adapter = adapter(AdapterKind::Acp);
    adapter.greet(&Opening::default());
    read(&mut *adapter, &initialized(&all()));
    let long = "log in first ".repeat(1_000);
    read(&mut *adapter, &json!({"id": 2, "error": {"code": -32_000, "message": long}}));
    let why = adapter.trouble().unwrap();
    assert!(!adapter.is_ready() && why.starts_with("the agent cannot open the conversation: log in first"), "{why}");
    assert!(adapter.save().to_string().len() < 4_096);
    adapter.clear();
    read(&mut *adapter, &json!({"id": 2, "result": {"sessionId": "c2"}}));
    assert_eq!((adapter.is_ready(), adapter.trouble()), (true, None));
}

#[test]
fn the_turn_ends_with_its_last_prompt() {
    let mut adapter = open();
    let first = adapter.message("one\ntwo");
    assert_eq!(first.events, [Event::TurnStarted]);
    assert_eq!(sent(&first.write[0])["params"]["prompt"], json!([{"type": "text", "text": "one\ntwo"}]));
    assert_eq!(adapter.message("three").events, [OUTPUT]);
    assert_eq!(done(&mut *adapter, 1_000), [OUTPUT]);
    assert_eq!(done(&mut *adapter, 1_001), [Event::TurnEnded]);
    assert_eq!(sent(&adapter.message("four").write[0])["id"], 1_002);
    let failed = json!({"id": 1_002, "error": {"code": -32_603, "message": "no"}});
    assert_eq!(read(&mut *adapter, &failed).events, [Event::TurnEnded]);
}

#[test]
fn the_end_of_a_turn_that_was_forgotten_is_known_and_its_number_not_given_again() {
    let mut adapter = open();
    assert_eq!(done(&mut *adapter, 1_004), [Event::TurnEnded]);
    assert_eq!(sent(&adapter.message("next").write[0])["id"], 1_005);
    assert_eq!(done(&mut *adapter, u64::MAX), [OUTPUT]);
    assert_eq!(done(&mut *adapter, 7), [OUTPUT]);
    adapter.message("and the numbers go on");
}

#[test]
fn a_permission_is_never_granted_and_cancelled_with_its_turn() {
    let mut adapter = open();
    adapter.message("one");
    let asked = asks(&mut *adapter, &json!("p1"));
    assert_eq!(asked, Exchange { events: vec![Event::AwaitingInput], write: Vec::new() });
    assert_eq!(adapter.message("yes").events, [OUTPUT, Event::AwaitingInput], "a message is no answer");
    let Interrupt::Write(written) = adapter.interrupt() else { panic!("it is told in the protocol") };
    assert_eq!(methods(&written), ["session/cancel", "answer"]);
    assert_eq!(sent(&written[0])["params"], json!({"sessionId": "c1"}));
    let answer = sent(&written[1]);
    assert_eq!((&answer["id"], &answer["result"]), (&json!("p1"), &json!({"outcome": {"outcome": "cancelled"}})));
    assert_eq!(done(&mut *adapter, 1_000), [OUTPUT]);
    assert_eq!(done(&mut *adapter, 1_001), [Event::InputReceived, Event::TurnEnded]);
    assert_eq!(adapter.interrupt(), Interrupt::Write(Vec::new()), "no turn runs");
}

#[test]
fn a_permission_that_the_agent_takes_back_is_waited_for_no_more() {
    let mut adapter = open();
    adapter.message("one");
    asks(&mut *adapter, &json!(0));
    asks(&mut *adapter, &json!(1));
    let back = |id: i64| json!({"method": "$/cancel_request", "params": {"requestId": id}});
    assert_eq!(read(&mut *adapter, &back(0)).events, [OUTPUT]);
    assert_eq!(read(&mut *adapter, &back(1)).events, [Event::InputReceived]);
    assert_eq!(read(&mut *adapter, &back(1)).events, [OUTPUT]);
    assert_eq!(done(&mut *adapter, 1_000), [Event::TurnEnded]);
}

#[test]
fn nothing_else_that_an_agent_asks_for_is_served() {
    let mut adapter = open();
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "no/such"] {
        let Exchange { events, write } = read(&mut *adapter, &json!({"id": 0, "method": method, "params": {}}));
        assert_eq!(events, [OUTPUT]);
        let answer = sent(&write[0]);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(0), &json!(-32_601)), "{method}");
    }
}

#[test]
fn a_line_that_was_cut_off_is_output() {
    for line in recorded("acp/turns").lines().filter(|line| !line.contains("\"sexton\"")) {
        for cut in (1..line.len()).filter(|cut| line.is_char_boundary(*cut)) {
            let mut adapter = open();
            let before = adapter.save();
            let cut = &line[..cut];
            assert_eq!(adapter.read(cut.as_bytes()), Exchange { events: vec![OUTPUT], write: Vec::new() }, "{cut}");
            assert_eq!(adapter.save(), before);
        }
    }
}

#[test]
fn what_is_no_message_is_output() {
    let mut adapter = open();
    for line in ["", "no json", "[]", "{}", "7", r#"{"id":"1000","result":{}}"#, r#"{"method":"session/update"}"#] {
        assert_eq!(adapter.read(line.as_bytes()), Exchange { events: vec![OUTPUT], write: Vec::new() }, "{line}");
    }
}

#[test]
fn a_flood_of_requests_costs_bounded_memory() {
    let mut adapter = open();
    adapter.message("one");
    for number in 0..1_000 {
        asks(&mut *adapter, &json!(number));
    }
    assert_eq!(methods(&asks(&mut *adapter, &json!("x".repeat(1_000))).write), ["answer"]);
    assert!(adapter.save().to_string().len() < 4_096);
}

#[test]
fn a_fresh_conversation_cancels_closes_and_waits() {
    let mut adapter = open();
    adapter.message("one");
    let written = adapter.clear().unwrap().write;
    assert_eq!(methods(&written), ["session/cancel", "session/close", "session/new"]);
    assert!(!adapter.is_ready());
    assert_eq!(adapter.stop_tasks(), Vec::<String>::new(), "nothing is open");
    assert_eq!(done(&mut *adapter, 1_000), [Event::TurnEnded]);
    assert_eq!(read(&mut *adapter, &json!({"id": 3, "result": {}})).events, [Event::Status]);
    read(&mut *adapter, &json!({"id": 2, "result": {"sessionId": "c2"}}));
    assert!(adapter.is_ready());
    assert_eq!(methods(&adapter.stop_tasks()), ["session/close"]);
}

#[test]
fn the_command_is_the_configured_one() {
    let adapter = adapter(AdapterKind::Acp);
    let mut spec = EngineSpec { command: vec!["goose".into(), "acp".into()], ..EngineSpec::default() };
    assert_eq!(adapter.command(&spec, &Opening::default()), ["goose", "acp"]);
    assert_eq!(adapter.resume(&spec, Some("c1"), "/repo"), None);
    spec.resume = vec!["goose".into(), "session".into(), "--id={engine_session_id}".into()];
    assert_eq!(adapter.resume(&spec, Some("c1"), "/repo").unwrap().command[2], "--id=c1");
}
