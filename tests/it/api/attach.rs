//! Following sessions through the API, with a real runner and real engines.

use std::time::Duration;

use axum::body::BodyDataStream;
use futures_util::StreamExt;
use serde_json::{Value, json};
use sexton::session::{ActivityKind, Runner, Session};
use sexton::time::{HOUR, MINUTE, SECOND};
use sexton::token;
use tower::ServiceExt;

use crate::api::{Ask, Host, ME, make_token};
use crate::support::runner::TestRunner;
use crate::support::sse::{Got, Parser};
use crate::support::world::id;

const TURN: &str = r#"{"type":"turn_started"}"#;

/// An open stream; dropping it drops the connection.
pub(super) struct Listening {
    body: BodyDataStream,
    parser: Parser,
}

impl Listening {
    /// Returns the next event but pings; none when the stream is over.
    pub(super) async fn next(&mut self) -> Option<Got> {
        loop {
            let read = tokio::time::timeout(Duration::from_secs(30), self.read());
            let got = read.await.expect("something comes, or the stream is over")?;
            if got.name != "ping" {
                return Some(got);
            }
        }
    }

    async fn read(&mut self) -> Option<Got> {
        loop {
            if let Some(got) = self.parser.take() {
                return Some(got);
            }
            let chunk = self.body.next().await?.ok()?;
            self.parser.push(&chunk);
        }
    }

    pub(super) async fn line(&mut self) -> String {
        let got = self.next().await.unwrap();
        assert_eq!((got.name.as_str(), got.data["cursor"].as_str()), ("line", got.id.as_deref()), "{got:?}");
        got.data["line"].as_str().unwrap().to_owned()
    }

    pub(super) async fn live(&mut self) -> Got {
        let got = self.next().await.unwrap();
        assert_eq!((got.name.as_str(), got.data["cursor"].as_str()), ("live", got.id.as_deref()), "{got:?}");
        got
    }
}

/// A worker with a runner, and one session of mine whose engine says what it is told.
pub(super) struct Stage {
    pub(super) host: Host,
    pub(super) runner: TestRunner,
    pub(super) session: Session,
}

impl Stage {
    /// An engine that says what it is told.
    pub(super) const ECHO: &str = r#"exec sed -u -n 's/.*"text":"\([^"]*\)".*/\1/p'"#;

    pub(super) async fn new() -> Self {
        Self::with(Self::ECHO).await
    }

    async fn with(script: &str) -> Self {
        let runner = TestRunner::start().await;
        let host = Host::new().await;
        enrol(&host, &runner).await;
        let session = host.world.session("s1", 2 * HOUR, |row| row.runner_id = id("runner-1")).await;
        let body = json!({"session_id": "s1", "generation": 1, "engine": "sh", "cwd": "/", "args": [script],
            "owner_id": ME});
        assert_eq!(runner.post("start", body).await.0, 200);
        Self { host, runner, session }
    }

    pub(super) async fn listen(&self, query: &str) -> Listening {
        self.open(Ask::new("GET", &format!("/v1/sessions/s1/events?{query}"))).await
    }

    pub(super) async fn open(&self, ask: Ask) -> Listening {
        self.open_with(ask, &self.host.token).await
    }

    async fn open_with(&self, ask: Ask, token: &str) -> Listening {
        let response = self.host.router.clone().oneshot(ask.token(token).request()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Listening { body: response.into_body().into_data_stream(), parser: Parser::default() }
    }

    pub(super) async fn say(&self, text: &str) {
        let (status, answer) = self.runner.say("s1", text).await;
        assert_eq!(status, 200, "{answer}");
    }

    async fn until_row(&self, fits: impl Fn(&Session) -> bool) -> Session {
        until_row(&self.host, &self.session, fits).await
    }
}

/// Asks until the answer is as it should be.
pub(super) async fn until(host: &Host, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2_000 {
        let told = host.get(path).await.ok();
        if fits(&told) {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{}", host.get(path).await.ok());
}

/// Waits until the row is as it should be; the recorder writes at its own pace.
async fn until_row(host: &Host, session: &Session, fits: impl Fn(&Session) -> bool) -> Session {
    for _ in 0..2_000 {
        let row = host.world.read(session).await;
        if fits(&row) {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", host.world.read(session).await);
}

pub(super) async fn enrol(host: &Host, runner: &TestRunner) {
    let row = Runner {
        id: id("runner-1"),
        url: runner.base.clone(),
        token_file: Some(runner.home.path().join("secret").display().to_string()),
        created_at: host.world.now(),
        last_seen_at: None,
        epoch: None,
        protocol: None,
        state_id: None,
        identity: Some("runner-1".to_owned()),
        require_conditional_stop: false,
    };
    host.world.store().add_runner(&row).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_begins_live_without_old_messages_and_goes_on_from_any_cursor() {
    let stage = Stage::new().await;
    stage.say("old").await;
    stage.runner.until("read", |_| true).await;
    let mut events = stage.listen("cursor=1-0").await;
    assert_eq!(events.live().await.data["resumed"], true);
    assert_eq!(events.line().await, "old");

    let mut fresh = stage.listen("").await;
    let live = fresh.live().await;
    assert_eq!(
        (&live.data["resumed"], &live.data["text"], live.id.as_deref()),
        (&json!(false), &json!(""), Some("1-4"))
    );
    assert_eq!((&live.data["session"]["id"], &live.data["state"]["session_id"]), (&json!("s1"), &json!("s1")));
    stage.say("new").await;
    assert_eq!((fresh.line().await, events.line().await), ("new".to_owned(), "new".to_owned()));

    let back = Ask::new("GET", "/v1/sessions/s1/events?cursor=1-8").header("last-event-id", "1-4");
    let mut back = stage.open(back).await;
    let live = back.live().await;
    assert_eq!(
        (live.id.as_deref(), &live.data["resumed"], back.line().await),
        (Some("1-4"), &json!(true), "new".to_owned())
    );
    let odd =
        stage.host.ask(Ask::new("GET", "/v1/sessions/s1/events").token(&stage.host.token).header("last-event-id", "x"));
    assert_eq!(odd.await.code(), "bad_query");
    let mut anew = stage.listen("cursor=1-4000").await;
    assert_eq!(anew.live().await.id.as_deref(), Some("1-4000"), "the client's cursor is believed");
    let live = anew.live().await;
    assert_eq!(
        (live.id.as_deref(), &live.data["resumed"]),
        (Some("1-8"), &json!(false)),
        "until the runner says that nothing is there"
    );
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_hears_nothing_more_once_it_is_looked_up_again() {
    let stage = Stage::new().await;
    let (world, path) = (&stage.host.world, "/v1/sessions/s1/events");
    let (row, secret) = token::create(ME, &"read".parse().unwrap(), world.now()).unwrap();
    world.store().insert_token(&row).await.unwrap();
    let mut revoked = stage.open_with(Ask::new("GET", path), secret.expose()).await;
    let mut kept = stage.listen("").await;
    revoked.live().await;
    kept.live().await;
    world.clock.advance(20 * SECOND);
    stage.say("one").await;
    assert_eq!((revoked.line().await, kept.line().await), ("one".to_owned(), "one".to_owned()), "it was looked up");
    assert!(world.store().revoke_token(&row.id, world.now()).await.unwrap());
    world.clock.advance(20 * SECOND - 1);
    stage.say("two").await;
    assert_eq!((revoked.line().await, kept.line().await), ("two".to_owned(), "two".to_owned()));
    world.clock.advance(1);
    stage.say("three").await;
    assert_eq!((revoked.next().await, kept.line().await), (None, "three".to_owned()));
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_half_written_text_comes_first_and_a_restart_of_the_runner_is_not_noticed() {
    let mut stage =
        Stage::with(&format!("echo '{TURN}'; echo one; read -r more; echo two; read -r m; echo three; cat")).await;
    until(&stage.host, "/v1/sessions/s1/history", |it| it["items"][1]["line"] == "one").await;
    let mut events = stage.listen("").await;
    let live = events.live().await;
    assert_eq!((&live.data["text"], &live.data["state"]["generating"]), (&json!("one"), &json!(true)));
    stage.say("more").await;
    assert_eq!(events.line().await, "two");
    stage.runner = stage.runner.again().await;
    stage.host.world.store().remove_runner(&id("runner-1")).await.unwrap();
    enrol(&stage.host, &stage.runner).await;
    stage.say("m").await;
    assert_eq!(events.line().await, "three", "the runner is another process at another place");
    stage.runner.force("s1", 1).await;
    let end = events.next().await.unwrap();
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("ended", &json!("ended_by_person")));
    assert_eq!(events.next().await, None, "exactly one end");
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_session_tells_what_is_kept_and_exactly_one_end() {
    let stage = Stage::new().await;
    stage.say("one").await;
    stage.say("two").await;
    let mut events = stage.listen("cursor=1-0").await;
    events.live().await;
    assert_eq!((events.line().await, events.line().await), ("one".to_owned(), "two".to_owned()));
    stage.runner.force("s1", 1).await;
    stage.host.world.sweep().await;
    let row = stage.host.world.read(&stage.session).await;
    assert!(!row.is_open());
    let mut late = stage.listen("cursor=1-4").await;
    let live = late.live().await;
    assert_eq!((&live.data["state"], &live.data["session"]["status"]), (&Value::Null, &json!("ended")));
    assert_eq!(late.line().await, "two");
    assert_eq!(late.next().await.unwrap().name, "ended");
    assert_eq!(late.next().await, None);
    let mut fresh = stage.listen("").await;
    assert_eq!(fresh.live().await.id.as_deref(), Some("1-8"), "no old messages");
    assert_eq!((fresh.next().await.unwrap().name.as_str(), fresh.next().await), ("ended", None));
    assert_eq!(stage.host.get("/v1/sessions/s1/history").await.ok()["items"].as_array().unwrap().len(), 2);
    assert_eq!(stage.host.get("/v1/sessions/s1/capture").await.code(), "ended");

    std::fs::remove_dir_all(stage.runner.state()).unwrap();
    let gone = stage.host.world.session("gone", HOUR, |row| {
        (row.runner_id, row.status) = (id("runner-1"), sexton::session::Status::Ended);
        row.end_reason = Some("machine_gone".to_owned());
    });
    gone.await;
    let ask = Ask::new("GET", "/v1/sessions/gone/events");
    let mut gone = stage.open(ask).await;
    assert_eq!(gone.live().await.data["state"], Value::Null);
    let end = gone.next().await.unwrap();
    assert_eq!(
        (end.name.as_str(), &end.data["reason"]),
        ("ended", &json!("machine_gone")),
        "the row has the last word"
    );
    assert_eq!(gone.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_looks_uses_the_session_and_a_hidden_tab_does_not() {
    let stage = Stage::new().await;
    let before = stage.host.world.read(&stage.session).await;
    let mut hidden = stage.listen("looking=false").await;
    hidden.live().await;
    let mut silent = stage.listen("").await;
    silent.live().await;
    stage.host.get("/v1/sessions/s1/history").await.ok();
    stage.host.world.clock.advance(10 * MINUTE);
    stage.say("a").await;
    assert_eq!((hidden.line().await, silent.line().await), ("a".to_owned(), "a".to_owned()));
    let after = stage.host.world.read(&stage.session).await;
    assert_eq!(after.last_activity_at, before.last_activity_at, "nobody looked");

    let mut seen = stage.listen("looking=true").await;
    seen.live().await;
    let now = stage.host.world.now();
    let row = stage.until_row(|row| row.last_activity_at == Some(now)).await;
    assert_eq!(row.last_activity_kind, Some(ActivityKind::Capture));
    stage.host.world.clock.advance(MINUTE - 1);
    stage.say("b").await;
    assert_eq!(seen.line().await, "b");
    stage.host.world.clock.advance(1);
    stage.say("c").await;
    assert_eq!(seen.line().await, "c");
    let now = stage.host.world.now();
    stage.until_row(|row| row.last_activity_at == Some(now)).await;
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_keeps_its_seat_for_its_time_and_its_second_stream_replaces_the_first() {
    let stage = Stage::new().await;
    let mut first = stage.listen("client=tab").await;
    assert_eq!(first.live().await.data["resumed"], false);
    stage.say("one").await;
    assert_eq!(first.line().await, "one");
    let mut second = stage.listen("client=tab").await;
    let live = second.live().await;
    assert_eq!(
        (live.id.as_deref(), &live.data["resumed"], &live.data["text"]),
        (Some("1-4"), &json!(true), &json!(""))
    );
    assert_eq!(first.next().await, None, "no line comes twice");
    let mut other = stage.listen("client=other").await;
    assert_eq!(other.live().await.data["resumed"], false);
    drop(second);
    stage.say("two").await;
    assert_eq!(other.line().await, "two", "whoever leaves disturbs nobody");

    stage.host.world.clock.advance(HOUR - 1);
    let mut back = stage.listen("client=tab").await;
    assert_eq!((back.live().await.id.as_deref(), back.line().await), (Some("1-4"), "two".to_owned()));
    drop(back);
    stage.host.world.clock.advance(HOUR);
    let mut late = stage.listen("client=tab").await;
    let live = late.live().await;
    assert_eq!(
        (live.id.as_deref(), &live.data["resumed"]),
        (Some("1-8"), &json!(false)),
        "it was forgotten, and begins anew"
    );
    stage.say("three").await;
    assert_eq!(late.line().await, "three");
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capture_shows_the_newest_lines_and_is_a_use_also_of_a_runner_that_is_away() {
    let stage = Stage::new().await;
    for text in ["one", "two", "three"] {
        stage.say(text).await;
    }
    let told = until(&stage.host, "/v1/sessions/s1/capture?lines=2", |it| it["items"][1]["line"] == "three").await;
    let two = json!([{"cursor": "1-8", "line": "two"}, {"cursor": "1-14", "line": "three"}]);
    assert_eq!(told, json!({"session_id": "s1", "items": two, "cursor": "1-14", "runner": "touched"}));
    stage.until_row(|row| row.last_activity_kind == Some(ActivityKind::Capture)).await;
    let page = stage.host.get("/v1/sessions/s1/history?after=1-4&limit=1").await.ok();
    assert_eq!(page, json!({"items": [{"cursor": "1-8", "line": "two"}], "gap": null, "next": "1-8"}));
    for (path, code) in [
        ("history?limit=0", "bad_query"),
        ("history?after=1-5", "invalid"),
        ("capture?lines=0", "bad_query"),
        ("capture?after=1", "bad_query"),
        ("events?cursor=x", "bad_query"),
        ("events?cursor=4", "bad_query"),
        ("history?after=4", "bad_query"),
        ("history?after=2-4", "invalid"),
        ("events?client=no%20id", "bad_query"),
    ] {
        assert_eq!(stage.host.get(&format!("/v1/sessions/s1/{path}")).await.code(), code, "{path}");
    }
    let Stage { host, runner, session } = stage;
    host.world.clock.advance(3 * HOUR);
    runner.stop().await;
    let away = host.get("/v1/sessions/s1/capture").await.ok();
    assert_eq!(away, json!({"session_id": "s1", "items": [], "cursor": null, "runner": "unreached"}));
    let now = host.world.now();
    until_row(&host, &session, |row| row.last_activity_at == Some(now)).await;
    assert_eq!(host.get("/v1/sessions/s1/history").await.code(), "runner");
    assert_eq!(host.get("/v1/sessions/s1/events").await.code(), "runner", "nobody knows where the turn stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_session_is_answered_as_an_unknown_one() {
    let stage = Stage::with("echo '{\"type\":\"session\",\"engine_session_id\":\"conv-1\"}'; cat").await;
    stage.runner.until_tracked("s1", "named", |one| one["engine_session_id"] == "conv-1").await;
    let other = make_token(&stage.host.world, "bob", "read,use").await;
    let ask = async |path: &str| stage.host.ask(Ask::new("GET", path).token(&other)).await;
    for verb in ["events", "history", "capture"] {
        let (foreign, unknown) = (format!("/v1/sessions/s1/{verb}"), format!("/v1/sessions/nobody/{verb}"));
        assert_eq!(ask(&foreign).await, ask(&unknown).await, "{verb}");
    }
    for tail in ["", "/events"] {
        let path = |id: &str| format!("/v1/engine-sessions/{id}{tail}");
        let (foreign, unknown) = (ask(&path("conv-1")).await, ask(&path("conv-2")).await);
        assert_eq!((&foreign, foreign.error()), (&unknown, (404, "not_found".to_owned())));
    }
    assert_eq!(stage.host.world.read(&stage.session).await.engine_session_id, None, "nothing was noted for a stranger");

    let found = stage.host.get("/v1/engine-sessions/conv-1").await.ok();
    assert_eq!((&found["id"], &found["engine_session_id"]), (&json!("s1"), &json!("conv-1")));
    let mut events = stage.open(Ask::new("GET", "/v1/engine-sessions/conv-1/events?cursor=1-0")).await;
    events.live().await;
    assert!(events.line().await.contains("conv-1"));
    let foreign = ask("/v1/engine-sessions/conv-1").await;
    assert_eq!(foreign.error().0, 404, "also once the row says it");
    assert_eq!(stage.host.get("/v1/engine-sessions/a%0Ab").await.code(), "bad_id");
    assert_eq!(stage.host.get(&format!("/v1/engine-sessions/{}", "x".repeat(257))).await.code(), "bad_id");
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_sessions_of_one_conversation_an_open_one_is_found_first() {
    let host = Host::new().await;
    for (name, owner, ended) in
        [("a", None, true), ("b", Some(ME), false), ("c", Some(ME), true), ("d", Some("bob"), false)]
    {
        host.world
            .session(name, HOUR, |row| {
                (row.owner_id, row.engine_session_id) = (owner.map(str::to_owned), Some("conv".to_owned()));
                row.status = if ended { sexton::session::Status::Ended } else { sexton::session::Status::Active };
            })
            .await;
    }
    let mine = make_token(&host.world, ME, "read").await;
    let found = host.ask(Ask::new("GET", "/v1/engine-sessions/conv").token(&mine)).await.ok();
    assert_eq!(found["id"], "b");
    let find = |owner| sexton::verbs::find_by_engine_id(&host.world.tools, owner, ME, "conv");
    assert_eq!(find(Some("bob")).await.unwrap().unwrap().id, id("d"));
    assert!(find(None).await.unwrap().is_some() && find(Some("eve")).await.unwrap().is_none());
}
