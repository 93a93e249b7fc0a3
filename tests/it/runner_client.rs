//! The HTTP client against a scripted runner: what it sends, what it takes an answer for, and which failure is which.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sexton::clock::{Clock, ManualClock};
use sexton::protocol::tracked::TrackedSet;
use sexton::protocol::{
    Because, EndMode, EndRequest, EngineState, ForgetRequest, MessageRequest, StartRequest, StopLimits, Told,
    TouchRequest, TurnOutcome,
};
use sexton::runner_client::{
    ClientSettings, HttpRunners, NoAnswer, Observation, RunnerApi, SessionReply, StopAnswer, StopCall, Target,
};
use sexton::session::{ActivityKind, Id};
use sexton::time::{HOUR, MINUTE, SECOND, Span, UtcMs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};

/// Limits that a test can wait for.
fn client() -> HttpRunners {
    let settings = ClientSettings {
        connect_timeout: Span(400),
        timeout: Span(800),
        end_timeout: Span(800),
        send_timeout: Span(800),
        response_bytes: 256 * 1_024,
    };
    HttpRunners::new(&settings).unwrap()
}

fn at(url: &str) -> Target {
    Target {
        id: "mac".parse().unwrap(),
        url: url.to_owned(),
        token_file: None,
        identity: None,
        state_id: None,
        epoch: None,
        speaks_protocol: false,
    }
}

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

fn idle_for(ms: i64) -> EngineState {
    EngineState { generating: Told::Is(false), idle_ms: Told::Is(ms), ..EngineState::default() }
}

async fn observe(runner: &FakeRunner) -> (Target, TrackedSet) {
    let target = at(&runner.url);
    let observation = client().tracked(&target).await;
    let Observation::Live(set) = observation else { panic!("{observation:?}") };
    (target.seen(&set), set)
}

fn stop_of(session: &str, generation: i64, set: &TrackedSet) -> StopCall {
    let limits = StopLimits {
        quiet_for_ms: 6 * HOUR,
        awaiting_for_ms: 24 * HOUR,
        stalled_for_ms: 30 * MINUTE,
        background_for_ms: 24 * HOUR,
    };
    let request = EndRequest {
        session_id: id(session),
        generation,
        mode: EndMode::IfIdle,
        limits: Some(limits),
        stamp: set.stamp.clone(),
        reason: "idle".to_owned(),
        sweep_id: Some(id("sweep-1")),
        owner_id: None,
    };
    StopCall { request, set_recognised: true }
}

fn refused(because: Because) -> impl Fn(&StopAnswer) -> bool {
    move |answer| matches!(answer, StopAnswer::Refused { because: Some(said), .. } if *said == because)
}

#[tokio::test]
async fn a_runner_is_observed_with_a_new_ask_each_time() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
    let (target, set) = observe(&runner).await;
    assert_eq!((set.tracked.len(), set.tracked[0].generation), (1, Some(3)));
    assert_eq!((target.identity.as_deref(), target.epoch, target.speaks_protocol), (Some("mac-mini"), Some(1), true));
    assert!(matches!(client().tracked(&target).await, Observation::Live(_)));
    let asks: Vec<String> = runner.calls_of(Verb::Sessions).into_iter().map(|call| call.query).collect();
    assert!(asks.len() == 2 && asks[0] != asks[1] && asks[0].len() == "ask=".len() + 32, "{asks:?}");
}

#[tokio::test]
async fn another_runner_or_an_older_epoch_is_unknown() {
    let runner = FakeRunner::start().await;
    let (target, _) = observe(&runner).await;
    runner.script().epoch = 0;
    assert!(matches!(client().tracked(&target).await, Observation::Unknown(why) if why.contains("epoch 0")));
    runner.script().epoch = 1;
    runner.script().runner_id = id("mac-studio");
    let unknown = client().tracked(&target).await;
    assert!(unknown.reached() && matches!(unknown, Observation::Unknown(why) if why.contains("mac-studio")));
}

#[tokio::test]
async fn a_stop_is_done_once_and_remembered_until_forgotten() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(6 * HOUR));
    let (target, set) = observe(&runner).await;
    let call = stop_of("s-1", 3, &set);
    assert!(matches!(client().end(&target, &call).await, StopAnswer::Stopped(record)
        if record.reason == "idle" && record.freed_bytes == Some(412_000_000) && record.stages.len() == 2));
    let again = stop_of("s-1", 3, &set);
    assert!(
        matches!(client().end(&target, &again).await, StopAnswer::AlreadyStopped(record) if record.reason == "idle")
    );
    assert_eq!(runner.script().stops.len(), 1);
    let (_, set) = observe(&runner).await;
    assert_eq!((set.tracked.len(), set.ended.len(), set.ended[0].generation), (0, 1, 3));
    let request = ForgetRequest { session_id: id("s-1"), generation: 3 };
    assert_eq!(client().forget(&target, &request).await, Ok(SessionReply::Done(None)));
    assert!(observe(&runner).await.1.ended.is_empty());
    assert_eq!(client().end(&target, &stop_of("s-9", 1, &set)).await, StopAnswer::NotTracked);
}

#[tokio::test]
async fn a_stop_carries_its_condition_and_the_runner_refuses_by_it() {
    let clock = Arc::new(ManualClock::at(UtcMs(1_800_000_000_000)));
    let runner = FakeRunner::with_clock(Arc::clone(&clock) as Arc<dyn Clock>).await;
    runner.hold_engine(&id("s-1"), 3, idle_for(6 * HOUR - 1));
    let (target, set) = observe(&runner).await;
    let call = stop_of("s-1", 3, &set);
    let client = client();
    assert!(refused(Because::Active)(&client.end(&target, &call).await), "a millisecond before its limit");
    clock.sleep(59 * SECOND);
    assert!(refused(Because::Active)(&client.end(&target, &call).await), "sleep is not idleness");
    clock.sleep(2 * SECOND);
    assert!(refused(Because::Stale)(&client.end(&target, &call).await), "old news");
    clock.advance(1);
    let (target, set) = observe(&runner).await;
    assert!(refused(Because::Generation)(&client.end(&target, &stop_of("s-1", 4, &set)).await), "another start");
    assert!(matches!(client.end(&target, &stop_of("s-1", 3, &set)).await, StopAnswer::Stopped(_)));
}

#[tokio::test]
async fn a_touch_between_decision_and_stop_wins() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
    let (target, set) = observe(&runner).await;
    let gate = runner.hold(Verb::End, When::Arrived);
    let call = stop_of("s-1", 3, &set);
    let client = client();
    let act = async {
        gate.reached().await;
        let touch = TouchRequest { session_id: id("s-1"), generation: 3, kind: ActivityKind::Message, owner_id: None };
        assert!(matches!(client.touch(&target, &touch).await, Ok(SessionReply::Done(Some(_)))));
        gate.open();
    };
    let (answer, ()) = tokio::join!(client.end(&target, &call), act);
    assert!(refused(Because::Active)(&answer), "{answer:?}");
    assert!(runner.script().stops.is_empty());
    assert!(runner.wait_for(Verb::End, 1).await.seq < runner.wait_for(Verb::Touch, 1).await.seq);
}

#[tokio::test]
async fn a_stop_without_a_certain_answer_is_a_failure() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
    let (target, set) = observe(&runner).await;
    for answering in [
        Answering::Raw(Raw::bare(200)),
        Answering::Raw(Raw::bare(204)),
        Answering::Raw(Raw::bare(404)),
        Answering::Raw(Raw::bare(401)),
        Answering::Raw(Raw::bare(500)),
        Answering::Raw(Raw::bare(307).with("location", format!("{}/coding/end", runner.url))),
        Answering::Raw(Raw::json(200, r#"{"outcome":"stopped"}"#)),
        Answering::Hang,
        Answering::HangAfterHeaders,
        Answering::Reset,
        Answering::CutOff,
        Answering::Endless,
    ] {
        runner.answer_once(Verb::End, Some(&id("s-1")), answering.clone());
        let answer = client().end(&target, &stop_of("s-1", 3, &set)).await;
        assert!(matches!(answer, StopAnswer::Failed(_) | StopAnswer::NoAnswer(_)), "{answering:?}: {answer:?}");
    }
    assert!(runner.script().stops.is_empty());
    runner.answer_once(Verb::End, None, Answering::Accept);
    assert_eq!(client().end(&target, &stop_of("s-1", 3, &set)).await, StopAnswer::Accepted);
    runner.answer_once(Verb::End, None, Answering::Refuse(Because::Generating));
    assert!(refused(Because::Generating)(&client().end(&target, &stop_of("s-1", 3, &set)).await));
}

#[tokio::test]
async fn an_answer_that_names_something_else_stops_nothing() {
    for change in [
        json!({"session_id": "s-2"}),
        json!({"generation": 2}),
        json!({"runner_id": "mac-studio"}),
        json!({"epoch": 0}),
        json!({"epoch": 2}),
    ] {
        let runner = FakeRunner::start().await;
        runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
        let (target, set) = observe(&runner).await;
        runner.answer(Verb::End, None, Answering::Altered(change.clone()));
        let answer = client().end(&target, &stop_of("s-1", 3, &set)).await;
        assert!(matches!(answer, StopAnswer::Failed(_)), "{change}: {answer:?}");
    }
}

#[tokio::test]
async fn a_lost_acknowledgement_is_found_again() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
    let (target, set) = observe(&runner).await;
    runner.answer_once(Verb::End, None, Answering::DoThen(Box::new(Answering::Reset)));
    let call = stop_of("s-1", 3, &set);
    assert!(matches!(client().end(&target, &call).await, StopAnswer::NoAnswer(_)));
    assert!(
        matches!(client().end(&target, &call).await, StopAnswer::AlreadyStopped(record) if record.reason == "idle")
    );
}

#[tokio::test]
async fn a_runner_that_was_started_again_refuses_an_old_stamp() {
    let mut runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
    let (target, set) = observe(&runner).await;
    runner.die().await;
    assert!(matches!(client().tracked(&target).await, Observation::Unconnected(_)));
    runner.restart().await;
    runner.script().ready = false;
    assert!(
        matches!(client().tracked(&target).await, Observation::NotReady(why) if why.contains("\"ready\" is false"))
    );
    assert!(matches!(client().end(&target, &stop_of("s-9", 1, &set)).await, StopAnswer::Failed(_)), "not ready");
    runner.script().ready = true;
    assert!(refused(Because::Stale)(&client().end(&target, &stop_of("s-1", 3, &set)).await));
    assert!(matches!(client().tracked(&target).await, Observation::Live(set) if set.epoch == Some(2)));
}

#[tokio::test]
async fn touch_message_and_start_say_what_became_of_the_session() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(7 * HOUR));
    let (target, set) = observe(&runner).await;
    let client = client();
    let touch = |session: &str, generation| TouchRequest {
        session_id: id(session),
        generation,
        kind: ActivityKind::Capture,
        owner_id: None,
    };
    assert!(matches!(client.touch(&target, &touch("s-1", 3)).await, Ok(SessionReply::Done(Some(session)))
        if session.state.idle_ms == Told::Is(0)));
    assert_eq!(client.touch(&target, &touch("s-1", 2)).await, Ok(SessionReply::Generation { highest: Some(3) }));
    assert_eq!(client.touch(&target, &touch("s-9", 1)).await, Ok(SessionReply::NotTracked));
    let message = MessageRequest {
        session_id: id("s-1"),
        generation: 3,
        text: "go on".to_owned(),
        message_id: None,
        wait: false,
        owner_id: None,
    };
    assert!(matches!(client.message(&target, &message).await, Ok(SessionReply::Done(_))));
    assert_eq!(runner.script().engines[&id("s-1")].messages, ["go on"]);
    let mut call = stop_of("s-1", 3, &set);
    call.request.mode = EndMode::Force;
    assert!(matches!(client.end(&target, &call).await, StopAnswer::Stopped(_)));
    let gone = Ok(SessionReply::Ended { reason: "idle".to_owned() });
    assert_eq!(
        (client.touch(&target, &touch("s-1", 3)).await, client.message(&target, &message).await),
        (gone.clone(), gone)
    );
    let start = |generation| StartRequest {
        session_id: id("s-1"),
        generation,
        engine: "fake".to_owned(),
        cwd: "/".to_owned(),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        owner_id: None,
        engine_session_id: None,
        must_resume: false,
    };
    assert_eq!(client.start(&target, &start(3)).await, Ok(SessionReply::Generation { highest: Some(3) }));
    assert!(matches!(client.start(&target, &start(4)).await, Ok(SessionReply::Done(Some(_)))));
    assert_eq!(client.health(&target).await.unwrap().sessions, 1);
}

#[tokio::test]
async fn a_foreign_runner_is_served_with_bare_ids() {
    let runner = FakeRunner::foreign().await;
    runner.hold_engine(&id("s-1"), 1, EngineState::default());
    let (target, set) = observe(&runner).await;
    assert!(!target.speaks_protocol && set.tracked.len() == 1);
    let call = stop_of("s-1", 1, &set);
    assert!(matches!(client().end(&target, &call).await, StopAnswer::Stopped(record) if record.reason == "idle"));
    assert_eq!(runner.wait_for(Verb::End, 1).await.body, json!({"session_id": "s-1"}));
    assert_eq!(client().end(&target, &call).await, StopAnswer::NotTracked);
    let blind = StopCall { set_recognised: false, ..call };
    assert!(matches!(client().end(&target, &blind).await, StopAnswer::Failed(_)));
    let touch = TouchRequest { session_id: id("s-1"), generation: 1, kind: ActivityKind::Capture, owner_id: None };
    assert_eq!(client().touch(&target, &touch).await, Ok(SessionReply::Unsupported));
    runner.script().tells_states = true;
    runner.hold_engine(&id("s-2"), 1, EngineState { generating: Told::Is(true), ..EngineState::default() });
    let busy = &observe(&runner).await.1.tracked[0];
    assert_eq!((busy.generation, busy.state.generating), (None, Told::Is(true)));
}

#[tokio::test]
async fn the_secret_goes_to_the_runner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::File::create(&file).unwrap().write_all(b"t0ken\n").unwrap();
    let other = FakeRunner::start().await;
    let runner = FakeRunner::start().await;
    runner.script().secret = Some("t0ken".to_owned());
    let without = at(&runner.url);
    let with = Target { token_file: Some(file.to_str().unwrap().to_owned()), ..without.clone() };
    assert!(matches!(client().tracked(&without).await, Observation::Unauthorised(why) if why.contains("401")));
    assert!(matches!(client().tracked(&with).await, Observation::Live(_)));
    runner.answer(Verb::Sessions, None, Answering::Raw(Raw::bare(302).with("location", format!("{}/x", other.url))));
    assert!(matches!(client().tracked(&with).await, Observation::Unrecognised(why) if why.contains("302")));
    assert!(other.calls().is_empty(), "no redirect is followed");
    std::fs::remove_file(&file).unwrap();
    assert!(
        matches!(client().tracked(&with).await, Observation::Unauthorised(why) if why.contains("token cannot be opened"))
    );
    assert_eq!(runner.calls().len(), 3, "nothing is asked without a secret");
}

/// What answered something is unrecognised; what did not answer is unanswered.
#[tokio::test]
async fn what_is_no_tracked_set_is_told_apart() {
    let runner = FakeRunner::start().await;
    let gzip = include_bytes!("../../fixtures/tracked/unrecognised-gzip.json");
    let html = Raw::bare(200).with("content-type", "text/html");
    let cases = [
        (Answering::Raw(Raw::bare(500)), "status 500"),
        (Answering::Raw(Raw::bare(204)), "status 204"),
        (Answering::Raw(Raw::json(200, "null")), "null, not an object"),
        (Answering::Raw(Raw::json(200, r#"{"tracked":null}"#)), "\"tracked\" is null"),
        (Answering::Raw(html), "text/html"),
        (Answering::Raw(Raw::json(200, *gzip).with("content-encoding", "gzip")), "encoded as \"gzip\""),
        (Answering::Raw(Raw::json(200, r#"{"tracked":[]}"#).with("age", "9")), "from a cache"),
        (Answering::Raw(Raw::json(200, r#"{"tracked":[],"ask":"old"}"#)), "\"ask\" is"),
        (Answering::Altered(json!({"complete": false})), "\"complete\" is false"),
        (Answering::CutOff, "cut off after 12 bytes"),
        (Answering::Endless, "larger than 262144 bytes"),
    ];
    for (answering, why) in cases {
        runner.answer(Verb::Sessions, None, answering.clone());
        let observation = client().tracked(&at(&runner.url)).await;
        assert!(
            matches!(&observation, Observation::Unrecognised(said) if said.contains(why)),
            "{answering:?}: {observation:?}"
        );
    }
    for answering in [Answering::Hang, Answering::HangAfterHeaders, Answering::Reset] {
        runner.answer(Verb::Sessions, None, answering.clone());
        let observation = client().tracked(&at(&runner.url)).await;
        assert!(matches!(observation, Observation::Unanswered(_)), "{answering:?}: {observation:?}");
        assert!(observation.reached() && observation.why().is_some());
    }
}

#[tokio::test]
async fn a_slow_drip_ends_at_the_limit_of_the_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let drip = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert_ne!(socket.read(&mut [0; 1_024]).await.unwrap(), 0);
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while socket.write_all(b" ").await.is_ok() {
            tick.tick().await;
        }
    });
    let observation = client().tracked(&at(&url)).await;
    assert!(
        matches!(&observation, Observation::Unanswered(why) if why.contains("did not end in time")),
        "{observation:?}"
    );
    drip.await.unwrap();
}

/// Only what proves that no connection was made may count towards "the machine is gone".
#[tokio::test]
async fn no_connection_is_told_from_no_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = client().tracked(&at(&format!("http://{closed}"))).await;
    assert!(matches!(&refused, Observation::Unconnected(why) if why.contains("connection refused")), "{refused:?}");
    assert!(!refused.reached());

    let nameless = client().tracked(&at("http://nosuch.invalid:7118")).await;
    assert!(matches!(&nameless, Observation::Unconnected(why) if why.contains("nosuch.invalid")), "{nameless:?}");

    let (full, _kept) = full_backlog().await;
    let hole = client().tracked(&at(&full)).await;
    assert!(matches!(&hole, Observation::Unconnected(why) if why.contains("within 400 ms")), "{hole:?}");
    let hole = client().tracked(&at(&full.replace("http:", "https:"))).await;
    assert!(matches!(&hole, Observation::Unconnected(_)), "{hole:?}");

    for url in ["not a url", "ftp://127.0.0.1", "http://"] {
        let odd = client().tracked(&at(url)).await;
        assert!(matches!(odd, Observation::Unanswered(_)), "{url}: {odd:?}");
    }
}

/// A TLS handshake that fails or hangs did reach a machine.
#[tokio::test]
async fn a_failed_handshake_is_a_connection() {
    let runner = FakeRunner::start().await;
    let plain = client().tracked(&at(&runner.url.replace("http:", "https:"))).await;
    assert!(matches!(plain, Observation::Unanswered(_)), "{plain:?}");
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hangs = client().tracked(&at(&format!("https://{}", silent.local_addr().unwrap()))).await;
    assert!(matches!(&hangs, Observation::Unanswered(why) if why.contains("TLS handshake")), "{hangs:?}");
}

/// Makes a port that takes no further connection and refuses none, as a machine behind a dead link does.
async fn full_backlog() -> (String, (TcpListener, Vec<TcpStream>)) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut kept = Vec::new();
    while let Ok(connected) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        kept.push(connected.unwrap());
        assert!(kept.len() < 64, "the backlog does not fill up");
    }
    (format!("http://{address}"), (listener, kept))
}

#[tokio::test]
async fn a_touch_that_does_not_arrive_says_why() {
    let mut runner = FakeRunner::start().await;
    let (target, _) = observe(&runner).await;
    let touch = TouchRequest { session_id: id("s-1"), generation: 1, kind: ActivityKind::Capture, owner_id: None };
    runner.answer_once(Verb::Touch, None, Answering::Hang);
    assert!(matches!(client().touch(&target, &touch).await, Err(NoAnswer::Unanswered(_))));
    runner.answer_once(Verb::Touch, None, Answering::Raw(Raw::bare(200)));
    assert!(matches!(client().touch(&target, &touch).await, Err(NoAnswer::Unrecognised(_))));
    runner.answer_once(Verb::Touch, None, Answering::Altered(json!({"epoch": 0})));
    assert!(matches!(client().touch(&target, &touch).await, Err(NoAnswer::Unknown(_))));
    runner.die().await;
    assert!(matches!(client().touch(&target, &touch).await, Err(NoAnswer::Unconnected(_))));
}

#[tokio::test]
async fn an_engine_that_left_by_itself_is_reported_with_its_own_reason() {
    let clock = ManualClock::at(UtcMs(1_800_000_000_000));
    let runner = FakeRunner::with_clock(Arc::new(clock.clone())).await;
    runner.hold_engine(&id("s-1"), 2, EngineState { next_wake_in_ms: Some(5), ..idle_for(0) });
    clock.advance(7);
    let state = observe(&runner).await.1.tracked[0].state.clone();
    assert_eq!((state.idle_ms, state.next_wake_in_ms), (Told::Is(7), Some(-2)));
    runner.script().end_by_itself(&id("s-1"), "exited", &clock);
    clock.advance(9);
    let (target, set) = observe(&runner).await;
    assert_eq!((set.ended[0].reason.as_str(), set.ended[0].ended_ago_ms), ("exited", Some(9)));
    assert!(matches!(client().end(&target, &stop_of("s-1", 2, &set)).await, StopAnswer::AlreadyStopped(record)
        if record.reason == "exited"));
    assert_eq!(Target::from(&runner.row("mac")), at(&runner.url));
}

#[tokio::test]
async fn who_waits_for_a_turn_has_more_patience_than_who_does_not() {
    let runner = FakeRunner::start().await;
    runner.hold_engine(&id("s-1"), 3, idle_for(HOUR));
    let (target, _) = observe(&runner).await;
    let patient = ClientSettings {
        connect_timeout: Span(400),
        timeout: Span(100),
        end_timeout: Span(100),
        send_timeout: Span(60 * SECOND),
        response_bytes: 256 * 1_024,
    };
    let client = HttpRunners::new(&patient).unwrap();
    let message = |wait| MessageRequest {
        session_id: id("s-1"),
        generation: 3,
        text: "go on".to_owned(),
        message_id: None,
        wait,
        owner_id: None,
    };
    let gate = runner.hold(Verb::Messages, When::Decided);
    let (waited, plain) = (message(true), message(false));
    let (turn, ()) = tokio::join!(client.converse(&target, &waited), async {
        gate.reached().await;
        // This one begins later and is given up, as its ordinary patience ends.
        assert!(matches!(client.message(&target, &plain).await, Err(NoAnswer::Unanswered(_))));
        gate.open();
    });
    assert!(matches!(turn, Ok((SessionReply::Done(_), Some(TurnOutcome::Over)))), "{turn:?}");
}
