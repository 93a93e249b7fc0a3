//! The token that an engine finds in its environment, and what it can do with it.

use serde_json::{Value, json};
use sexton::entry::EntryKind;
use sexton::session::{ActivityKind, Session, Status};
use sexton::store::{Keep, Protected};
use sexton::time::{HOUR, MINUTE};
use sexton::token;

use crate::api::secrets::Log;
use crate::api::{Answer, Ask, Host, ME, make_token};
use crate::support::fake_runner::{FakeRunner, Verb};
use crate::support::world::{World, silent};

async fn lease(world: &World, session: &Session) -> String {
    let (row, secret) = token::create_lease(session, world.now()).unwrap();
    world.store().insert_token(&row).await.unwrap();
    secret.expose().to_owned()
}

/// A worker with a session whose engine is there, and the token of that.
async fn scene() -> (Host, FakeRunner, Session, String) {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.held(&runner, "s", HOUR).await;
    let token = lease(&host.world, &session).await;
    (host, runner, session, token)
}

async fn keep(host: &Host, token: &str, body: Value) -> Answer {
    host.ask(Ask::new("POST", "/v1/sessions/s/keep").token(token).json(&body)).await
}

#[tokio::test]
async fn an_engine_is_started_with_a_token_of_which_only_the_hash_is_kept() {
    let (log, _guard) = Log::start();
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let ensured = host.post("/v1/sessions", json!({"repo": "/src/app", "engine": "claude"})).await.ok();
    let id = ensured["session"]["id"].as_str().unwrap();
    let env = runner.wait_for(Verb::Start, 1).await.body["env"].clone();
    assert_eq!(env["SEXTON_URL"], "http://127.0.0.1:7117");
    let secret = env["SEXTON_TOKEN"].as_str().unwrap();
    let row = host.world.store().find_token(&token::hash(secret)).await.unwrap().unwrap();
    assert_eq!((row.owner_id.as_str(), row.scope.as_str()), (ME, "keep"));
    assert_eq!(row.lease, Some((id.parse().unwrap(), 1)));

    let body = json!({"for": "2h", "because": "long build"});
    let kept = host.ask(Ask::new("POST", &format!("/v1/sessions/{id}/keep")).token(secret).json(&body)).await.ok();
    assert_eq!(kept["keep_reason"], "long build");
    let bare = secret.trim_start_matches("sxt_");
    assert!(!host.world.dump().await.contains(bare), "no table holds it");
    assert!(!log.text().contains(bare), "no line of the log holds it");
    assert!(!host.get(&format!("/v1/sessions/{id}/timeline")).await.ok().to_string().contains(bare));
}

#[tokio::test]
async fn no_engine_gets_a_token_where_nobody_knows_where_the_api_is() {
    let host = Host::with(|config| config.server.listen.set_port(0)).await;
    let runner = host.world.runner().await;
    host.post("/v1/sessions", json!({"repo": "/src/app", "engine": "claude"})).await.ok();
    assert_eq!(runner.wait_for(Verb::Start, 1).await.body["env"], json!({}));
}

#[tokio::test]
async fn an_engine_keeps_its_session_for_a_reason_and_a_day_at_most() {
    let (host, runner, session, token) = scene().await;
    for (body, code) in [
        (json!({"for": "25h", "because": "x"}), "invalid"),
        (json!({"for": "0s", "because": "x"}), "invalid"),
        (json!({"for": "1h", "because": " "}), "invalid"),
        (json!({"because": "x"}), "bad_body"),
        (json!({"for": "1h"}), "bad_body"),
    ] {
        assert_eq!(keep(&host, &token, body.clone()).await.error(), (400, code.to_owned()), "{body}");
    }
    assert_eq!(host.world.read(&session).await.keep_until, None);
    let row = keep(&host, &token, json!({"for": "24h", "because": "long build"})).await.ok();
    assert_eq!(row["keep_until"], json!(host.world.now().plus(24 * HOUR)));
    let entries = host.world.entries(&session, EntryKind::Kept).await;
    assert_eq!((entries.len(), entries[0].actor.as_str()), (1, "agent"));
    assert!(entries[0].message.starts_with("The agent itself keeps it until "), "{}", entries[0].message);
    let told = runner.wait_for(Verb::Touch, 1).await;
    assert_eq!((&told.body["kind"], &told.body["owner_id"]), (&json!("keep"), &json!(ME)));
}

#[tokio::test]
async fn an_engine_never_shortens_what_somebody_else_keeps() {
    let (host, _runner, session, token) = scene().await;
    keep(&host, &host.token, json!({"for": "10h", "because": "demo at ten"})).await.ok();
    host.world.clock.advance(MINUTE);
    let until = host.world.now().minus(MINUTE).plus(10 * HOUR);

    let row = keep(&host, &token, json!({"for": "1h", "because": "long build"})).await.ok();
    assert_eq!((&row["keep_until"], &row["keep_reason"]), (&json!(until), &json!("demo at ten")));
    let stored = host.world.read(&session).await;
    assert_eq!(stored.last_activity_at, Some(host.world.now()), "it was a use all the same");
    assert_eq!(stored.last_activity_kind, Some(ActivityKind::Keep));
    assert_eq!(host.world.entries(&session, EntryKind::Kept).await.len(), 1, "nothing changed, nothing is told");

    let row = keep(&host, &token, json!({"for": "12h", "because": "long build"})).await.ok();
    assert_eq!(row["keep_reason"], "long build");
    let row = keep(&host, &host.token, json!({"for": "1h", "because": "no longer"})).await.ok();
    assert_eq!(row["keep_reason"], "no longer", "a person may");
}

#[tokio::test]
async fn a_new_start_ends_the_token_of_the_one_before_and_not_the_other_way_round() {
    let (host, _runner, session, first) = scene().await;
    let again = lease(&host.world, &session).await;
    let body = json!({"for": "1h", "because": "x"});
    assert_eq!(keep(&host, &first, body.clone()).await.status, 200, "asking twice for one start ends nothing");
    let next = lease(&host.world, &Session { generation: 2, ..session.clone() }).await;
    assert_eq!(keep(&host, &first, body.clone()).await.status, 200, "nobody knows yet whether there is another engine");
    host.world.store().revoke_leases(&session.id, 2, host.world.now()).await.unwrap();
    for old in [&first, &again] {
        assert_eq!(keep(&host, old, body.clone()).await.error(), (401, "unauthorised".to_owned()));
    }
    lease(&host.world, &session).await;
    assert_eq!(keep(&host, &next, body).await.status, 200, "a late start of before ends nothing");
}

/// What stands in its environment cannot be changed, and it must be able to keep its session for as long as it lives.
#[tokio::test]
async fn an_engine_that_is_taken_over_by_a_later_start_goes_on_with_its_token() {
    for (start, status) in [(1, 200), (2, 401)] {
        let host = Host::new().await;
        let runner = host.world.runner().await;
        let again = |row: &mut Session| (row.status, row.generation) = (Status::Starting, 2);
        let session = host.world.session("s", HOUR, again).await;
        let first = lease(&host.world, &Session { generation: 1, ..session.clone() }).await;
        runner.hold_engine(&session.id, 2, silent(MINUTE));
        runner.script().engines.get_mut(&session.id).unwrap().start = start;
        host.world.sweep().await;
        assert_eq!(host.world.read(&session).await.status, Status::Active);
        let answer = keep(&host, &first, json!({"for": "1h", "because": "x"})).await;
        assert_eq!(answer.status, status, "launched under {start}");
    }
}

#[tokio::test]
async fn a_session_that_is_attached_again_has_another_engine_with_another_token() {
    let (host, runner, session, first) = scene().await;
    runner.script().engines.remove(&session.id).unwrap();
    let wish = json!({"repo": session.repo, "engine": session.engine});
    assert_eq!(host.post("/v1/sessions", wish).await.ok()["session"]["generation"], 2);
    let token = runner.wait_for(Verb::Start, 1).await.body["env"]["SEXTON_TOKEN"].as_str().unwrap().to_owned();
    let body = json!({"for": "1h", "because": "x"});
    assert_eq!(keep(&host, &first, body.clone()).await.error(), (401, "unauthorised".to_owned()));
    assert_eq!(keep(&host, &token, body).await.status, 200);
}

#[tokio::test]
async fn the_token_of_an_ended_session_keeps_nothing() {
    let (host, _runner, session, token) = scene().await;
    host.post("/v1/sessions/s/end", json!({})).await.ok();
    let body = json!({"for": "1h", "because": "x"});
    assert_eq!(keep(&host, &token, body).await.error(), (410, "ended".to_owned()));
    assert_eq!(host.world.read(&session).await.keep_until, None);

    let ages = Keep { ended_ms: 0, timeline_ms: 0, sweeps: 0 };
    host.world.clock.advance(MINUTE);
    let pruned = host.world.store().prune(host.world.now(), &ages, &Protected::default()).await.unwrap();
    assert_eq!(pruned.sessions, 1);
    assert_eq!(host.world.store().find_token(&token::hash(&token)).await.unwrap(), None, "it went with its session");
}

#[tokio::test]
async fn the_tokens_of_engines_are_nobodys_to_list_and_let_nobody_in() {
    let host = Host::new().await;
    let session = host.world.session("s", 0, |row| row.owner_id = Some("a-first".to_owned())).await;
    lease(&host.world, &session).await;
    let store = host.world.store();
    assert_eq!(store.list_tokens().await.unwrap().len(), 1, "the host's own");
    assert_eq!(store.count_tokens().await.unwrap(), 1);
    assert_eq!(store.find_owner().await.unwrap().as_deref(), Some(ME), "whose token is the oldest");
    host.world.clock.advance(MINUTE);
    make_token(&host.world, "another", "read").await;
    assert_eq!(store.find_owner().await.unwrap().as_deref(), Some(ME), "and further owners change nothing");
}
