//! Recorded conversations, and what no recording shows.

use serde_json::json;

use crate::runner::engines::recording::{names, play, play_with_restarts};
use crate::runner::engines::{Adapter, AdapterKind, Claude, Event, Interrupt, Opening};
use crate::runner::settings::EngineSpec;

const KIND: AdapterKind = AdapterKind::Claude;

fn read(claude: &mut Claude, line: &serde_json::Value) -> Vec<Event> {
    claude.read(line.to_string().as_bytes()).events
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
fn a_background_task_is_told_from_its_beginning_to_its_end() {
    for (name, most) in [("background", 1), ("overlapping", 2), ("cleared", 1)] {
        let play = play(KIND, name);
        let counts: Vec<u32> = play.states.iter().filter_map(|state| state.background_tasks.value()).collect();
        let first = counts.iter().position(|count| *count > 0).unwrap();
        let last = counts.iter().rposition(|count| *count > 0).unwrap();
        assert!(counts[first..=last].iter().all(|count| *count > 0), "{name}: {counts:?}");
        assert_eq!(counts.iter().max(), Some(&most), "{name}");
        let ends = play.told.iter().rposition(|line| line.contains("BackgroundEnded")).unwrap();
        assert!(last < ends, "{name}: the task is gone only once it has settled");
    }
}

#[test]
fn a_task_with_an_unknown_word_for_its_state_lives_on() {
    let mut claude = Claude::default();
    read(&mut claude, &json!({"type": "system", "subtype": "task_started", "task_id": "t"}));
    for status in [json!("paused"), json!("running"), json!("resting"), json!(null), json!(7)] {
        for line in [
            json!({"type": "system", "subtype": "task_updated", "task_id": "t", "patch": {"status": status}}),
            json!({"type": "system", "subtype": "task_notification", "task_id": "t", "status": status}),
        ] {
            assert_eq!(read(&mut claude, &line), [Event::Output { task: Some("t".to_owned()) }], "{line}");
        }
    }
}

#[test]
fn a_line_that_ticks_is_no_work_outside_of_a_turn() {
    for line in [
        json!({"type": "keep_alive"}),
        json!({"type": "control_response", "response": {}}),
        json!({"type": "system", "subtype": "status", "status": null}),
        json!({"type": "system", "subtype": "api_retry", "attempt": 1}),
        json!({"type": "system", "subtype": "session_state_changed", "state": "idle"}),
    ] {
        assert_eq!(read(&mut Claude::default(), &line), [Event::Status], "{line}");
    }
}

#[test]
fn what_is_not_understood_is_output() {
    for line in ["", "text", "[]", "{}", r#"{"type":7}"#, r#"{"type":"new"}"#, "{\"type\":\"user\"", "\u{0}"] {
        assert_eq!(Claude::default().read(line.as_bytes()).events, [Event::Output { task: None }], "{line}");
    }
}

#[test]
fn a_model_that_speaks_is_in_a_turn_whatever_was_missed() {
    let mut claude = Claude::default();
    let line = json!({"type": "assistant", "message": {"content": []}, "parent_tool_use_id": null});
    assert_eq!(read(&mut claude, &line), [Event::TurnStarted, Event::Output { task: None }]);
    let below = json!({"type": "assistant", "message": {"content": []}, "parent_tool_use_id": "call"});
    assert_eq!(read(&mut Claude::default(), &below), [Event::Output { task: None }]);
}

#[test]
fn a_turn_that_begins_by_itself_is_told_also_after_a_message_that_never_arrived() {
    let mut claude = Claude::default();
    // Nobody tells the adapter that this was not taken.
    claude.message("lost");
    let running = json!({"type": "system", "subtype": "session_state_changed", "state": "running"});
    assert_eq!(read(&mut claude, &running), [Event::TurnStarted]);
}

#[test]
fn a_question_is_refused_by_a_message_and_never_granted() {
    for kind in ["can_use_tool", "elicitation", "request_user_dialog", "hook_callback", "something_new"] {
        let mut claude = Claude::default();
        let question = json!({"type": "control_request", "request_id": "q", "request": {"subtype": kind}});
        assert_eq!(read(&mut claude, &question), [Event::AwaitingInput]);
        let written = claude.message("yes, allow it").write;
        assert_eq!(written.len(), 2);
        assert!(written[0].contains(r#""request_id":"q""#), "{written:?}");
        for grant in ["allow\"", "accept", "updatedInput", "completed"] {
            assert!(!written[0].contains(grant), "{written:?}");
        }
        assert_eq!(claude.message("again").write.len(), 1, "a question is answered once");
    }
}

/// One that has said that it asks, and got a message before it asked.
fn written_to_too_early() -> Claude {
    let mut claude = Claude::default();
    claude.message("go");
    let announced = json!({"type": "system", "subtype": "session_state_changed", "state": "requires_action"});
    assert_eq!(read(&mut claude, &announced), [Event::AwaitingInput]);
    assert_eq!(claude.message("instead").write.len(), 1, "there is nothing to refuse yet");
    claude
}

fn question(id: &str) -> String {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool"}}).to_string()
}

fn state(claude: &mut Claude, state: &str) -> Vec<Event> {
    read(claude, &json!({"type": "system", "subtype": "session_state_changed", "state": state}))
}

#[test]
fn a_question_that_a_message_came_before_is_refused_as_soon_as_it_comes() {
    let mut claude = Claude::default();
    claude.restore(&written_to_too_early().save());
    for id in ["q1", "q2"] {
        let refused = claude.read(question(id).as_bytes());
        assert_eq!(refused.events, [Event::Output { task: None }], "nobody is waited for");
        assert_eq!(refused.write.len(), 1);
        assert!(refused.write[0].contains(id) && refused.write[0].contains("deny"), "{refused:?}");
    }
    state(&mut claude, "running");
    let next = claude.read(question("q3").as_bytes());
    assert_eq!((next.events, next.write), (vec![Event::AwaitingInput], Vec::new()), "that one is a person's");
}

#[test]
fn only_a_message_into_that_gap_refuses_a_later_question() {
    let mut ended = written_to_too_early();
    state(&mut ended, "idle");
    let mut answered = Claude::default();
    answered.message("go");
    state(&mut answered, "requires_action");
    answered.read(question("q1").as_bytes());
    assert_eq!(answered.message("instead").write.len(), 2);
    let mut unasked = Claude::default();
    unasked.message("go");
    unasked.message("and this");
    for claude in [&mut ended, &mut answered, &mut unasked] {
        let asked = claude.read(question("q2").as_bytes());
        assert_eq!((asked.events, asked.write), (vec![Event::AwaitingInput], Vec::new()));
    }
}

#[test]
fn a_question_that_is_open_survives_the_end_of_a_turn() {
    let mut claude = Claude::default();
    read(&mut claude, &json!({"type": "control_request", "request_id": "q", "request": {"subtype": "can_use_tool"}}));
    let idle = json!({"type": "system", "subtype": "session_state_changed", "state": "idle"});
    assert_eq!(read(&mut claude, &idle), [Event::Status]);
    let withdrawn = json!({"type": "control_cancel_request", "request_id": "q"});
    assert_eq!(read(&mut claude, &withdrawn), [Event::InputReceived]);
    assert_eq!(read(&mut claude, &withdrawn), [Event::Status]);
}

#[test]
fn a_flood_costs_bounded_memory() {
    let mut claude = Claude::default();
    for number in 0..5_000 {
        let id = format!("t{number}");
        let task = json!({"type": "system", "subtype": "task_started", "task_id": id});
        assert_eq!(read(&mut claude, &task), [Event::BackgroundStarted(id.clone())]);
        read(
            &mut claude,
            &json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool"}}),
        );
        let block = json!({"id": id, "name": "CronCreate", "input": {}});
        read(&mut claude, &json!({"type": "assistant", "message": {"content": [block]}}));
    }
    assert!(claude.save().to_string().len() < 32 * 1024);
    let settled = json!({"type": "system", "subtype": "task_notification", "task_id": "t4999", "status": "completed"});
    assert_eq!(read(&mut claude, &settled), [Event::BackgroundEnded("t4999".to_owned())]);
}

#[test]
fn the_model_cannot_forge_the_end_of_a_schedule() {
    let mut claude = Claude::default();
    let create = json!({"id": "c1", "name": "CronCreate", "input": {"cron": "* * * * *"}});
    read(&mut claude, &json!({"type": "assistant", "message": {"content": [create]}}));
    let result = |call: &str, result: serde_json::Value| json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": call}]}, "tool_use_result": result});
    let begun = read(&mut claude, &result("c1", json!({"id": "s"})));
    assert_eq!(begun.last(), Some(&Event::BackgroundStarted("schedule-s".to_owned())));
    let other = json!({"id": "c2", "name": "CronList", "input": {}});
    read(&mut claude, &json!({"type": "assistant", "message": {"content": [other]}}));
    // Another tool's result, a failed listing, one without a list: none of them ends it.
    for line in [result("c9", json!({"jobs": []})), result("c2", json!({"jobs": [{"name": "no id"}]}))] {
        assert_eq!(read(&mut claude, &line), [Event::Output { task: None }], "{line}");
    }
    let delete = json!({"id": "c3", "name": "CronDelete", "input": {"id": "s"}});
    read(&mut claude, &json!({"type": "assistant", "message": {"content": [delete]}}));
    let gone = read(&mut claude, &result("c3", json!({"id": "s"})));
    assert_eq!(gone.last(), Some(&Event::BackgroundEnded("schedule-s".to_owned())));
}

#[test]
fn nothing_is_interrupted_where_nothing_runs() {
    let mut claude = Claude::default();
    assert_eq!(claude.interrupt(), Interrupt::Write(Vec::new()));
    claude.message("go");
    assert!(matches!(claude.interrupt(), Interrupt::Write(lines) if lines.len() == 1));
    assert_eq!(claude.clear(), None, "a running turn is not cleared away");
}

#[test]
fn the_id_of_a_conversation_is_one_argument_whatever_it_is() {
    let spec = EngineSpec { command: vec!["claude".into(), "-p".into()], ..EngineSpec::default() };
    let opening = |id: &str| Opening { cwd: "/work".into(), engine_session_id: Some(id.to_owned()) };
    let claude = Claude::default();
    assert_eq!(claude.command(&spec, &Opening::default()), ["claude", "-p"]);
    assert_eq!(claude.command(&spec, &opening("--x")), ["claude", "-p", "--resume=--x"]);
    let resume = claude.resume(&spec, Some("7"), "/work").unwrap();
    assert_eq!(resume.command, ["claude", "--resume", "7"]);
    let configured = EngineSpec { resume: vec!["other".into(), "{engine_session_id}".into()], ..spec };
    assert_eq!(claude.resume(&configured, Some("7"), "/work").unwrap().command, ["other", "7"]);
    assert_eq!(claude.resume(&configured, None, "/work"), None);
}

#[test]
fn what_cannot_be_read_of_a_memory_is_left() {
    let mut claude = Claude::default();
    claude.message("go");
    let before = claude.save();
    for odd in [json!(null), json!(7), json!({"turn": "yes"}), json!([])] {
        claude.restore(&odd);
    }
    assert_eq!(claude.save(), before);
}
