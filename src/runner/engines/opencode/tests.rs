use serde_json::json;

use crate::runner::engines::playback::{play, recorded};
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, adapter};
use crate::runner::{AdapterKind, EngineSpec};

fn played(name: &str) -> String {
    play(&recorded(&format!("opencode/{name}")), || adapter(AdapterKind::Opencode))
}

#[test]
fn recorded_transcripts_read_as_what_happened() {
    for name in ["turns", "resume", "abort", "permission", "subagent", "lost", "unknown"] {
        insta::assert_snapshot!(name, played(name));
    }
}

/// An adapter with the session `ses_1` open.
fn open() -> Box<dyn Adapter> {
    let mut adapter = adapter(AdapterKind::Opencode);
    adapter.greet(&Opening::default());
    assert!(!adapter.is_ready());
    let line = json!({"type": "ready", "session_id": "ses_1", "url": "http://127.0.0.1:1"});
    assert_eq!(adapter.read(line.to_string().as_bytes()).events, [Event::Session("ses_1".into()), Event::TurnEnded]);
    assert!(adapter.is_ready());
    adapter
}

fn told(adapter: &mut dyn Adapter, kind: &str, properties: &serde_json::Value) -> Vec<Event> {
    let line = json!({"type": "event", "event": {"id": "evt_1", "type": kind, "properties": properties}});
    adapter.read(line.to_string().as_bytes()).events
}

fn status(adapter: &mut dyn Adapter, session: &str, word: &str) -> Vec<Event> {
    told(adapter, "session.status", &json!({"sessionID": session, "status": {"type": word}}))
}

fn working(adapter: &mut dyn Adapter, sessions: &[&str]) -> Vec<Event> {
    adapter.read(json!({"type": "status", "working": sessions}).to_string().as_bytes()).events
}

const OUTPUT: Event = Event::Output { task: None };

#[test]
fn a_message_that_crosses_the_end_of_a_turn_keeps_the_turn() {
    let mut adapter = open();
    assert_eq!(adapter.message("one").events, [Event::TurnStarted]);
    assert_eq!(status(&mut *adapter, "ses_1", "busy"), [OUTPUT]);
    assert_eq!(adapter.message("two").events, [OUTPUT]);
    assert_eq!(status(&mut *adapter, "ses_1", "idle"), [Event::Status], "the second may not have begun");
    assert_eq!(working(&mut *adapter, &[]), [Event::Status]);
    assert_eq!(status(&mut *adapter, "ses_1", "busy"), [OUTPUT]);
    assert_eq!(status(&mut *adapter, "ses_1", "idle"), [Event::TurnEnded]);
}

#[test]
fn a_message_that_begins_nothing_is_given_up_after_three_answers() {
    let mut adapter = open();
    adapter.message("one");
    assert_eq!(working(&mut *adapter, &[]), [Event::Status]);
    assert_eq!(working(&mut *adapter, &[]), [Event::Status]);
    assert_eq!(working(&mut *adapter, &[]), [Event::TurnEnded]);
    assert_eq!(adapter.ask(), Vec::<String>::new(), "nothing is at work, so nothing is asked");
}

#[test]
fn a_message_that_the_server_refused_ends_its_turn_but_no_other() {
    let refused = json!({"type": "refused", "command": "message", "message": "no"}).to_string();
    let mut adapter = open();
    adapter.message("one");
    assert_eq!(adapter.read(refused.as_bytes()).events, [Event::TurnEnded]);
    adapter.message("two");
    status(&mut *adapter, "ses_1", "busy");
    adapter.message("three");
    assert_eq!(adapter.read(refused.as_bytes()).events, [OUTPUT]);
    assert_eq!(status(&mut *adapter, "ses_1", "idle"), [Event::TurnEnded]);
}

#[test]
fn the_answer_to_a_question_of_ours_is_no_sign_of_work() {
    let mut adapter = open();
    adapter.message("one");
    status(&mut *adapter, "ses_1", "busy");
    assert_eq!(working(&mut *adapter, &["ses_1"]), [Event::Status], "busy for ever must be able to stall");
    assert_eq!(status(&mut *adapter, "ses_1", "retry"), [OUTPUT]);
}

#[test]
fn work_of_another_session_is_a_background_task() {
    let mut adapter = open();
    let id = || "ses_2".to_owned();
    assert_eq!(status(&mut *adapter, "ses_2", "busy"), [Event::BackgroundStarted(id())]);
    let part = json!({"sessionID": "ses_2", "part": {}});
    assert_eq!(told(&mut *adapter, "message.part.updated", &part), [Event::Output { task: Some(id()) }]);
    assert_eq!(adapter.stop_tasks(), ["{\"type\":\"abort\",\"session_id\":\"ses_2\"}\n"]);
    let question = json!({"id": "per_1", "sessionID": "ses_2"});
    assert_eq!(told(&mut *adapter, "permission.asked", &question), [Event::AwaitingInput]);
    assert_eq!(status(&mut *adapter, "ses_2", "idle"), [Event::InputReceived, Event::BackgroundEnded(id())]);
    assert_eq!(working(&mut *adapter, &["ses_3"]), [Event::BackgroundStarted("ses_3".into())]);
    assert_eq!(working(&mut *adapter, &[]), [Event::BackgroundEnded("ses_3".into())]);
}

#[test]
fn a_question_waits_until_the_last_is_answered_or_its_turn_is_over() {
    let mut adapter = open();
    adapter.message("one");
    status(&mut *adapter, "ses_1", "busy");
    for id in ["per_1", "per_2"] {
        let question = json!({"id": id, "sessionID": "ses_1"});
        assert_eq!(told(&mut *adapter, "permission.asked", &question), [Event::AwaitingInput]);
    }
    assert_eq!(adapter.message("hello?").events, [OUTPUT, Event::AwaitingInput], "that is no answer");
    let answer = |id| json!({"sessionID": "ses_1", "requestID": id, "reply": "once"});
    assert_eq!(told(&mut *adapter, "permission.replied", &answer("per_1")), [OUTPUT]);
    assert_eq!(told(&mut *adapter, "permission.replied", &answer("per_2")), [Event::InputReceived]);
}

#[test]
fn after_a_loss_the_servers_word_counts() {
    let mut adapter = open();
    assert_eq!(adapter.read(br#"{"type":"lost","message":"x"}"#).events, [Event::Status]);
    let found = json!({"type": "status", "working": ["ses_1"], "asking": {"per_1": "ses_1", "per_0": "ses_gone"}});
    assert_eq!(adapter.read(found.to_string().as_bytes()).events, [Event::TurnStarted, Event::AwaitingInput]);
    let over = json!({"type": "status", "working": [], "asking": {"per_1": "ses_1"}});
    assert_eq!(adapter.read(over.to_string().as_bytes()).events, [Event::InputReceived, Event::TurnEnded]);
}

#[test]
fn only_a_turn_can_be_interrupted_and_a_fresh_session_waits_for_its_opening() {
    let mut adapter = open();
    assert_eq!(adapter.interrupt(), Interrupt::Write(Vec::new()));
    adapter.message("one");
    assert_eq!(adapter.interrupt(), Interrupt::Write(vec!["{\"type\":\"abort\"}\n".into()]));
    assert_eq!(status(&mut *adapter, "ses_1", "idle"), [Event::TurnEnded]);
    told(&mut *adapter, "question.asked", &json!({"id": "que_1", "sessionID": "ses_1"}));
    assert_eq!(adapter.clear().unwrap().write, ["{\"type\":\"clear\"}\n"]);
    assert!(!adapter.is_ready());
    let opened = adapter.read(br#"{"type":"ready","session_id":"ses_2","url":"u"}"#).events;
    assert_eq!(opened, [Event::Session("ses_2".into()), Event::InputReceived, Event::TurnEnded]);
}

#[test]
fn a_line_that_was_cut_off_is_output() {
    for line in recorded("opencode/turns").lines().filter(|line| !line.contains("\"sexton\"")) {
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
fn what_nobody_knows_is_output() {
    let mut adapter = open();
    for line in
        ["", "no json", "[]", "{}", r#"{"type":"news"}"#, r#"{"type":"event","event":{}}"#, "{\"type\":\"dropped\"}"]
    {
        assert_eq!(adapter.read(line.as_bytes()).events, [OUTPUT], "{line}");
    }
    assert_eq!(told(&mut *adapter, "todo.updated", &json!({"sessionID": "ses_1"})), [OUTPUT]);
}

#[test]
fn a_flood_of_sessions_and_questions_costs_bounded_memory() {
    let mut adapter = open();
    for number in 0..1_000 {
        status(&mut *adapter, &format!("ses_{number}"), "busy");
        told(&mut *adapter, "question.asked", &json!({"id": format!("que_{number}"), "sessionID": "ses_1"}));
    }
    assert!(adapter.save().to_string().len() < 16 * 1024);
}

#[test]
fn the_server_stands_behind_the_bridge_on_this_machine() {
    let adapter = adapter(AdapterKind::Opencode);
    let spec = |command: &[&str]| EngineSpec {
        adapter: AdapterKind::Opencode,
        command: command.iter().map(ToString::to_string).collect(),
        ..EngineSpec::default()
    };
    let command = |parts: &[&str]| adapter.command(&spec(parts), &Opening::default()).join(" ");
    assert_eq!(
        command(&["opencode", "serve"]),
        "{sexton} opencode-bridge -- opencode serve --port 0 --hostname 127.0.0.1"
    );
    assert_eq!(
        command(&["opencode", "serve", "--port=99", "--hostname", "::1"]),
        "{sexton} opencode-bridge -- opencode serve --port=99 --hostname ::1"
    );
    let resume = adapter.resume(&spec(&["opencode", "serve"]), Some("ses_1"), "/repo").unwrap();
    assert_eq!((resume.command.join(" ").as_str(), resume.cwd.as_str()), ("opencode --session ses_1", "/repo"));
    assert_eq!(adapter.resume(&spec(&["serve"]), Some("ses_1"), "/repo"), None);
}
