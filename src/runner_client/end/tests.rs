use super::*;
use crate::protocol::EndMode;

fn target(speaks_protocol: bool) -> Target {
    Target {
        id: "mac".parse().unwrap(),
        url: String::new(),
        token_file: None,
        identity: speaks_protocol.then(|| "mac-mini".to_owned()),
        epoch: speaks_protocol.then_some(7),
        state_id: None,
        speaks_protocol,
    }
}

fn call(set_recognised: bool) -> StopCall {
    let request = EndRequest {
        session_id: "s-1".parse().unwrap(),
        generation: 3,
        mode: EndMode::IfIdle,
        limits: None,
        stamp: Some("7:5".to_owned()),
        reason: "idle".to_owned(),
        sweep_id: None,
        owner_id: None,
    };
    StopCall { request, set_recognised }
}

fn spoken(status: u16, change: Value) -> StopAnswer {
    let mut body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 7, "ready": true,
        "session_id": "s-1", "generation": 3, "outcome": "stopped", "reason": "idle"});
    if let (Value::Object(body), Value::Object(change)) = (&mut body, change) {
        body.extend(change);
        body.retain(|_, value| *value != json!("(missing)"));
    }
    read_end(&Reply::of(status, &body.to_string()), &target(true), &call(true))
}

fn foreign(status: u16, body: &str) -> StopAnswer {
    read_end(&Reply::of(status, body), &target(false), &call(true))
}

fn closes(answer: &StopAnswer) -> bool {
    matches!(answer, StopAnswer::Stopped(_) | StopAnswer::AlreadyStopped(_) | StopAnswer::NotTracked)
}

#[test]
fn each_outcome_of_the_protocol_is_read() {
    assert!(matches!(spoken(200, json!({"freed_bytes": 5})), StopAnswer::Stopped(record)
        if record.freed_bytes == Some(5) && record.reason == "idle" && record.generation == 3));
    assert!(matches!(spoken(200, json!({"outcome": "already_stopped", "reason": "exited"})),
        StopAnswer::AlreadyStopped(record) if record.reason == "exited"));
    assert_eq!(spoken(404, json!({"outcome": "not_tracked", "generation": "(missing)"})), StopAnswer::NotTracked);
    assert_eq!(spoken(202, json!({"outcome": "accepted"})), StopAnswer::Accepted);
    for because in Because::ALL {
        let answer = spoken(409, json!({"outcome": "refused", "because": because, "idle_ms": 9, "generation": 8}));
        let highest_generation = None;
        assert_eq!(answer, StopAnswer::Refused { because: Some(*because), idle_ms: Some(9), highest_generation });
    }
}

#[test]
fn a_refusal_in_words_of_a_later_version_is_one() {
    let answer = spoken(409, json!({"outcome": "refused", "because": "full_moon", "idle_ms": "long"}));
    assert_eq!(answer, StopAnswer::Refused { because: None, idle_ms: None, highest_generation: None });
    let restarted = spoken(409, json!({"outcome": "refused", "because": "stale", "epoch": 8}));
    assert!(matches!(restarted, StopAnswer::Refused { because: Some(Because::Stale), .. }));
}

#[test]
fn evidence_that_cannot_be_read_does_not_undo_a_stop() {
    assert!(matches!(spoken(200, json!({"freed_bytes": "much"})), StopAnswer::Stopped(_)));
    assert!(
        matches!(spoken(200, json!({"reason": "(missing)"})), StopAnswer::Stopped(record) if record.reason == "idle")
    );
}

#[test]
fn an_answer_about_something_else_stops_nothing() {
    for (status, change) in [
        (200, json!({"session_id": "s-2"})),
        (200, json!({"session_id": "(missing)"})),
        (200, json!({"generation": 4})),
        (200, json!({"generation": "(missing)"})),
        (200, json!({"runner_id": "other"})),
        (200, json!({"runner_id": "(missing)"})),
        (200, json!({"epoch": 6})),
        (200, json!({"epoch": 8})),
        (200, json!({"epoch": "(missing)"})),
        (200, json!({"protocol": "(missing)"})),
        (200, json!({"outcome": "(missing)"})),
        (200, json!({"outcome": "not_tracked"})),
        (200, json!({"outcome": "refused"})),
        (200, json!({"outcome": "accepted"})),
        (200, json!({"outcome": "already_stopped", "reason": "(missing)"})),
        (200, json!({"outcome": "already_stopped", "reason": ""})),
        (200, json!({"outcome": "already_stopped", "reason": "exited", "generation": 2})),
        (404, json!({"outcome": "not_tracked", "ready": false})),
        (404, json!({"outcome": "not_tracked", "session_id": "s-2"})),
        (404, json!({"outcome": "not_tracked", "epoch": 8})),
        (404, json!({"outcome": "stopped"})),
        (201, json!({})),
        (204, json!({})),
        (302, json!({})),
        (409, json!({"outcome": "stopped"})),
        (500, json!({})),
        (503, json!({"outcome": "not_ready", "message": "not yet"})),
    ] {
        let answer = spoken(status, change.clone());
        assert!(matches!(answer, StopAnswer::Failed(_)), "{status} {change}: {answer:?}");
    }
}

#[test]
fn a_bare_answer_of_a_runner_that_speaks_the_protocol_is_none() {
    for (status, body) in [(200, ""), (204, ""), (404, ""), (200, "{}"), (404, "{}"), (200, "<html>"), (200, "null")] {
        let answer = read_end(&Reply::of(status, body), &target(true), &call(true));
        assert!(matches!(answer, StopAnswer::Failed(_)), "{status} {body}: {answer:?}");
    }
}

#[test]
fn a_key_sent_twice_stops_nothing() {
    let whole = r#""protocol":1,"runner_id":"mac-mini","epoch":7,"ready":true,"session_id":"s-1","generation":3,"reason":"idle""#;
    for twice in [
        r#""outcome":"refused","outcome":"stopped""#,
        r#""outcome":"stopped","generation":3"#,
        r#""outcome":"stopped","epoch":7"#,
    ] {
        let answer = read_end(&Reply::of(200, &format!("{{{whole},{twice}}}")), &target(true), &call(true));
        assert!(matches!(answer, StopAnswer::Failed(_)), "{twice}: {answer:?}");
    }
    assert!(closes(&read_end(
        &Reply::of(200, &format!("{{{whole},\"outcome\":\"stopped\"}}")),
        &target(true),
        &call(true)
    )));
}

#[test]
fn a_foreign_runner_is_served_by_status() {
    for (status, body) in
        [(200, ""), (204, ""), (200, "{}"), (200, "ok"), (200, "null"), (200, r#"{"session_id":"s-1","ok":true}"#)]
    {
        assert!(
            matches!(foreign(status, body), StopAnswer::Stopped(record) if record.reason == "idle"),
            "{status} {body}"
        );
    }
    assert!(matches!(foreign(200, r#"{"outcome":"already_stopped"}"#), StopAnswer::AlreadyStopped(_)));
    assert_eq!(foreign(404, ""), StopAnswer::NotTracked);
    assert_eq!(foreign(404, r#"{"error":"no such session"}"#), StopAnswer::NotTracked);
    assert_eq!(foreign(202, ""), StopAnswer::Accepted);
    assert!(matches!(foreign(409, "busy"), StopAnswer::Refused { because: None, .. }));
}

#[test]
fn a_foreign_answer_that_contradicts_its_status_stops_nothing() {
    for (status, body) in [
        (200, "<!DOCTYPE html><p>Sign in"),
        (404, "<!DOCTYPE html><p>Not found"),
        (200, "false"),
        (200, "[]"),
        (200, r#"{"session_id":"s-2"}"#),
        (200, r#"{"session_id":"s-1","session_id":"s-2"}"#),
        (200, r#"{"generation":2}"#),
        (200, r#"{"error":"busy"}"#),
        (200, r#"{"ok":false}"#),
        (200, r#"{"success":false}"#),
        (200, r#"{"stopped":false}"#),
        (200, r#"{"outcome":"refused"}"#),
        (200, r#"{"outcome":"accepted"}"#),
        (200, r#"{"outcome":"perhaps"}"#),
        (404, r#"{"outcome":"stopped"}"#),
        (200, r#"{"protocol":1,"outcome":"stopped"}"#),
        (201, ""),
        (206, ""),
        (301, ""),
        (410, ""),
        (429, ""),
        (500, ""),
        (503, ""),
    ] {
        let answer = foreign(status, body);
        assert!(!closes(&answer), "{status} {body}: {answer:?}");
    }
    let mut typed = Reply::of(200, "ok");
    typed.content_type = Some("Text/HTML; charset=utf-8".to_owned());
    assert!(!closes(&read_end(&typed, &target(false), &call(true))));
}

#[test]
fn a_foreign_404_without_a_recognised_set_says_nothing() {
    assert!(matches!(read_end(&Reply::of(404, ""), &target(false), &call(false)), StopAnswer::Failed(_)));
}

#[test]
fn a_foreign_runner_is_sent_the_bare_id() {
    assert_eq!(body(&target(false), &call(true).request), json!({"session_id": "s-1"}));
    assert_eq!(body(&target(true), &call(true).request)["stamp"], "7:5");
}
