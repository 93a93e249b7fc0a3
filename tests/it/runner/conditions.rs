//! When an engine may be stopped, decided by the runner itself.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::processes::is_alive;
use crate::support::runner::{AWAITING, BACKGROUND, QUIET, STALLED, TestRunner, ended, tracked};

const TURN: &str = r#"{"type":"turn_started"}"#;
const TURN_END: &str = r#"{"type":"turn_ended"}"#;

/// Starts a puppet that has said `lines`, the last of which makes `fits` true.
async fn puppet(runner: &TestRunner, id: &str, lines: &[&str], fits: impl Fn(&Value) -> bool) -> i32 {
    let pid = runner.sample(id, &["puppet"]).await;
    for line in lines {
        assert_eq!(runner.say(id, line).await.0, 200);
    }
    runner.until_tracked(id, "as its lines say", fits).await;
    pid
}

/// Asks for a stop after each wait, and expects the reason of each refusal, then the stop.
async fn asked_after(runner: &TestRunner, id: &str, waits: &[(i64, &str)]) {
    for (wait, expected) in waits {
        runner.clock.advance(*wait);
        let (status, answer) = runner.end_if_idle(id).await;
        let said = answer["because"].as_str().or(answer["outcome"].as_str()).unwrap();
        assert_eq!((said, status == 200), (*expected, *expected == "stopped"), "{id} after {wait}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_must_reach_exactly_its_window() {
    let runner = TestRunner::start().await;
    let pid = puppet(&runner, "s1", &[TURN, TURN_END], |one| one["generating"] == false).await;
    runner.clock.advance(QUIET - 1);
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, answer["because"].as_str()), (409, Some("active")));
    assert_eq!(answer["idle_ms"], QUIET - 1);
    assert!(is_alive(pid));
    asked_after(&runner, "s1", &[(1, "stopped")]).await;
    puppet(&runner, "s2", &[TURN, TURN_END], |one| one["generating"] == false).await;
    asked_after(&runner, "s2", &[(QUIET + 1, "stopped")]).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_state_protects_until_exactly_its_limit() {
    let runner = TestRunner::start().await;
    puppet(&runner, "turn", &[TURN], |one| one["generating"] == true).await;
    asked_after(&runner, "turn", &[(STALLED - 1, "generating"), (1, "active"), (QUIET - STALLED, "stopped")]).await;

    let task = [TURN, r#"{"type":"background_started","id":"b"}"#, TURN_END];
    puppet(&runner, "task", &task, |one| one["background_tasks"] == 1 && one["generating"] == false).await;
    asked_after(&runner, "task", &[(QUIET, "background_tasks"), (BACKGROUND - QUIET - 1, "background_tasks")]).await;
    asked_after(&runner, "task", &[(1, "stopped")]).await;

    let question = [TURN, r#"{"type":"awaiting_input"}"#];
    puppet(&runner, "question", &question, |one| one["awaiting_input"] == true).await;
    asked_after(&runner, "question", &[(QUIET, "awaiting_input"), (AWAITING - QUIET - 1, "awaiting_input")]).await;
    asked_after(&runner, "question", &[(1, "stopped")]).await;

    let wake = format!(r#"{{"type":"wake_scheduled","in_ms":{QUIET}}}"#);
    puppet(&runner, "wake", &[TURN, TURN_END, &wake], |one| one["next_wake_in_ms"] == QUIET).await;
    asked_after(&runner, "wake", &[(QUIET, "pending_wake"), (STALLED - 1, "pending_wake"), (1, "stopped")]).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_idle_clock_starts_when_the_background_task_ends() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["puppet"]).await;
    for line in [TURN, r#"{"type":"background_started","id":"b"}"#, TURN_END] {
        runner.say("s1", line).await;
    }
    runner.until_tracked("s1", "at work", |one| one["background_tasks"] == 1 && one["generating"] == false).await;
    runner.clock.advance(QUIET - 1);
    runner.say("s1", r#"{"type":"background_ended","id":"b"}"#).await;
    runner.until_tracked("s1", "done", |one| one["background_tasks"] == 0).await;
    asked_after(&runner, "s1", &[(QUIET - 1, "active"), (1, "stopped")]).await;
    assert!(!is_alive(pid));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_lines_that_tick_are_no_use_unless_turns_cannot_be_told() {
    let runner = TestRunner::start().await;
    runner.sample("ticks", &["ticks", "5"]).await;
    runner.until_tracked("ticks", "quiet", |one| one["generating"] == false).await;
    runner.clock.advance(QUIET);
    let told = r#"sleep 0.3; while :; do echo tick; sleep 0.01; done"#;
    runner.script("plain", told).await;
    asked_after(&runner, "ticks", &[(0, "stopped")]).await;
    runner.clock.advance(QUIET);
    let one = runner.until_tracked("plain", "heard again", |one| one["idle_ms"] == 0).await;
    for field in ["generating", "background_tasks", "awaiting_input", "stalled"] {
        assert!(one.get(field).is_none(), "{field} cannot be told, so it is not sent: {one}");
    }
    asked_after(&runner, "plain", &[(0, "active")]).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_without_a_line_end_and_standard_error_are_uses_where_turns_cannot_be_told() {
    let runner = TestRunner::start().await;
    let engines = [
        ("part", r"while :; do printf '\r%s' x; sleep 0.02; done"),
        ("error", "while :; do echo w >&2; sleep 0.02; done"),
        ("both", r"while :; do printf '\r%s' x >&2; sleep 0.02; done"),
    ];
    for (id, script) in engines {
        let pid = runner.script(id, script).await;
        runner.clock.advance(QUIET);
        runner.until_tracked(id, "heard again", |one| one["idle_ms"] == 0).await;
        asked_after(&runner, id, &[(0, "active")]).await;
        assert!(is_alive(pid), "{id}");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_streams_one_line_is_fresh_and_what_comes_after_it_is_no_use() {
    let runner = TestRunner::start().await;
    let turn = r#"echo '{"type":"turn_started"}'; while :; do printf x; sleep 0.02; done"#;
    runner.script("turn", turn).await;
    runner.until_tracked("turn", "in its turn", |one| one["generating"] == true).await;
    runner.clock.advance(QUIET);
    runner.until_tracked("turn", "heard again", |one| one["turn_silent_ms"] == 0).await;
    asked_after(&runner, "turn", &[(0, "generating")]).await;

    let after = r#"echo '{"type":"turn_ended"}'; while :; do printf x; printf x >&2; sleep 0.02; done"#;
    runner.script("after", after).await;
    runner.until_tracked("after", "after its turn", |one| one["generating"] == false).await;
    asked_after(&runner, "after", &[(QUIET, "stopped")]).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_output_has_ended_is_unknown_and_kept() {
    let runner = TestRunner::start().await;
    runner.script("s1", r#"echo '{"type":"turn_ended"}'; exec >&-; cat; sleep 60"#).await;
    let one = runner.until_tracked("s1", "mute", |one| one["generating"].is_null()).await;
    assert!(one.as_object().unwrap().contains_key("generating"), "an explicit null, not a missing field");
    asked_after(&runner, "s1", &[(QUIET, "active"), (BACKGROUND - QUIET - 1, "active"), (1, "stopped")]).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleep_is_not_silence() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    runner.until_tracked("s1", "quiet", |one| one["generating"] == false).await;
    runner.clock.advance(QUIET - 1);
    runner.clock.sleep(8 * QUIET);
    runner.clock.step_wall(100 * QUIET);
    asked_after(&runner, "s1", &[(0, "active")]).await;
    assert!(is_alive(pid));
    asked_after(&runner, "s1", &[(1, "stopped")]).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_news_and_other_generations_stop_nothing() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    runner.until_tracked("s1", "quiet", |one| one["generating"] == false).await;
    runner.clock.advance(QUIET);
    let fresh = runner.condition("s1").await;
    let with = |key: &str, value: Value| {
        let mut body = fresh.clone();
        body[key] = value;
        body
    };
    let stamp = fresh["stamp"].as_str().unwrap();
    let (epoch, at) = stamp.split_once(':').unwrap();
    let at: i64 = at.parse().unwrap();
    let stale =
        [format!("{epoch}:{}", at + 1), format!("2:{at}"), format!("0:{at}"), String::from("x"), format!("{at}")];
    for stamp in stale {
        let (status, answer) = runner.post("end", with("stamp", json!(stamp))).await;
        assert_eq!((status, answer["because"].as_str()), (409, Some("stale")), "{stamp}");
    }
    runner.clock.sleep(60_001);
    let (status, answer) = runner.post("end", fresh.clone()).await;
    assert_eq!((status, answer["because"].as_str()), (409, Some("stale")), "it froze for a minute");
    for generation in [2, 7] {
        for mode in ["if_idle", "force"] {
            let mut body = with("generation", json!(generation));
            body["mode"] = json!(mode);
            let (status, answer) = runner.post("end", body).await;
            assert_eq!((status, answer["because"].as_str()), (409, Some("generation")));
            assert_eq!(answer["highest_generation"], 1);
        }
    }
    for key in ["stamp", "limits"] {
        assert_eq!(runner.post("end", with(key, Value::Null)).await.0, 400, "{key}");
    }
    for key in ["quiet_for_ms", "awaiting_for_ms", "stalled_for_ms", "background_for_ms"] {
        for absurd in [-1, i64::MIN, i64::MAX] {
            let mut limits = fresh["limits"].clone();
            limits[key] = json!(absurd);
            assert_eq!(runner.post("end", with("limits", limits)).await.0, 400, "{key} {absurd}");
        }
    }
    assert!(is_alive(pid), "none of these stopped it");

    let fresh = runner.condition("s1").await;
    runner.clock.sleep(60_000);
    assert_eq!(runner.post("end", fresh).await.0, 200, "exactly a minute old is fresh");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_touch_that_was_granted_is_never_overtaken_by_a_stop() {
    let runner = Arc::new(TestRunner::start_with(|settings| settings.start_settle = 1).await);
    let (mut kept, mut stopped) = (0, 0);
    for round in 0..60_u64 {
        let id = format!("s{round}");
        let pid = runner.sample(&id, &["puppet"]).await;
        runner.clock.advance(QUIET);
        let condition = runner.condition(&id).await;
        let used = async {
            // At another moment of the stop each time.
            tokio::time::sleep(Duration::from_micros(round * 100)).await;
            match round % 2 {
                0 => runner.touch(&id).await,
                _ => runner.say(&id, "text").await,
            }
        };
        let (used, end) = tokio::join!(used, runner.post("end", condition));
        match (used.0, end.1["outcome"].as_str().unwrap()) {
            (200, "refused") => {
                kept += 1;
                assert!(is_alive(pid));
                assert_eq!(end.1["because"], "active");
                assert!(tracked(&runner.list().await, &id).is_some());
                runner.force(&id, 1).await;
            }
            (410, "stopped") => stopped += 1,
            other => panic!("{other:?}: {} {}", used.1, end.1),
        }
    }
    eprintln!("{kept} kept, {stopped} stopped");
    assert_eq!(kept + stopped, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_on_its_way_protects_and_is_told_when_its_engine_is_ended() {
    let runner = TestRunner::start().await;
    let pid = runner.script("s1", "exec sleep 4000").await;
    // More than a pipe holds, for an engine that never reads.
    let text = "x".repeat(1024 * 1024);
    let message = runner.say("s1", &text);
    let stop = async {
        runner.until_tracked("s1", "used", |one| one["idle_ms"] == 0).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut condition = runner.condition("s1").await;
        for limit in ["quiet_for_ms", "awaiting_for_ms", "stalled_for_ms", "background_for_ms"] {
            condition["limits"][limit] = json!(0);
        }
        let (status, answer) = runner.post("end", condition).await;
        assert_eq!((status, answer["because"].as_str()), (409, Some("active")), "{answer}");
        assert!(is_alive(pid));
        runner.force("s1", 1).await
    };
    let (message, stop) = tokio::join!(message, stop);
    assert_eq!((stop.0, stop.1["outcome"].as_str()), (200, Some("stopped")));
    assert_eq!((message.0, message.1["reason"].as_str()), (410, Some("ended_by_person")), "{}", message.1);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_cannot_be_written_down_is_none() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    let in_the_way = runner.state().join("sessions/s1/end.json");
    std::fs::create_dir(&in_the_way).unwrap();
    let (status, answer) = runner.force("s1", 1).await;
    assert_eq!((status, answer["outcome"].as_str()), (500, Some("internal")));
    assert!(answer["message"].as_str().unwrap().contains("nothing was stopped"), "{answer}");
    assert_eq!(runner.touch("s1").await.0, 200);
    assert!(is_alive(pid));
    std::fs::remove_dir(in_the_way).unwrap();
    assert_eq!(runner.force("s1", 1).await.0, 200);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_whose_record_is_not_on_disk_is_not_told() {
    let runner = TestRunner::start_with(|settings| settings.graces.kill = 100).await;
    let pid = runner.sample("s1", &["idle"]).await;
    let in_the_way = runner.state().join("ended/s1.1.json");
    std::fs::create_dir(&in_the_way).unwrap();
    let (status, answer) = runner.force("s1", 1).await;
    assert_eq!((status, answer["outcome"].as_str()), (202, Some("accepted")));
    assert!(!is_alive(pid));
    let list = runner.list().await;
    assert!(tracked(&list, "s1").is_some() && ended(&list, "s1").is_none(), "{list}");
    std::fs::remove_dir(in_the_way).unwrap();
    runner.until("recorded", |list| ended(list, "s1").is_some() && tracked(list, "s1").is_none()).await;
    runner.stop().await;
}
