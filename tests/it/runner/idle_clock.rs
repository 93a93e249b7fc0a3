//! A restart of the runner makes no session look older or younger; real clocks, since it is they that must agree.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use serde_json::Value;

use crate::support::daemon::{Daemon, home_of_a_past_life};
use crate::support::runner::{Engines, tracked};

const SAY: &str = r#"say() { echo "{\"type\":\"$1\"$2}"; };"#;
/// Longer than what is allowed as a difference, so that a clock that was set back is seen.
const AGES: i64 = 2_500;

/// Returns an age and when it was told.
fn age(list: &Value, id: &str, key: &str) -> i64 {
    tracked(list, id).unwrap()[key].as_i64().unwrap_or_else(|| panic!("{id} tells no {key}: {list}"))
}

/// Waits until what a session tells is old enough to be compared.
async fn aged(daemon: &Daemon, ids: &[(&str, &str)]) -> (Value, Instant) {
    let old = |list: &Value| ids.iter().all(|(id, key)| tracked(list, id).unwrap()[*key].as_i64() > Some(AGES));
    let list = daemon.until("aged", old).await;
    (list, sexton::clock::timer())
}

const SESSIONS: [(&str, &str, &str); 4] = [
    ("idle", "idle_ms", "say turn_started; say turn_ended"),
    ("turn", "turn_silent_ms", "say turn_started"),
    ("task", "background_silent_ms", r#"say background_started ',"id":"t"'; say turn_started; say turn_ended"#),
    ("asks", "awaiting_ms", "say turn_started; say turn_ended; say awaiting_input"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_restart_nor_a_kill_makes_a_session_older_or_younger() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let mut daemon = Daemon::start(&home).await;
    for (id, _, script) in SESSIONS {
        daemon.begin(id, &format!("{SAY} {script}; sleep 1000")).await;
    }
    // It reads nothing, so this message waits in its shim. That was a use when it came, and is none later.
    let body = serde_json::json!({"session_id": "idle", "generation": 1, "text": "x".repeat(300_000)});
    let waiting = tokio::spawn(daemon.post("messages", &body).send());
    let ages = SESSIONS.map(|(id, key, _)| (id, key));
    let (before, told) = aged(&daemon, &ages).await;
    let ages: Vec<_> = ages.into_iter().flat_map(|(id, key)| [(id, key), (id, "idle_ms")]).collect();
    for kill in [true, false, true] {
        if kill {
            daemon.kill()
        } else {
            daemon.leave().await
        }
        daemon = Daemon::start(&home).await;
        let list = daemon.ready().await;
        let passed = i64::try_from(told.elapsed().as_millis()).unwrap();
        for (id, key) in &ages {
            let (then, now) = (age(&before, id, key), age(&list, id, key));
            assert!((now - then - passed).abs() < 1_000, "{id} {key}: {then}, {passed} later {now}, killed: {kill}");
        }
    }
    drop(waiting.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_while_no_runner_was_there_happened_then() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let flag = home.path().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", flag.display());
    daemon
        .begin(
            "turn",
            &format!("{SAY} say turn_started; {wait}; say turn_ended; touch {}.turn; sleep 1000", flag.display()),
        )
        .await;
    let task = r#"say background_started ',"id":"t"'; say turn_started; say turn_ended"#;
    let ended = r#"say background_ended ',"id":"t"'"#;
    daemon.begin("task", &format!("{SAY} {task}; {wait}; {ended}; touch {}.task; sleep 1000", flag.display())).await;
    daemon
        .until("at work", |list| {
            tracked(list, "turn").unwrap()["generating"] == true
                && tracked(list, "task").unwrap()["background_tasks"] == 1
        })
        .await;
    daemon.kill();
    std::fs::write(&flag, "").unwrap();
    while !["turn", "task"].iter().all(|name| home.path().join(format!("go.{name}")).exists()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ended = sexton::clock::timer();
    // Nothing but time makes the difference here.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    let passed = i64::try_from(ended.elapsed().as_millis()).unwrap();
    for id in ["turn", "task"] {
        let one = tracked(&list, id).unwrap();
        assert_eq!((&one["generating"], &one["background_tasks"]), (&false.into(), &0.into()), "{one}");
        let idle = age(&list, id, "idle_ms");
        assert!((idle - passed).abs() < 1_000, "{id} has been idle for {idle}, and ended {passed} ago");
    }
}
