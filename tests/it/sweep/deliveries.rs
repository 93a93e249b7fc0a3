//! Events handed to webhooks: at least once, in order per session, and never at the expense of a sweep.

use std::collections::BTreeMap;
use std::time::Duration;

use sexton::config::Config;
use sexton::entry::{Delivery, DeliveryStatus, EntryKind, NewEntry};
use sexton::report::{PartName, Trigger};
use sexton::session::Session;
use sexton::store::DeliveryFilter;
use sexton::sweep::{Request, sweep};
use sexton::time::{HOUR, MINUTE, SECOND, Span};
use sexton::verdict::Verdict;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::receiver::{KEY, Mood, Receiver};
use crate::support::world::{World, id, kept};

/// A world with a webhook that has seen its first pass, so that what follows is for it.
async fn world(receiver: &Receiver, change: impl FnOnce(&mut Config)) -> World {
    let world = World::with(|config| {
        receiver.enrol(config);
        change(config);
    })
    .await;
    world.sweep().await;
    world
}

/// Lets something happen to a session.
async fn happen(world: &World, session: &Session, message: &str) {
    let entry = NewEntry {
        session_id: session.id.clone(),
        generation: 1,
        at: world.now(),
        kind: EntryKind::Warned,
        actor: "test".to_owned(),
        reason: None,
        message: message.to_owned(),
        evidence: serde_json::json!({}),
        once: None,
        engine_gone: false,
    };
    assert!(world.store().add_entry(&entry).await.unwrap());
}

async fn deliveries(world: &World, status: DeliveryStatus) -> Vec<Delivery> {
    let filter = DeliveryFilter { status: Some(status), after: None, limit: 1_000 };
    world.store().list_deliveries(&filter).await.unwrap()
}

#[tokio::test]
async fn an_end_reaches_the_receiver_signed_and_with_its_reason() {
    let receiver = Receiver::start().await;
    let world = World::with(|config| receiver.enrol(config)).await;
    let runner = world.runner().await;
    world.held(&runner, "old", 6 * HOUR).await;
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Idle).reaped, 1);
    assert!(receiver.got().is_empty(), "a webhook that is new begins at the head");

    world.clock.advance(MINUTE);
    world.held(&runner, "next", 6 * HOUR).await;
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Deliveries), Verdict::Delivered), 2, "{report:?}");
    let got = receiver.taken();
    let kinds: Vec<&str> = got.iter().map(|got| got.body["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["started", "ended"]);
    let end = &got[1];
    assert!(end.verifies(KEY) && !end.verifies("another key"), "{end:?}");
    assert_eq!(end.seconds, world.now().0 / SECOND);
    assert_eq!(end.body["id"], end.id.as_str());
    assert_eq!(end.body["session"]["status"], "ended");
    assert_eq!((&end.body["entry"]["reason"], &end.body["entry"]["session_id"]), (&"idle".into(), &"next".into()));
    assert_eq!(end.body["at"], end.body["entry"]["at"]);
    let text = world.tools.metrics.encode().unwrap();
    assert!(text.contains("sexton_verdicts_total{part=\"deliveries\",verdict=\"delivered\"} 2"), "{text}");
}

#[tokio::test]
async fn a_receiver_that_fails_for_a_while_gets_everything_in_order_once_it_is_back() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    let sessions = [world.session("a", 0, |_| ()).await, world.session("b", 0, |_| ()).await];
    receiver.set(Mood::Says(503));
    for round in 0..5 {
        for session in &sessions {
            happen(&world, session, &format!("{round}")).await;
        }
        let report = world.sweep().await;
        let part = report.part(PartName::Deliveries);
        assert_eq!((kept(part, Verdict::Delivered), part.errors.len()), (0, 0), "{part:?}");
        world.clock.advance(MINUTE);
    }
    assert!(receiver.taken().is_empty() && !receiver.got().is_empty());
    receiver.set(Mood::Takes);
    for _ in 0..20 {
        world.clock.advance(MINUTE);
        world.sweep().await;
    }
    let mut by_session: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for got in receiver.taken() {
        assert!(got.verifies(KEY));
        by_session.entry(got.session()).or_default().push(got.seq());
    }
    assert_eq!(by_session.len(), 2);
    for (session, seqs) in by_session {
        assert!(seqs.len() == 6 && seqs.is_sorted_by(|one, next| one < next), "{session}: {seqs:?}");
    }
    assert!(deliveries(&world, DeliveryStatus::Pending).await.is_empty());
    let ids: BTreeMap<i64, String> = receiver.taken().into_iter().map(|got| (got.seq(), got.id)).collect();
    for attempt in receiver.got() {
        assert_eq!(ids[&attempt.seq()], attempt.id, "the same id in every attempt");
    }
}

#[tokio::test]
async fn what_was_sent_and_not_noted_is_sent_again_under_the_same_id() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    let session = world.session("a", 0, |_| ()).await;
    happen(&world, &session, "second").await;
    receiver.set(Mood::Hangs);
    // A process that dies while its message is on the way: the receiver has it, and nothing was noted.
    let dying = world.spawn_sweep();
    let arrived = async {
        while receiver.got().is_empty() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(Duration::from_secs(10), arrived).await.unwrap();
    dying.abort();
    assert!(dying.await.is_err());

    receiver.set(Mood::Takes);
    world.sweep().await;
    assert_eq!(receiver.taken().len(), 0, "it may still be on its way, and what is behind it waits");
    world.clock.advance(MINUTE);
    world.sweep().await;
    let (got, taken) = (receiver.got(), receiver.taken());
    assert_eq!((got.len(), taken.len()), (3, 2), "{got:?}");
    assert_eq!(got[0].id, got[1].id);
    assert!(got[1].seq() < got[2].seq());
}

#[tokio::test]
async fn a_receiver_that_hangs_costs_a_pass_one_attempt() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |config| config.limits.webhook_timeout = Span(300)).await;
    let runner = world.runner().await;
    for at in 0..20 {
        world.session(&format!("s{at}"), 0, |_| ()).await;
    }
    world.held(&runner, "old", 6 * HOUR).await;
    receiver.set(Mood::Hangs);
    let before = receiver.got().len();
    let began = tokio::time::Instant::now();
    let report = world.sweep().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(report.part(PartName::Idle).reaped, 1, "the reaping came first");
    assert_eq!(receiver.got().len() - before, 1);
    let part = report.part(PartName::Deliveries);
    assert_eq!((part.examined, kept(part, Verdict::Postponed)), (1, 1), "{part:?}");
}

#[tokio::test]
async fn one_webhook_that_is_gone_does_not_hold_up_another() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let receiver = Receiver::start().await;
    let mut dead = receiver.hook("dead");
    dead.url = format!("http://{gone}/");
    let world = world(&receiver, |config| config.webhooks.push(dead)).await;
    world.session("a", 0, |_| ()).await;
    let report = world.sweep().await;
    let part = report.part(PartName::Deliveries);
    assert_eq!((kept(part, Verdict::Delivered), kept(part, Verdict::Postponed)), (1, 1), "{part:?}");
    let pending = deliveries(&world, DeliveryStatus::Pending).await;
    assert_eq!((pending.len(), pending[0].attempts), (1, 1));
    let why = pending[0].last_error.as_deref().unwrap();
    assert!(why.contains("no connection") && !why.contains(&gone.to_string()), "{why}");
}

#[tokio::test]
async fn what_is_never_taken_is_given_up_where_people_can_see_it() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |config| config.limits.webhook_give_up = Span(HOUR)).await;
    let sessions = [world.session("a", 0, |_| ()).await, world.session("b", 0, |_| ()).await];
    receiver.set(Mood::Says(500));
    world.sweep().await;
    for _ in 0..3 {
        world.clock.advance(25 * MINUTE);
        let report = world.sweep().await;
        let given_up = kept(report.part(PartName::Deliveries), Verdict::GivenUp);
        assert_eq!(given_up > 0, report.has_errors(), "{report:?}");
    }
    let given_up = deliveries(&world, DeliveryStatus::GivenUp).await;
    assert_eq!(given_up.len(), 2, "{given_up:?}");
    assert!(given_up.iter().all(|one| one.last_error.as_deref() == Some("the receiver answered 500")));
    assert!(given_up.iter().all(|one| one.finished_at == Some(world.now())), "{given_up:?}");
    let queue = world.store().delivery_queues(world.now()).await.unwrap().remove(0);
    assert_eq!((queue.webhook.as_str(), queue.pending, queue.given_up), ("boss", 0, 2));

    receiver.set(Mood::Takes);
    happen(&world, &sessions[0], "later").await;
    world.sweep().await;
    assert_eq!(receiver.taken().len(), 1, "what comes later is no longer held up");
}

#[tokio::test]
async fn a_machine_that_slept_through_the_limit_has_not_tried_for_that_long() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    world.session("a", 0, |_| ()).await;
    receiver.set(Mood::Says(500));
    world.sweep().await;
    world.clock.sleep(30 * HOUR);
    for _ in 0..5 {
        world.clock.advance(MINUTE);
        world.sweep().await;
    }
    assert!(deliveries(&world, DeliveryStatus::GivenUp).await.is_empty());
    receiver.set(Mood::Takes);
    world.clock.advance(HOUR);
    world.sweep().await;
    assert_eq!(receiver.taken().len(), 1);
}

#[tokio::test]
async fn once_a_receiver_is_back_nothing_waits_for_its_turn() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |config| config.limits.webhook_timeout = Span(200)).await;
    for at in 0..6 {
        world.session(&format!("s{at}"), 0, |_| ()).await;
    }
    receiver.set(Mood::Hangs);
    for _ in 0..6 {
        world.sweep().await;
    }
    assert!(deliveries(&world, DeliveryStatus::Pending).await.iter().all(|one| one.next_attempt_at > world.now()));
    receiver.set(Mood::Takes);
    world.session("new", 0, |_| ()).await;
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Deliveries), Verdict::Delivered), 7, "{report:?}");
}

#[tokio::test]
async fn several_passes_at_once_deliver_once_and_in_order() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    let other = world.second_process().await;
    for at in 0..10 {
        let session = world.session(&format!("s{at}"), 0, |_| ()).await;
        for round in 0..3 {
            happen(&world, &session, &format!("{round}")).await;
        }
    }
    for _ in 0..3 {
        let request = || Request { only: vec![PartName::Deliveries], ..Request::all(Trigger::Manual) };
        let (one, two) = tokio::join!(
            sweep(&world.tools, request(), CancellationToken::new()),
            sweep(&other, request(), CancellationToken::new())
        );
        assert!(one.is_ok() && two.is_ok());
    }
    let mut by_session: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for got in receiver.got() {
        by_session.entry(got.session()).or_default().push(got.seq());
    }
    assert_eq!(by_session.values().map(Vec::len).collect::<Vec<_>>(), [4; 10]);
    assert!(by_session.values().all(|seqs| seqs.is_sorted_by(|one, next| one < next)), "{by_session:?}");
}

#[tokio::test]
async fn a_webhook_gets_its_owners_events_of_its_kinds() {
    let receiver = Receiver::start().await;
    let mut hook = receiver.hook("ends-of-ann");
    (hook.owner, hook.events) = ("ann".to_owned(), vec![EntryKind::Warned]);
    let world = World::with(|config| config.webhooks.push(hook)).await;
    world.sweep().await;
    let anns = world.session("anns", 0, |row| row.owner_id = Some("ann".to_owned())).await;
    let bobs = world.session("bobs", 0, |row| row.owner_id = Some("bob".to_owned())).await;
    let nobodys = world.session("nobodys", 0, |row| row.owner_id = None).await;
    for session in [&anns, &bobs, &nobodys] {
        happen(&world, session, "x").await;
    }
    world.sweep().await;
    let got = receiver.got();
    assert!(got.len() == 1 && got[0].session() == "anns" && got[0].body["type"] == "warned", "{got:?}");
}

#[tokio::test]
async fn a_redirect_is_no_delivery_and_is_not_followed() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    world.session("a", 0, |_| ()).await;
    receiver.set(Mood::Says(307));
    world.sweep().await;
    assert_eq!(receiver.got().len(), 1);
    let pending = deliveries(&world, DeliveryStatus::Pending).await;
    assert_eq!(pending[0].last_error.as_deref(), Some("the receiver answered 307; redirects are not followed"));
}

#[tokio::test]
async fn without_its_secret_nothing_is_sent_and_all_of_it_waits() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |config| config.webhooks[0].secret_file = "/no/such/secret".to_owned()).await;
    world.session("a", 0, |_| ()).await;
    world.session("b", 0, |_| ()).await;
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Deliveries).examined, 1);
    assert!(receiver.got().is_empty());
    let pending = deliveries(&world, DeliveryStatus::Pending).await;
    assert_eq!(pending.len(), 2);
    let why: Vec<&str> = pending.iter().filter_map(|one| one.last_error.as_deref()).collect();
    assert!(
        why.len() == 1
            && why[0].starts_with("nothing was sent, since it cannot be signed: its secret file /no/such/secret"),
        "{why:?}"
    );
}

#[tokio::test]
async fn what_is_shown_of_a_queue_is_its_newest_error() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    let error = async || world.store().delivery_queues(world.now()).await.unwrap().remove(0).last_error.unwrap();
    for (name, status) in [("a", 500), ("b", 503), ("c", 404)] {
        world.session(name, 0, |_| ()).await;
        receiver.set(Mood::Says(status));
        world.sweep().await;
        assert_eq!(error().await, format!("the receiver answered {status}"));
        world.clock.advance(SECOND);
    }
}

#[tokio::test]
async fn only_and_dry_runs_are_obeyed() {
    let receiver = Receiver::start().await;
    let world = world(&receiver, |_| ()).await;
    world.session("a", 0, |_| ()).await;
    let before = world.dump().await;
    let report = world.dry_run().await;
    assert_eq!(report.part(PartName::Deliveries).examined, 0);
    assert_eq!(world.dump().await, before);
    world.sweep_only(&[PartName::Idle]).await;
    assert!(receiver.got().is_empty());
    let report = world.sweep_only(&[PartName::Deliveries]).await;
    assert_eq!(kept(report.part(PartName::Deliveries), Verdict::Delivered), 1);
    assert_eq!(report.totals().kept, 0, "no session was kept");
    assert!(world.store().find_session(&id("a")).await.unwrap().unwrap().is_open());
}
