//! Runs over the API: they begin once, beat, finish once, and close only what they opened and nobody else needs.

use futures_util::future::join_all;
use serde_json::{Value, json};
use sexton::entry::EntryKind;
use sexton::protocol::{EngineState, Told};
use sexton::session::{ActivityKind, Id, RunStatus, Session};
use sexton::time::{HOUR, MINUTE, SECOND};

use crate::api::{Answer, Ask, Host, make_token};
use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::world::{id, silent};

const REPO: &str = "/src/app";

/// A host on which a run has opened a session in [`REPO`], and a while has passed.
struct Delegated {
    host: Host,
    runner: FakeRunner,
    session: Session,
}

impl Delegated {
    async fn new() -> Self {
        let host = Host::new().await;
        let runner = host.world.runner().await;
        let begun = begin(&host, json!({"id": "r", "repo": REPO, "engine": "fake"})).await.ok();
        assert_eq!(begun["opened"], true);
        let session: Id = begun["session"]["id"].as_str().unwrap().parse().unwrap();
        let session = host.world.store().find_session(&session).await.unwrap().unwrap();
        host.worker.recorder.flush().await;
        host.world.clock.advance(10 * MINUTE);
        Self { host, runner, session }
    }

    async fn finish(&self, status: &str) -> Value {
        finish(&self.host, "r", status).await.ok()
    }

    fn path(&self, verb: &str) -> String {
        format!("/v1/sessions/{}/{verb}", self.session.id)
    }

    async fn is_open(&self) -> bool {
        self.host.world.read(&self.session).await.is_open()
    }

    /// Finishes the run as succeeded and expects that its session stays, for a reason that says so much.
    async fn stays(&self, because: &str) {
        let over = self.finish("succeeded").await;
        assert_eq!(
            (&over["session_ended"], over["run"]["status"].as_str()),
            (&json!(false), Some("succeeded")),
            "{over}"
        );
        assert!(over["why"].as_str().unwrap().contains(because), "{over}");
        assert!(self.is_open().await);
        assert_eq!(self.runner.script().stops, [], "{because}");
    }
}

async fn begin(host: &Host, wish: Value) -> Answer {
    host.post("/v1/runs", wish).await
}

async fn finish(host: &Host, run: &str, status: &str) -> Answer {
    host.post(&format!("/v1/runs/{run}/finish"), json!({"status": status})).await
}

async fn beat(host: &Host, run: &str) -> Answer {
    host.post(&format!("/v1/runs/{run}/heartbeat"), json!({})).await
}

#[tokio::test]
async fn a_successful_run_closes_the_session_that_it_opened() {
    let it = Delegated::new().await;
    let over = it.finish("succeeded").await;
    assert_eq!((&over["session_ended"], &over["was_stale"]), (&json!(true), &json!(false)));
    assert_eq!((over["session"]["status"].as_str(), &over["run"]["opened_session"]), (Some("ended"), &json!(true)));
    assert_eq!(over["why"], "the session has ended (ended_by_person)");
    assert_eq!(it.runner.script().stops.len(), 1);
    let ended = it.host.world.entries(&it.session, EntryKind::Ended).await;
    assert!(ended[0].message.starts_with("Ended by run r of me."), "{ended:?}");
    let asked = &it.runner.calls_of(Verb::End)[0].body;
    assert_eq!((asked["mode"].as_str(), &asked["limits"]["quiet_for_ms"]), (Some("if_idle"), &json!(10 * MINUTE)));
    assert_eq!(it.runner.calls_of(Verb::Forget).len(), 1);
}

#[tokio::test]
async fn a_cancelled_run_closes_the_session_that_it_opened() {
    let it = Delegated::new().await;
    assert_eq!(it.finish("cancelled").await["session_ended"], true);
}

#[tokio::test]
async fn a_failed_run_leaves_its_session_open_and_the_idle_sweep_takes_it_later() {
    let it = Delegated::new().await;
    let over = it.finish("failed").await;
    assert_eq!(over["session_ended"], false);
    assert!(over["why"].as_str().unwrap().contains("the run failed"), "{over}");
    assert_eq!(it.runner.calls_of(Verb::End).len(), 0);
    it.host.worker.recorder.flush().await;
    assert_eq!(it.host.world.read(&it.session).await.last_activity_kind, Some(ActivityKind::Run), "finishing is a use");

    it.host.world.clock.advance(6 * HOUR + MINUTE);
    let report = it.host.world.sweep().await;
    assert_eq!(it.host.world.read(&it.session).await.end_reason.as_deref(), Some("idle"), "{report:?}");
}

#[tokio::test]
async fn a_reused_session_stays_open_however_its_run_went() {
    for status in ["succeeded", "failed", "cancelled"] {
        let host = Host::new().await;
        let runner = host.world.runner().await;
        let session = host.world.held(&runner, "s", HOUR).await;
        for (name, wish) in [
            ("by-id", json!({"id": "by-id", "session_id": "s"})),
            ("by-repo", json!({"id": "by-repo", "repo": session.repo, "engine": session.engine})),
        ] {
            let begun = begin(&host, wish).await.ok();
            assert_eq!((&begun["opened"], begun["session"]["id"].as_str()), (&json!(false), Some("s")));
            host.world.clock.advance(MINUTE);
            let over = finish(&host, name, status).await.ok();
            assert_eq!(over["session_ended"], false);
            assert!(over["why"].as_str().unwrap().contains("did not open it"), "{over}");
        }
        assert!(host.world.read(&session).await.is_open());
        assert_eq!(runner.calls_of(Verb::End).len(), 0);
    }
}

#[tokio::test]
async fn a_session_that_another_run_needs_stays_open() {
    for (status, stays) in [(None, true), (Some("failed"), true), (Some("succeeded"), false)] {
        let it = Delegated::new().await;
        begin(&it.host, json!({"id": "other", "session_id": it.session.id})).await.ok();
        if let Some(status) = status {
            finish(&it.host, "other", status).await.ok();
        }
        it.host.world.clock.advance(MINUTE);
        if stays {
            it.stays("another run in it, other").await;
        } else {
            assert_eq!(it.finish("succeeded").await["session_ended"], true);
        }
    }
}

#[tokio::test]
async fn a_session_that_somebody_drives_stays_open_until_they_give_it_up() {
    let it = Delegated::new().await;
    it.host.post(&it.path("driver"), json!({"driver": "ada"})).await.ok();
    it.host.world.clock.advance(HOUR);
    it.stays("ada claimed to drive it").await;

    let it = Delegated::new().await;
    it.host.post(&it.path("driver"), json!({"driver": "ada"})).await.ok();
    let release = Ask::new("DELETE", &it.path("driver")).token(&it.host.token).json(&json!({"driver": "ada"}));
    it.host.ask(release).await.ok();
    it.host.world.clock.advance(MINUTE);
    assert_eq!(it.finish("succeeded").await["session_ended"], true);
}

#[tokio::test]
async fn a_session_that_somebody_keeps_stays_open() {
    let it = Delegated::new().await;
    it.host.post(&it.path("keep"), json!({"for": "2h", "because": "demo"})).await.ok();
    it.host.world.clock.advance(HOUR);
    it.stays("it is kept until").await;
}

#[tokio::test]
async fn a_session_that_somebody_else_used_since_stays_open() {
    let it = Delegated::new().await;
    it.host.post(&it.path("copilot"), json!({"text": "mind the tests"})).await.ok();
    it.host.world.clock.advance(MINUTE);
    it.stays("a co-pilot took a turn").await;

    let it = Delegated::new().await;
    it.host.post("/v1/sessions", json!({"repo": REPO, "engine": "fake"})).await.ok();
    it.host.world.clock.advance(MINUTE);
    it.stays("somebody else asked for it").await;

    let it = Delegated::new().await;
    it.host.get(&it.path("timeline")).await.ok();
    it.host.world.clock.advance(MINUTE);
    it.stays("read its timeline").await;
}

#[tokio::test]
async fn somebody_elses_use_is_not_hidden_by_what_comes_after_it() {
    for flushed in [false, true] {
        let it = Delegated::new().await;
        it.host.post(&it.path("copilot"), json!({"text": "mind the tests"})).await.ok();
        if flushed {
            it.host.worker.recorder.flush().await;
        }
        it.host.world.clock.advance(MINUTE);
        it.host.post(&it.path("activity"), json!({"kind": "capture"})).await.ok();
        it.host.world.clock.advance(MINUTE);
        it.stays("somebody who is not the run used it").await;
    }
    let it = Delegated::new().await;
    it.host.get(&it.path("timeline")).await.ok();
    it.host.world.clock.advance(1);
    it.host.post(&it.path("activity"), json!({"kind": "capture"})).await.ok();
    it.host.world.clock.advance(MINUTE);
    it.stays("somebody who is not the run used it").await;
}

#[tokio::test]
async fn somebody_elses_use_is_not_hidden_by_a_heartbeat() {
    for message_first in [false, true] {
        let it = Delegated::new().await;
        if message_first {
            it.host.post(&it.path("messages"), json!({"text": "go on"})).await.ok();
        }
        it.host.world.clock.advance(MINUTE);
        it.host.post(&it.path("copilot"), json!({"text": "mind the tests"})).await.ok();
        it.host.world.clock.advance(MINUTE);
        it.host.post("/v1/runs/r/heartbeat", json!({})).await.ok();
        it.host.world.clock.advance(MINUTE);
        it.stays("who is not the run used it").await;
    }
}

#[tokio::test]
async fn an_engine_that_tells_no_turns_is_not_stopped_before_a_minute_of_silence() {
    for (idle, stays) in [(2 * SECOND, true), (MINUTE - 1, true), (MINUTE, false)] {
        let it = Delegated::new().await;
        let plain = EngineState { generating: Told::Silent, awaiting_input: Told::Silent, ..silent(idle) };
        it.runner.hold_engine(&it.session.id, 1, plain);
        if stays {
            it.stays("does not tell its turns").await;
        } else {
            assert_eq!(it.finish("succeeded").await["session_ended"], true);
        }
    }
}

#[tokio::test]
async fn what_the_run_itself_does_in_its_session_does_not_keep_it_open() {
    let it = Delegated::new().await;
    it.host.post(&it.path("messages"), json!({"text": "go on", "wait": true})).await.ok();
    it.host.post(&it.path("activity"), json!({"kind": "capture"})).await.ok();
    beat(&it.host, "r").await.ok();
    it.host.world.clock.advance(MINUTE);
    assert_eq!(it.finish("succeeded").await["session_ended"], true);
}

#[tokio::test]
async fn an_engine_at_work_is_not_stopped_by_the_end_of_a_run() {
    for (state, because) in [
        (EngineState { generating: Told::Is(true), ..silent(10 * HOUR) }, "a turn is running"),
        (EngineState { background_tasks: Told::Is(1), ..silent(10 * HOUR) }, "a background task is running"),
        (EngineState { awaiting_input: Told::Is(true), ..silent(10 * HOUR) }, "waits for a person's answer"),
        (EngineState { next_wake_in_ms: Some(HOUR), ..silent(10 * HOUR) }, "wake up by itself"),
        (EngineState { generating: Told::Unknown, ..silent(10 * HOUR) }, "cannot tell what it is doing"),
        (EngineState { idle_ms: Told::Unknown, ..silent(0) }, "cannot tell since when"),
        (silent(0), "used a moment ago"),
    ] {
        let it = Delegated::new().await;
        it.runner.hold_engine(&it.session.id, 1, state);
        it.stays(because).await;
    }
}

#[tokio::test]
async fn a_use_between_the_decision_and_the_stop_is_found_by_the_runner() {
    let it = Delegated::new().await;
    let gate = it.runner.hold(Verb::End, When::Arrived);
    let (over, ()) = tokio::join!(it.finish("succeeded"), async {
        gate.reached().await;
        let touch = json!({"session_id": it.session.id, "generation": 1, "kind": "capture"});
        let client = reqwest::Client::new().post(format!("{}/coding/touch", it.runner.url));
        let sent = client.header("content-type", "application/json").body(touch.to_string()).send().await.unwrap();
        assert_eq!(sent.status(), 200);
        gate.open();
    });
    assert_eq!(over["session_ended"], false, "{over}");
    assert!(it.is_open().await);
    assert_eq!(it.runner.script().stops, []);
}

#[tokio::test]
async fn a_runner_that_does_not_answer_leaves_the_session_open_and_says_so() {
    let mut it = Delegated::new().await;
    it.runner.die().await;
    it.stays("runner mac-mini could not be asked").await;
    assert_eq!(it.finish("succeeded").await["session_ended"], false, "and again");

    let it = Delegated::new().await;
    it.runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
    it.stays("did not say that its engine is gone").await;
    let it = Delegated::new().await;
    it.runner.answer(Verb::End, None, Answering::Accept);
    it.stays("has begun to stop its engine").await;
    let it = Delegated::new().await;
    it.runner.script().engines.clear();
    it.stays("holds no engine").await;
    let it = Delegated::new().await;
    it.runner.hold_engine(&it.session.id, 2, silent(HOUR));
    it.stays("holds no engine").await;
    let it = Delegated::new().await;
    it.runner.answer(
        Verb::Sessions,
        None,
        Answering::Raw(Raw::json(200, format!("{{\"tracked\":[\"{}\"]}}", it.session.id))),
    );
    it.stays("runner mac-mini").await;
}

#[tokio::test]
async fn a_run_whose_session_has_ended_keeps_its_result() {
    let it = Delegated::new().await;
    it.runner.script().end_by_itself(&it.session.id, "exited", &it.host.world.clock);
    assert_eq!(beat(&it.host, "r").await.ok()["was_stale"], false, "the runner heard of it a short while ago");
    it.host.world.sweep().await;
    assert_eq!(beat(&it.host, "r").await.error(), (410, "ended".to_owned()));
    let body = json!({"status": "succeeded", "result": "done before it left"});
    let over = it.host.post("/v1/runs/r/finish", body).await.ok();
    assert_eq!((over["why"].as_str(), &over["session_ended"]), (Some("the session has ended (exited)"), &json!(true)));
    assert_eq!(it.host.get("/v1/runs/r").await.ok()["result"], "done before it left");
}

#[tokio::test]
async fn a_run_that_finishes_after_it_was_called_stale_is_told_so_and_its_result_is_kept() {
    let it = Delegated::new().await;
    it.host.world.clock.advance(15 * MINUTE);
    let called = it.host.world.now();
    it.host.world.sweep().await;
    assert_eq!(it.host.get("/v1/runs/r").await.ok()["status"], "stale");

    let body = json!({"status": "failed", "result": "the tests are red\nand more"});
    for _ in 0..2 {
        let over = it.host.post("/v1/runs/r/finish", body.clone()).await.ok();
        assert_eq!((&over["was_stale"], over["run"]["status"].as_str()), (&json!(true), Some("failed")));
        assert_eq!(over["run"]["stale_at"], called.to_string());
        assert_eq!(over["run"]["result"], "the tests are red\nand more");
    }
    let told = it.host.world.entries(&it.session, EntryKind::RunFinished).await;
    assert_eq!(told.len(), 1);
    let sentence = "Run r failed after 25 min, after it had been called stale: the tests are red.";
    assert_eq!((told[0].message.as_str(), told[0].reason.as_deref()), (sentence, Some("failed")));
}

#[tokio::test]
async fn a_run_that_beats_after_it_was_called_stale_is_told_so_and_goes_on() {
    let it = Delegated::new().await;
    for _ in 0..2 {
        it.host.world.clock.advance(15 * MINUTE);
        it.host.world.sweep().await;
        let beaten = beat(&it.host, "r").await.ok();
        assert_eq!((&beaten["was_stale"], beaten["run"]["status"].as_str()), (&json!(true), Some("running")));
        assert_eq!(
            (&beaten["run"]["stale_at"], beaten["run"]["heartbeat_at"].as_str()),
            (&Value::Null, Some(&*it.host.world.now().to_string()))
        );
    }
    assert_eq!(beat(&it.host, "r").await.ok()["was_stale"], false);
    assert_eq!(it.host.world.entries(&it.session, EntryKind::RunStale).await.len(), 2, "each silence is told");
    assert_eq!(it.finish("failed").await["was_stale"], false);
    assert_eq!(beat(&it.host, "r").await.error(), (409, "conflict".to_owned()));
}

#[tokio::test]
async fn two_finishes_are_one_and_another_is_refused() {
    let it = Delegated::new().await;
    let first = it.finish("succeeded").await;
    let again = it.finish("succeeded").await;
    assert_eq!(first, again);
    let other = finish(&it.host, "r", "failed").await;
    assert_eq!(other.error(), (409, "conflict".to_owned()));
    assert!(other.json()["error"]["message"].as_str().unwrap().contains("succeeded"));
    assert_eq!(it.runner.script().stops.len(), 1);
    assert_eq!(it.host.world.entries(&it.session, EntryKind::RunFinished).await.len(), 1);
}

#[tokio::test]
async fn many_finishes_at_once_are_one() {
    let it = Delegated::new().await;
    let answers = join_all((0..20).map(|_| it.finish("succeeded"))).await;
    assert!(answers.iter().all(|over| over["run"]["status"] == "succeeded"));
    assert_eq!(it.runner.script().stops.len(), 1);
    assert!(!it.is_open().await);
}

#[tokio::test]
async fn a_run_begins_once_under_its_callers_id() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let wish = json!({"id": "r", "repo": REPO, "engine": "fake"});
    let answers = join_all((0..20).map(|_| begin(&host, wish.clone()))).await;
    let sessions: Vec<Value> = answers.iter().map(|answer| answer.ok()["session"]["id"].clone()).collect();
    assert!(sessions.iter().all(|session| *session == sessions[0]));
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
    let run = host.get("/v1/runs/r").await.ok();
    assert_eq!((&run["opened_session"], run["status"].as_str()), (&json!(true), Some("running")), "whoever came first");

    let again = begin(&host, wish).await.ok();
    assert_eq!((&again["run"], &again["opened"]), (&run, &json!(true)), "the same answer to the same question");
    let by_session = begin(&host, json!({"id": "r", "session_id": sessions[0]})).await.ok();
    assert_eq!(by_session["run"], run);
    host.world.held(&runner, "s", HOUR).await;
    for elsewhere in [json!({"id": "r", "session_id": "s"}), json!({"id": "r", "repo": "/src/b", "engine": "fake"})] {
        assert_eq!(begin(&host, elsewhere).await.error(), (409, "conflict".to_owned()));
    }
    assert_eq!(runner.calls_of(Verb::Start).len(), 1, "nothing was opened for a run that is elsewhere");
    let session =
        host.world.store().find_session(&sessions[0].as_str().unwrap().parse().unwrap()).await.unwrap().unwrap();
    let told = host.world.entries(&session, EntryKind::RunStarted).await;
    assert_eq!(told.len(), 1);
    assert!(told[0].message.starts_with("Run r began"), "{told:?}");
}

#[tokio::test]
async fn a_wish_for_a_run_that_makes_no_sense_begins_none() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    for wish in [
        json!({}),
        json!({"repo": REPO}),
        json!({"engine": "fake"}),
        json!({"session_id": "s", "repo": REPO, "engine": "fake"}),
        json!({"session_id": "s", "runner": "mac-mini"}),
    ] {
        assert_eq!(begin(&host, wish.clone()).await.error(), (400, "invalid".to_owned()), "{wish}");
    }
    assert_eq!(begin(&host, json!({"session_id": "s", "more": 1})).await.code(), "bad_body");
    let ended = host.world.session("s", HOUR, |row| row.status = sexton::session::Status::Ended).await;
    assert_eq!(begin(&host, json!({"session_id": ended.id})).await.error(), (410, "ended".to_owned()));
    host.world.session("lost", HOUR, |_| ()).await;
    assert_eq!(begin(&host, json!({"session_id": "lost"})).await.error(), (404, "not_tracked".to_owned()));
    assert_eq!(host.get("/v1/runs").await.ok()["items"], json!([]));
    assert_eq!(runner.calls_of(Verb::Start).len(), 0);

    let session = host.world.held(&runner, "held", HOUR).await;
    let run = begin(&host, json!({"session_id": session.id})).await.ok()["run"]["id"].as_str().unwrap().to_owned();
    for body in [
        json!({"status": "running"}),
        json!({"status": "stale"}),
        json!({"status": "failed", "result": "x".repeat(65_537)}),
    ] {
        assert_eq!(host.post(&format!("/v1/runs/{run}/finish"), body).await.error(), (400, "invalid".to_owned()));
    }
    let whole = json!({"status": "failed", "result": "x".repeat(65_536)});
    assert_eq!(host.post(&format!("/v1/runs/{run}/finish"), whole).await.ok()["run"]["status"], "failed");
}

#[tokio::test]
async fn somebody_elses_run_or_session_is_an_unknown_one() {
    let it = Delegated::new().await;
    let you = make_token(&it.host.world, "you", "read,use").await;
    let as_you = async |method: &str, path: &str, body: Value| {
        let answer = it.host.ask(Ask::new(method, path).token(&you).json(&body)).await;
        (answer.status, answer.body)
    };
    for (method, verb, body) in [
        ("GET", "", json!({})),
        ("POST", "/heartbeat", json!({})),
        ("POST", "/finish", json!({"status": "succeeded"})),
        ("POST", "/finish", json!({"nonsense": 1})),
    ] {
        let foreign = as_you(method, &format!("/v1/runs/r{verb}"), body.clone()).await;
        assert_eq!(foreign, as_you(method, &format!("/v1/runs/unknown{verb}"), body).await, "{verb}");
        assert_eq!(foreign.0, 404);
    }
    let foreign = as_you("POST", "/v1/runs", json!({"session_id": it.session.id})).await;
    assert_eq!(foreign, as_you("POST", "/v1/runs", json!({"session_id": "unknown"})).await);
    assert_eq!(foreign.0, 404);
}

#[tokio::test]
async fn who_sees_all_and_names_a_run_of_several_others_is_refused() {
    let it = Delegated::new().await;
    let (you, ops) =
        (make_token(&it.host.world, "you", "read,use").await, make_token(&it.host.world, "ops", "admin").await);
    let wish = json!({"id": "r", "repo": REPO, "engine": "fake"});
    let ask = async |token: &str, method: &str, path: &str, body: &Value| {
        it.host.ask(Ask::new(method, path).token(token).json(body)).await
    };
    assert_eq!(ask(&ops, "GET", "/v1/runs/r", &json!({})).await.ok()["status"], "running", "one has it");
    ask(&you, "POST", "/v1/runs", &wish).await.ok();
    let end = json!({"status": "succeeded", "result": "for one alone"});
    for (method, path) in [("GET", "/v1/runs/r"), ("POST", "/v1/runs/r/heartbeat"), ("POST", "/v1/runs/r/finish")] {
        let body = if path.ends_with("finish") { end.clone() } else { json!({}) };
        assert_eq!(ask(&ops, method, path, &body).await.error(), (409, "conflict".to_owned()), "{path}");
    }
    assert_eq!(ask(&you, "GET", "/v1/runs/r", &json!({})).await.ok()["status"], "running");
}

#[tokio::test]
async fn beginning_again_in_somebody_elses_session_uses_nothing() {
    let it = Delegated::new().await;
    let ops = make_token(&it.host.world, "ops", "admin").await;
    let wish = json!({"id": "theirs", "session_id": it.session.id});
    let begin = async || it.host.ask(Ask::new("POST", "/v1/runs").token(&ops).json(&wish)).await.ok();
    let begun = begin().await;
    it.host.worker.recorder.flush().await;
    it.host.world.clock.advance(10 * MINUTE);
    let before = it.host.world.read(&it.session).await;
    assert_eq!(begin().await["run"], begun["run"]);
    it.host.worker.recorder.flush().await;
    assert_eq!(it.host.world.read(&it.session).await, before);
}

#[tokio::test]
async fn a_runs_id_is_its_owners_own() {
    let it = Delegated::new().await;
    let you = make_token(&it.host.world, "you", "read,use").await;
    let as_you = async |method: &str, path: &str, body: Value| {
        it.host.ask(Ask::new(method, path).token(&you).json(&body)).await.ok()
    };
    let begun = as_you("POST", "/v1/runs", json!({"id": "r", "repo": REPO, "engine": "fake"})).await;
    assert_eq!(begun["opened"], true, "as if nobody had a run of that id: {begun}");
    assert_ne!(begun["session"]["id"], json!(it.session.id));
    assert_eq!(it.runner.calls_of(Verb::Start).len(), 2);
    let again = as_you("POST", "/v1/runs", json!({"id": "r", "repo": REPO, "engine": "fake"})).await;
    assert_eq!(again["run"], begun["run"]);

    let before = it.host.get("/v1/runs/r").await.ok();
    assert_eq!(before["session_id"], json!(it.session.id), "who sees all means the own one first");
    it.host.world.clock.advance(MINUTE);
    as_you("POST", "/v1/runs/r/heartbeat", json!({})).await;
    assert_eq!(it.host.get("/v1/runs/r").await.ok(), before, "not the other one's heartbeat");
    let over = as_you("POST", "/v1/runs/r/finish", json!({"status": "failed", "result": "red"})).await;
    assert_eq!((&over["run"]["status"], &over["session"]["id"]), (&json!("failed"), &begun["session"]["id"]));
    assert_eq!(it.host.get("/v1/runs/r").await.ok(), before, "nor its end");
    let listed = as_you("GET", "/v1/runs", json!({})).await;
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["status"]), (1, &json!("failed")));

    let (mut pages, mut path) = (Vec::new(), "/v1/runs?limit=1".to_owned());
    loop {
        let page = it.host.get(&path).await.ok();
        pages.extend(page["items"].as_array().unwrap().iter().map(|run| run["session_id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/runs?limit=1&after={next}");
    }
    assert!(pages.len() == 2 && pages.contains(&begun["session"]["id"]) && pages.contains(&json!(it.session.id)));
    let over = it.finish("succeeded").await;
    assert_eq!(over["session_ended"], true);
    assert_eq!(as_you("GET", "/v1/runs/r", json!({})).await["result"], "red");
}

#[tokio::test]
async fn a_list_of_runs_is_narrowed_and_shows_only_ones_own() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    for name in ["s", "t"] {
        host.world.held(&runner, name, HOUR).await;
    }
    let yours = host.world.session("y", HOUR, |row| row.owner_id = Some("you".to_owned())).await;
    runner.hold_engine(&yours.id, 1, silent(HOUR));
    for (run, session) in [("a", "s"), ("b", "s"), ("c", "t"), ("d", "y")] {
        begin(&host, json!({"id": run, "session_id": session})).await.ok();
    }
    host.post("/v1/runs/b/finish", json!({"status": "failed", "result": "long"})).await.ok();
    let mine = make_token(&host.world, "me", "read").await;
    for (token, query, expected) in [
        (&mine, "", "abc"),
        (&host.token, "", "abcd"),
        (&mine, "?session_id=s", "ab"),
        (&mine, "?session_id=y", ""),
        (&mine, "?status=failed", "b"),
        (&mine, "?status=running&session_id=s", "a"),
        (&mine, "?limit=1&after=a.s", "b"),
    ] {
        let list = host.ask(Ask::new("GET", &format!("/v1/runs{query}")).token(token)).await.ok();
        let ids: String = list["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{query}");
        assert!(list["items"].as_array().unwrap().iter().all(|run| run["result"].is_null()), "left out of lists");
    }
    assert_eq!(host.get("/v1/runs/b").await.ok()["result"], "long");
}

#[tokio::test]
async fn begin_heartbeat_and_finish_are_uses_of_kind_run() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.held(&runner, "s", HOUR).await;
    let used = async || {
        host.worker.recorder.flush().await;
        let row = host.world.read(&session).await;
        assert_eq!((row.last_activity_kind, row.last_activity_at), (Some(ActivityKind::Run), Some(host.world.now())));
        host.world.clock.advance(HOUR);
    };
    begin(&host, json!({"id": "r", "session_id": "s"})).await.ok();
    used().await;
    beat(&host, "r").await.ok();
    used().await;
    finish(&host, "r", "succeeded").await.ok();
    used().await;
    assert_eq!(runner.calls_of(Verb::Touch).len(), 3, "runner first");
    let run = host.world.store().find_run(&id("s"), &id("r")).await.unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Succeeded);
}
