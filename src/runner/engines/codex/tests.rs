//! Recorded conversations, and what no recording shows.

use serde_json::{Value, json};

use crate::runner::engines::recording::{names, play, play_with_restarts};
use crate::runner::engines::{Adapter, AdapterKind, Codex, Event, Interrupt, Opening};
use crate::runner::settings::EngineSpec;

const KIND: AdapterKind = AdapterKind::Codex;

fn read(codex: &mut Codex, line: &Value) -> Vec<Event> {
    codex.read(line.to_string().as_bytes()).events
}

fn notice(method: &str, params: &Value) -> Value {
    json!({"method": method, "params": params})
}

fn command(when: &str, id: &str) -> Value {
    notice(&format!("item/{when}"), &json!({"threadId": "t", "item": {"type": "commandExecution", "id": id}}))
}

/// One whose conversation `t` is open.
fn open() -> Codex {
    let mut codex = Codex::default();
    codex.greet(&Opening { cwd: "/work".into(), engine_session_id: None });
    assert!(!codex.is_ready());
    let opened = read(&mut codex, &json!({"id": 2, "result": {"thread": {"id": "t"}}}));
    assert_eq!((opened, codex.is_ready()), (vec![Event::Session("t".into())], true));
    codex
}

/// One that has a background terminal `c`.
fn with_task() -> Codex {
    let mut codex = open();
    assert_eq!(read(&mut codex, &command("started", "c")), [Event::BackgroundStarted("c".into())]);
    codex
}

#[test]
fn each_recording_reads_as_it_happened() {
    for name in names(KIND) {
        insta::assert_snapshot!(name.as_str(), play(KIND, &name).text());
    }
}

#[test]
fn an_adapter_that_took_up_its_memory_goes_on_as_if_nothing_had_been() {
    for name in names(KIND) {
        assert_eq!(play_with_restarts(KIND, &name).text(), play(KIND, &name).text(), "{name}");
    }
}

#[test]
fn a_background_terminal_is_told_from_the_end_of_its_turn_to_its_own() {
    for (name, most) in [("background", 1), ("overlapping", 2), ("cleared", 1)] {
        let play = play(KIND, name);
        let busy = |state: &crate::protocol::EngineState| {
            state.generating.value() == Some(true) || state.background_tasks.value().unwrap_or(0) > 0
        };
        let begins = play.told.iter().position(|line| line.starts_with("item/started inProgress")).unwrap_or(0);
        let begins = begins.max(play.states.iter().position(busy).unwrap());
        let ends = play.told.iter().rposition(|line| line.contains("BackgroundEnded")).unwrap();
        let first_task = play.told.iter().position(|line| line.contains("BackgroundStarted")).unwrap();
        assert!(begins < first_task && play.states[first_task..ends].iter().all(busy), "{name}");
        let counts = play.states.iter().filter_map(|state| state.background_tasks.value());
        assert_eq!(counts.max(), Some(most), "{name}");
    }
}

#[test]
fn a_list_ends_only_what_was_a_task_before_it_was_asked_for() {
    let mut codex = with_task();
    assert_eq!(codex.ask().len(), 1);
    // This one begins while the answer is on its way, and is not in it.
    read(&mut codex, &command("started", "d"));
    let gone = read(&mut codex, &json!({"id": 3, "result": {"data": [], "nextCursor": null}}));
    assert_eq!(gone, [Event::BackgroundEnded("c".into()), Event::Status]);
    assert_eq!(codex.ask().len(), 1);
    let gone = read(&mut codex, &json!({"id": 4, "result": {"data": [], "nextCursor": null}}));
    assert_eq!(gone, [Event::BackgroundEnded("d".into()), Event::Status]);
    assert!(codex.ask().is_empty(), "there is nothing to ask for");
}

#[test]
fn a_list_that_is_not_whole_or_not_understood_ends_nothing() {
    for result in [
        json!({"data": [], "nextCursor": "more"}),
        json!({"data": [{"processId": "1"}], "nextCursor": null}),
        json!({"data": {}}),
        json!(null),
    ] {
        let mut codex = with_task();
        codex.ask();
        assert_eq!(read(&mut codex, &json!({"id": 3, "result": result})), [Event::Status], "{result}");
        assert_eq!(codex.stop_tasks().len(), 1, "the task is still known");
    }
    let mut codex = with_task();
    codex.ask();
    read(&mut codex, &json!({"id": 3, "error": {"code": -32600}}));
    assert!(codex.ask().is_empty(), "an engine that has no list is not asked for it again");
}

#[test]
fn a_list_begins_what_was_missed() {
    let mut codex = with_task();
    codex.ask();
    let list = json!({"id": 3, "result": {"data": [{"itemId": "c"}, {"itemId": "e"}], "nextCursor": null}});
    assert_eq!(read(&mut codex, &list), [Event::BackgroundStarted("e".into()), Event::Status]);
}

#[test]
fn a_list_that_never_comes_is_asked_for_again() {
    let mut codex = with_task();
    let asked: Vec<bool> = (0..25).map(|_| !codex.ask().is_empty()).collect();
    assert_eq!(asked.iter().filter(|asked| **asked).count(), 2);
    assert!(asked[0]);
}

#[test]
fn the_end_of_another_turn_ends_nothing() {
    let mut codex = open();
    read(&mut codex, &notice("turn/started", &json!({"threadId": "t", "turn": {"id": "2"}})));
    let of = |id: &str| notice("turn/completed", &json!({"threadId": "t", "turn": {"id": id}}));
    assert_eq!(read(&mut codex, &of("1")), [Event::Output { task: None }]);
    assert_eq!(read(&mut codex, &of("2")), [Event::TurnEnded]);
}

#[test]
fn a_message_that_no_turn_came_of_leaves_none() {
    let mut codex = open();
    assert_eq!(codex.message("go").events, [Event::TurnStarted]);
    assert_eq!(read(&mut codex, &json!({"id": 3, "error": {"code": -32600}})), [Event::TurnEnded]);
    // One that joins a running turn ends none when it fails.
    codex.message("go");
    read(&mut codex, &notice("turn/started", &json!({"threadId": "t", "turn": {"id": "2"}})));
    codex.message("and this");
    assert_eq!(read(&mut codex, &json!({"id": 5, "error": {"code": 1}})), [Event::Output { task: None }]);
}

#[test]
fn an_agent_below_the_conversation_is_a_background_task() {
    let mut codex = open();
    let turn = json!({"threadId": "below", "turn": {"id": "9"}});
    let task = || "thread-below".to_owned();
    assert_eq!(read(&mut codex, &notice("turn/started", &turn)), [Event::BackgroundStarted(task())]);
    let delta = notice("item/agentMessage/delta", &json!({"threadId": "below", "itemId": "m"}));
    assert_eq!(read(&mut codex, &delta), [Event::Output { task: Some(task()) }]);
    assert_eq!(codex.stop_tasks().len(), 1);
    assert_eq!(read(&mut codex, &notice("turn/completed", &turn)), [Event::BackgroundEnded(task())]);
}

#[test]
fn a_question_is_refused_by_a_message_and_never_granted() {
    for method in [
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
        "execCommandApproval",
        "applyPatchApproval",
        "something/new",
    ] {
        for id in [json!(0), json!("a\"b")] {
            let mut codex = open();
            let question = codex.read(json!({"id": id, "method": method, "params": {}}).to_string().as_bytes());
            assert_eq!((question.events, question.write.len()), (vec![Event::AwaitingInput], 0), "{method}");
            let written = codex.message("yes, accept it").write;
            assert_eq!(written.len(), 2);
            let answer: Value = serde_json::from_str(&written[0]).unwrap();
            assert_eq!(answer["id"], id);
            assert!(!written[0].contains("accept") && !written[0].contains("approved"), "{written:?}");
        }
    }
}

fn flags(codex: &mut Codex, flags: &[&str]) -> Vec<Event> {
    read(
        codex,
        &notice("thread/status/changed", &json!({"threadId": "t", "status": {"type": "active", "activeFlags": flags}})),
    )
}

/// One that has said that it asks, and got a message before it asked.
fn written_to_too_early() -> Codex {
    let mut codex = open();
    codex.message("go");
    read(&mut codex, &notice("turn/started", &json!({"threadId": "t", "turn": {"id": "1"}})));
    assert_eq!(flags(&mut codex, &["waitingOnApproval"]), [Event::AwaitingInput]);
    assert_eq!(codex.message("instead").write.len(), 1, "there is nothing to refuse yet");
    codex
}

fn approval(id: u64) -> String {
    json!({"id": id, "method": "item/commandExecution/requestApproval", "params": {}}).to_string()
}

#[test]
fn a_question_that_a_message_came_before_is_refused_as_soon_as_it_comes() {
    let mut codex = Codex::default();
    codex.restore(&written_to_too_early().save());
    for id in [0, 1] {
        let refused = codex.read(approval(id).as_bytes());
        assert_eq!(refused.events, [Event::Output { task: None }], "nobody is waited for");
        assert_eq!(refused.write, [format!("{}\n", json!({"id": id, "result": {"decision": "decline"}}))]);
    }
    flags(&mut codex, &[]);
    let next = codex.read(approval(2).as_bytes());
    assert_eq!((next.events, next.write), (vec![Event::AwaitingInput], Vec::new()), "that one is a person's");
}

#[test]
fn only_a_message_into_that_gap_refuses_a_later_question() {
    let mut ended = written_to_too_early();
    read(&mut ended, &notice("turn/completed", &json!({"threadId": "t", "turn": {"id": "1"}})));
    let mut answered = open();
    flags(&mut answered, &["waitingOnApproval"]);
    answered.read(approval(0).as_bytes());
    assert_eq!(answered.message("instead").write.len(), 2);
    let mut unasked = open();
    unasked.message("go");
    unasked.message("and this");
    for codex in [&mut ended, &mut answered, &mut unasked] {
        let asked = codex.read(approval(1).as_bytes());
        assert_eq!((asked.events, asked.write), (vec![Event::AwaitingInput], Vec::new()));
    }
}

#[test]
fn one_that_cannot_open_its_conversation_says_why() {
    let mut codex = Codex::default();
    codex.greet(&Opening { cwd: "/work".into(), engine_session_id: Some("7".into()) });
    assert_eq!(codex.trouble(), None);
    read(&mut codex, &json!({"id": 2, "error": {"code": -32600, "message": "no rollout\nfound"}}));
    assert_eq!(
        (codex.is_ready(), codex.trouble().as_deref()),
        (false, Some("it cannot open the conversation: no rolloutfound"))
    );
    let mut kept = open();
    kept.clear();
    read(&mut kept, &json!({"id": 3, "error": {"code": -32600, "message": "no"}}));
    assert_eq!((kept.is_ready(), kept.trouble()), (true, None), "it goes on with the one that it has");
}

#[test]
fn a_request_for_a_program_is_refused_at_once() {
    let mut codex = open();
    let exchange = codex.read(br#"{"id":5,"method":"item/tool/call","params":{}}"#);
    assert_eq!(exchange.events, [Event::Output { task: None }]);
    assert!(exchange.write[0].contains("\"error\""));
}

#[test]
fn lines_that_tick_are_no_work() {
    let mut codex = with_task();
    for method in ["thread/tokenUsage/updated", "account/rateLimits/updated", "warning", "remoteControl/status/changed"]
    {
        assert_eq!(read(&mut codex, &notice(method, &json!({"threadId": "t"}))), [Event::Status], "{method}");
    }
    for line in ["", "text", "[]", "{}", r#"{"method":7}"#, "{\"id\":"] {
        assert_eq!(codex.read(line.as_bytes()).events, [Event::Output { task: None }], "{line}");
    }
}

#[test]
fn a_flood_costs_bounded_memory() {
    let mut codex = open();
    for number in 0..5_000 {
        read(&mut codex, &command("started", &format!("c{number}")));
        read(&mut codex, &json!({"id": number, "method": "execCommandApproval"}));
        read(&mut codex, &notice("turn/started", &json!({"threadId": format!("x{number}"), "turn": {"id": "1"}})));
        codex.message("go");
    }
    assert!(codex.save().to_string().len() < 64 * 1024);
    assert_eq!(read(&mut codex, &command("completed", "c4999")), [Event::BackgroundEnded("c4999".into())]);
}

#[test]
fn nothing_is_interrupted_or_cleared_where_that_makes_no_sense() {
    let mut codex = Codex::default();
    assert_eq!((codex.interrupt(), codex.clear(), codex.ask().len()), (Interrupt::Write(Vec::new()), None, 0));
    let mut codex = open();
    assert_eq!(codex.interrupt(), Interrupt::Write(Vec::new()));
    codex.message("go");
    assert!(matches!(codex.interrupt(), Interrupt::Write(lines) if lines[0].contains(r#""turnId":"""#)));
    assert_eq!(codex.clear(), None);
}

#[test]
fn a_person_takes_the_conversation_up_by_its_id() {
    let spec = EngineSpec { command: vec!["codex".into(), "app-server".into()], ..EngineSpec::default() };
    let resume = Codex::default().resume(&spec, Some("7"), "/work").unwrap();
    assert_eq!((resume.command, resume.cwd), (vec!["codex".into(), "resume".into(), "7".into()], "/work".to_owned()));
    assert_eq!(Codex::default().resume(&spec, None, "/work"), None);
}
