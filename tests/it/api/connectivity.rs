//! Whether runners are there and hold one's sessions: each word, asked once for many, and a reap as a supervisor sees it.

use serde_json::{Value, json};
use sexton::connectivity::Probes;
use sexton::session::{Session, Status};
use sexton::time::{HOUR, MINUTE, SECOND, Span};

use crate::api::{Answer, Ask, Host, ME, make_token};
use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::world::{World, id, silent};

const ONE: &str = "/v1/runners/mac-mini/connectivity";
const ALL: &str = "/v1/runners/connectivity";

/// Asks about `mac-mini`, after what was answered before has gone stale.
async fn now(host: &Host) -> Value {
    host.world.clock.advance(3 * SECOND);
    host.get(ONE).await.ok()
}

/// What an overview says of each session, in their order.
fn sessions(told: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = told["sessions"].as_array().unwrap();
    items.iter().map(|item| (text(&item["session_id"]), text(&item["state"]))).collect()
}

fn state_of(told: &Value, session: &Session) -> String {
    let found = sessions(told).into_iter().find(|(id, _)| *id == session.id.as_str());
    found.unwrap_or_else(|| panic!("{} is not in {told}", session.id)).1
}

/// Checks that the runner is `state` with a reason, and that nothing is said of its session then.
fn assert_doubtful(told: &Value, state: &str) {
    assert_eq!(told["state"], state, "{told}");
    assert!(told["why"].as_str().is_some_and(|why| !why.is_empty()), "{told}");
    assert_eq!(sessions(told), [("s".to_owned(), "unknown".to_owned())]);
}

#[tokio::test]
async fn a_runner_is_connected() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    let told = host.get(ONE).await.ok();
    let expected = json!({"runner_id": "mac-mini", "state": "connected", "why": null,
        "checked_at": host.world.now().to_string(), "age_ms": 0,
        "sessions": [{"session_id": "s", "state": "tracked"}]});
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_runner_that_recovers_is_not_ready() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    assert_eq!(now(&host).await["state"], "connected");
    (runner.script().ready, runner.script().complete) = (false, false);
    assert_doubtful(&now(&host).await, "not_ready");
    // Another runner, or an older state of this one, that says so is still not this one.
    runner.script().runner_id = id("mac-studio");
    assert_doubtful(&now(&host).await, "unknown");
    (runner.script().runner_id, runner.script().epoch) = (id("mac-mini"), 0);
    assert_doubtful(&now(&host).await, "unknown");
}

#[tokio::test]
async fn a_runner_that_does_not_answer_is_offline() {
    let host = Host::new().await;
    let mut runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    runner.answer_once(Verb::Sessions, None, Answering::Hang);
    assert_doubtful(&now(&host).await, "offline");
    assert_eq!(now(&host).await["state"], "connected");
    runner.die().await;
    assert_doubtful(&now(&host).await, "offline");
}

#[tokio::test]
async fn a_runner_that_refuses_the_secret_is_unauthorised() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    runner.answer(Verb::Sessions, None, Answering::Raw(Raw::bare(401)));
    assert_doubtful(&now(&host).await, "unauthorised");
}

#[tokio::test]
async fn whatever_else_answers_is_unknown() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    for answer in [
        Raw::bare(500),
        Raw::bare(302),
        Raw::json(200, "null"),
        Raw::json(200, r#"{"tracked":null}"#),
        Raw::json(200, r#"{"tracked":[],"ready":"false"}"#),
        Raw::json(200, r#"{"tracked":[],"ready":false,"ready":false}"#),
        Raw::json(503, r#"{"tracked":[],"ready":false}"#),
        Raw::json(200, r#"{"tracked":[],"complete":false}"#),
        Raw::json(200, r#"{"tracked":[],"ready":false,"ask":"another"}"#),
        Raw::json(200, "<html>"),
    ] {
        runner.answer(Verb::Sessions, None, Answering::Raw(answer));
        assert_doubtful(&now(&host).await, "unknown");
    }
    runner.script().behave();
    runner.script().runner_id = id("mac-studio");
    assert_doubtful(&now(&host).await, "unknown");
}

#[tokio::test]
async fn a_session_is_tracked_missing_or_unknown() {
    let host = Host::new().await;
    let (world, runner) = (&host.world, host.world.runner().await);
    let tracked = world.held(&runner, "tracked", MINUTE).await;
    let missing = world.session("missing", MINUTE, |_| ()).await;
    let starting = world.session("starting", MINUTE, |row| row.status = Status::Starting).await;
    let restarted = world.session("restarted", MINUTE, |row| row.generation = 2).await;
    runner.hold_engine(&restarted.id, 1, silent(MINUTE));
    let restored = world.session("restored", MINUTE, |_| ()).await;
    runner.hold_engine(&restored.id, 2, silent(MINUTE));
    let timeless = world.session("timeless", MINUTE, |row| (row.attached_at, row.started_at) = (None, None)).await;
    world.session("over", MINUTE, |row| row.status = Status::Ended).await;
    let told = now(&host).await;
    assert_eq!(state_of(&told, &tracked), "tracked");
    assert_eq!(state_of(&told, &missing), "missing");
    for doubtful in [&starting, &restarted, &restored, &timeless] {
        assert_eq!(state_of(&told, doubtful), "unknown", "{}", doubtful.id);
    }
    assert_eq!(sessions(&told).len(), 6, "what is over is not told of: {told}");
}

#[tokio::test]
async fn a_session_that_began_after_the_question_is_not_missing() {
    let host = Host::new().await;
    let (world, runner) = (&host.world, host.world.runner().await);
    let early = world.session("early", MINUTE, |row| row.attached_at = Some(world.now().minus(1))).await;
    assert_eq!(host.get(ONE).await.ok()["state"], "connected");
    world.clock.advance(SECOND);
    let late = world.session("late", 0, |row| row.attached_at = Some(world.now())).await;
    let told = host.get(ONE).await.ok();
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 1, "the answer is from before");
    assert_eq!((state_of(&told, &early), state_of(&told, &late)), ("missing".to_owned(), "unknown".to_owned()));
    assert_eq!(state_of(&now(&host).await, &late), "missing");
}

#[tokio::test]
async fn a_plain_runner_is_understood_too() {
    let host = Host::new().await;
    let runner = host.world.foreign_runner().await;
    let (held, gone) = (host.world.held(&runner, "held", MINUTE).await, host.world.session("gone", 0, |_| ()).await);
    let told = now(&host).await;
    assert_eq!((state_of(&told, &held), state_of(&told, &gone)), ("tracked".to_owned(), "missing".to_owned()));
    (runner.script().ready, runner.script().complete) = (false, false);
    assert_eq!(state_of(&now(&host).await, &gone), "missing", "bare ids say nothing of being ready");
}

#[tokio::test]
async fn the_overview_tells_of_every_runner_with_ones_own_sessions() {
    let host = Host::new().await;
    let (world, mini) = (&host.world, host.world.runner().await);
    let studio = FakeRunner::with_clock(std::sync::Arc::new(world.clock.clone())).await;
    studio.script().runner_id = id("studio");
    world.enrol(&studio, "studio").await;
    world.enrol_url("attic", "http://127.0.0.1:1").await;
    world.held(&mini, "a", MINUTE).await;
    world.session("b", MINUTE, |row| row.runner_id = id("studio")).await;
    let theirs = world.session("c", MINUTE, |row| row.owner_id = Some("bob".to_owned())).await;
    world.session("d", MINUTE, |row| row.owner_id = None).await;
    world.clock.advance(1);

    let mine = make_token(world, ME, "read").await;
    let told = host.ask(Ask::new("GET", ALL).token(&mine)).await.ok();
    let items = told["items"].as_array().unwrap();
    let states: Vec<(&str, &str)> =
        items.iter().map(|item| (item["runner_id"].as_str().unwrap(), item["state"].as_str().unwrap())).collect();
    assert_eq!(states, [("attic", "offline"), ("mac-mini", "connected"), ("studio", "connected")]);
    let seen: Vec<Vec<(String, String)>> = items.iter().map(sessions).collect();
    let pair = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    assert_eq!(seen, [vec![], vec![pair("a", "tracked"), pair("d", "missing")], vec![pair("b", "missing")]]);
    assert_eq!(told["next"], Value::Null);

    let everybodys = host.get(ALL).await.ok();
    assert_eq!(state_of(&everybodys["items"][1], &theirs), "missing", "an admin sees all");
    let bobs = make_token(world, "bob", "read").await;
    let told = host.ask(Ask::new("GET", ONE).token(&bobs)).await.ok();
    assert_eq!(sessions(&told), [pair("c", "missing")]);
}

#[tokio::test]
async fn a_hundred_callers_are_one_probe() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    let gate = runner.hold(Verb::Sessions, When::Arrived);
    let callers = futures_util::future::join_all((0..100).map(|at| host.get(if at % 2 == 0 { ONE } else { ALL })));
    let opening = async {
        gate.reached().await;
        gate.open();
    };
    let (answers, ()): (Vec<Answer>, ()) = tokio::join!(callers, opening);
    for (at, answer) in answers.iter().enumerate() {
        let told = answer.ok();
        let one = if at % 2 == 0 { &told } else { &told["items"][0] };
        assert_eq!((&one["state"], sessions(one).len()), (&json!("connected"), 1));
    }
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 1);
}

#[tokio::test]
async fn whoever_waits_takes_the_answer_that_comes_even_when_nothing_is_kept() {
    let world = World::with(|config| config.limits.connectivity_cache = Span(0)).await;
    let runner = world.runner().await;
    let row = world.store().find_runner(&id("mac-mini")).await.unwrap().unwrap();
    let (probes, gate) = (Probes::default(), runner.hold(Verb::Sessions, When::Arrived));
    let asking = futures_util::future::join_all((0..10).map(|_| probes.probe(&world.tools, &row)));
    let opening = async {
        gate.reached().await;
        gate.open();
    };
    tokio::join!(asking, opening);
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 1);
    probes.probe(&world.tools, &row).await;
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 2, "and whoever comes later asks anew");
}

#[tokio::test]
async fn an_answer_is_told_again_for_seconds_and_says_how_old_it_is() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let began = host.world.now().to_string();
    assert_eq!(host.get(ONE).await.ok()["age_ms"], 0);
    host.world.clock.advance(3 * SECOND - 1);
    let told = host.get(ONE).await.ok();
    assert_eq!((&told["age_ms"], &told["checked_at"]), (&json!(2_999), &json!(began)));
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 1);
    host.world.clock.advance(1);
    assert_eq!(host.get(ONE).await.ok()["age_ms"], 0);
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 2);
    // A machine that slept has not kept its answer fresh.
    host.world.clock.sleep(3 * SECOND);
    assert_eq!(host.get(ONE).await.ok()["age_ms"], 0);
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 3);
}

#[tokio::test]
async fn a_runner_that_moved_is_asked_where_it_is_now() {
    let host = Host::new().await;
    let old = host.world.runner().await;
    assert_eq!(host.get(ONE).await.ok()["state"], "connected");
    host.world.store().remove_runner(&id("mac-mini")).await.unwrap();
    host.world.enrol_url("mac-mini", "http://127.0.0.1:1").await;
    assert_eq!(host.get(ONE).await.ok()["state"], "offline");
    assert_eq!(old.calls_of(Verb::Sessions).len(), 1);
}

#[tokio::test]
async fn a_probe_remembers_the_runner_and_writes_nothing_else() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    host.world.held(&runner, "s", MINUTE).await;
    host.world.session("gone", HOUR, |_| ()).await;
    let rest = |dump: String| dump.lines().filter(|line| !line.starts_with("runners:")).map(str::to_owned).collect();
    let before: Vec<String> = rest(host.world.dump().await);
    for _ in 0..3 {
        assert_eq!(now(&host).await["state"], "connected");
        assert_eq!(host.get(ALL).await.ok()["items"][0]["state"], "connected");
    }
    let after: Vec<String> = rest(host.world.dump().await);
    assert_eq!(after, before);
    let row = host.world.store().find_runner(&id("mac-mini")).await.unwrap().unwrap();
    assert_eq!((row.epoch, row.protocol), (Some(1), Some(1)));
    assert!(row.last_seen_at.is_some());
    assert!(runner.calls().iter().all(|call| call.verb == Verb::Sessions), "no use of any session");
}

#[tokio::test]
async fn a_runner_that_is_not_enrolled_is_not_found() {
    let host = Host::new().await;
    let answer = host.get("/v1/runners/nobody/connectivity").await;
    assert_eq!(answer.error(), (404, "not_found".to_owned()));
    assert_eq!(host.get("/v1/runners/a.b/connectivity").await.error(), (400, "bad_id".to_owned()));
    assert_eq!(host.get(ALL).await.ok(), json!({"items": [], "next": null}));
}

#[tokio::test]
async fn a_supervisor_sees_a_reap_from_end_to_end() {
    let host = Host::new().await;
    let (world, runner) = (&host.world, host.world.runner().await);
    let (idle, busy) = (world.held(&runner, "idle", 6 * HOUR).await, world.held(&runner, "busy", MINUTE).await);
    let told = now(&host).await;
    assert_eq!((state_of(&told, &idle), state_of(&told, &busy)), ("tracked".to_owned(), "tracked".to_owned()));

    let report = host.post("/v1/sweeps", json!({})).await.ok();
    assert_eq!(report["idle"]["reaped"], 1, "{report}");
    // The answer from before the reap is still told, and the session is not: its row is closed.
    assert_eq!(sessions(&host.get(ONE).await.ok()), [("busy".to_owned(), "tracked".to_owned())]);
    assert_eq!(sessions(&now(&host).await), [("busy".to_owned(), "tracked".to_owned())]);
    let row = host.get("/v1/sessions/idle").await.ok();
    assert_eq!((row["status"].as_str(), row["end_reason"].as_str()), (Some("ended"), Some("idle")));

    // An engine that is lost is missing at once, and its row is closed when it was quiet for long enough.
    runner.script().engines.remove(&busy.id);
    assert_eq!(state_of(&now(&host).await, &busy), "missing");
    world.clock.advance(5 * MINUTE);
    host.post("/v1/sweeps", json!({})).await.ok();
    assert_eq!(sessions(&now(&host).await), []);
    assert_eq!(host.get("/v1/sessions/busy").await.ok()["end_reason"], "orphaned");
}
