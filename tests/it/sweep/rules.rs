//! Rules as data: each session is decided about by the limits of its own rule, everywhere, and never by shorter ones.

use serde_json::json;
use sexton::activity::{Heard, Recorder};
use sexton::config::{Config, Pattern, Rule};
use sexton::entry::EntryKind;
use sexton::protocol::{EngineState, Told};
use sexton::report::PartName;
use sexton::session::ActivityKind;
use sexton::sweep::explain;
use sexton::time::{HOUR, MINUTE, Span};
use sexton::verbs;
use sexton::verdict::Verdict;
use tokio_util::sync::CancellationToken;

use crate::support::fake_runner::{Answering, Raw, Verb, When};
use crate::support::world::{World, kept, silent};

/// A rule for the repo of the session of that name.
fn rule(name: &str, change: impl FnOnce(&mut Rule)) -> Rule {
    let repo = Some(Pattern::new(&format!("/src/{name}")).unwrap());
    let mut rule = Rule { name: name.to_owned(), repo, ..Rule::default() };
    change(&mut rule);
    rule
}

fn hours(hours: i64) -> Option<Span> {
    Some(Span(hours * HOUR))
}

/// Windows of an hour and of twelve beside the six of everybody else.
fn short_and_long(config: &mut Config) {
    let short = rule("short", |rule| rule.idle_after = hours(1));
    let long = rule("long", |rule| rule.idle_after = hours(12));
    config.policy.rule = vec![short, long].into();
}

#[tokio::test]
async fn each_session_is_reaped_at_its_own_rules_time_and_never_earlier() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let began = world.now();
    let mut sessions = Vec::new();
    for (name, window) in [("short", HOUR), ("usual", 6 * HOUR), ("long", 12 * HOUR)] {
        sessions.push((world.held(&runner, name, 0).await, window));
    }
    for (session, window) in &sessions {
        world.clock.advance(window - 1 - world.now().since(began));
        let early = world.sweep().await;
        let idle = early.part(PartName::Idle);
        assert_eq!((idle.examined, idle.reaped), (0, 0), "what is not past its own window is not examined: {idle:?}");
        world.clock.advance(1);
        let report = world.sweep().await;
        assert_eq!((report.part(PartName::Idle).examined, report.part(PartName::Idle).reaped), (1, 1), "{report:?}");
        assert_eq!(world.read(session).await.end_reason.as_deref(), Some("idle"), "{}", session.id);
    }
    let limits: Vec<_> =
        runner.calls_of(Verb::End).iter().map(|call| call.body["limits"]["quiet_for_ms"].clone()).collect();
    assert_eq!(limits, [HOUR, 6 * HOUR, 12 * HOUR], "the condition of each stop is its rule's");
    let told = [Some("short"), None, Some("long")];
    for ((session, window), rule) in sessions.iter().zip(told) {
        let entries = world.entries(session, EntryKind::Ended).await;
        assert_eq!(entries[0].evidence["policy_rule"].as_str(), rule);
        assert_eq!(entries[0].evidence["limit_ms"], json!(window));
    }
}

#[tokio::test]
async fn a_runner_that_checks_conditions_is_given_the_rules() {
    let world = World::with(|config| {
        config.policy.rule = vec![rule("s", |rule| {
            rule.idle_after = hours(1);
            rule.awaiting_after = hours(2);
            rule.stall_after = hours(3);
            rule.background_max = hours(4);
        })]
        .into();
    })
    .await;
    let runner = world.runner().await;
    world.held(&runner, "s", HOUR).await;
    world.sweep().await;
    let expected = json!({"quiet_for_ms": HOUR, "awaiting_for_ms": 2 * HOUR, "stalled_for_ms": 3 * HOUR,
                          "background_for_ms": 4 * HOUR});
    assert_eq!(runner.calls_of(Verb::End)[0].body["limits"], expected);
}

#[tokio::test]
async fn a_sessions_own_window_wins_over_its_rule() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let session = world.session("short", 2 * HOUR, |row| row.idle_after_ms = Some(3 * HOUR)).await;
    runner.hold_engine(&session.id, 1, silent(2 * HOUR));
    assert_eq!(world.sweep().await.part(PartName::Idle).examined, 0);
    world.clock.advance(HOUR);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn explain_names_the_rule_and_its_limits() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let (long, usual) = (world.held(&runner, "long", 7 * HOUR).await, world.held(&runner, "usual", HOUR).await);
    let told = explain(&world.tools, &long.id).await.unwrap().unwrap();
    assert_eq!((told.rule.as_deref(), told.limits.map(|limits| limits.idle_after_ms)), (Some("long"), Some(12 * HOUR)));
    assert_eq!((told.verdict.as_str(), told.due_at), ("recently_active", Some(world.now().plus(5 * HOUR))));
    let told = explain(&world.tools, &usual.id).await.unwrap().unwrap();
    assert_eq!((told.rule, told.limits.map(|limits| limits.idle_after_ms)), (None, Some(6 * HOUR)));
}

#[tokio::test]
async fn a_turn_protects_for_as_long_as_its_rule_says_and_is_use_for_as_long() {
    let world = World::with(|config| {
        config.policy.rule = vec![
            rule("patient", |rule| rule.stall_after = hours(2)),
            rule("hasty", |rule| rule.stall_after = Some(Span(10 * MINUTE))),
        ]
        .into();
    })
    .await;
    let runner = world.runner().await;
    let turn = |silence| EngineState { generating: Told::Is(true), turn_silent_ms: Some(silence), ..silent(7 * HOUR) };
    let mut sessions = Vec::new();
    for (name, silence) in [("patient", HOUR), ("hasty", 20 * MINUTE), ("usual", 20 * MINUTE)] {
        let session = world.session(name, 7 * HOUR, |_| ()).await;
        runner.hold_engine(&session.id, 1, turn(silence));
        sessions.push(session);
    }
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Idle).reaped, 1, "{report:?}");
    assert_eq!(world.read(&sessions[1]).await.end_reason.as_deref(), Some("stalled"));
    for working in [&sessions[0], &sessions[2]] {
        assert_eq!(world.read(working).await.last_activity_at, Some(world.now()), "work is use: {}", working.id);
    }
}

#[tokio::test]
async fn an_orphan_is_as_quiet_as_its_rule_asks_for() {
    let world = World::with(|config| {
        config.policy.rule = vec![rule("slow", |rule| rule.orphan_quiet = hours(1))].into();
    })
    .await;
    let _runner = world.runner().await;
    let (slow, usual) = (world.session("slow", HOUR - 1, |_| ()).await, world.session("usual", HOUR - 1, |_| ()).await);
    world.sweep().await;
    assert!(world.read(&slow).await.is_open());
    assert_eq!(world.read(&usual).await.end_reason.as_deref(), Some("orphaned"));
    world.clock.advance(1);
    world.sweep().await;
    assert_eq!(world.read(&slow).await.end_reason.as_deref(), Some("orphaned"));
}

#[tokio::test]
async fn a_claim_lapses_as_its_rule_says() {
    let world = World::with(|config| {
        config.policy.rule = vec![rule("s", |rule| rule.driver_stale_after = hours(1))].into();
    })
    .await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", 0).await;
    verbs::claim(&world.tools, &session.id, "ann").await.unwrap();
    world.clock.advance(HOUR - 1);
    assert!(verbs::claim(&world.tools, &session.id, "bob").await.is_err());
    world.clock.advance(1);
    assert!(verbs::claim(&world.tools, &session.id, "bob").await.is_ok());
}

#[tokio::test]
async fn the_runner_hears_of_use_within_a_twelfth_of_the_rules_window() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let session = world.held(&runner, "short", 0).await;
    let recorder = Recorder::new(world.tools.clone());
    let stop = CancellationToken::new();
    tokio::spawn({
        let (recorder, stop) = (recorder.clone(), stop.clone());
        async move { recorder.run(stop).await }
    });
    let _stop = stop.drop_guard();
    for (wait, told) in [(0, 1), (5 * MINUTE - 1, 1), (1, 2)] {
        world.clock.advance(wait);
        assert_eq!(recorder.touch(&session, ActivityKind::Capture).await.unwrap(), Heard::Yes);
        assert_eq!(runner.calls_of(Verb::Touch).len(), told, "after {wait} ms more");
    }
}

#[tokio::test]
async fn a_stray_needs_its_rules_full_window() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let session = world.session("long", 12 * HOUR - 1, |row| row.generation = 2).await;
    runner.hold_engine(&session.id, 1, silent(12 * HOUR - 1));
    world.sweep_only(&[PartName::Strays]).await;
    assert!(runner.script().stops.is_empty());
    world.clock.advance(1);
    world.sweep_only(&[PartName::Strays]).await;
    assert_eq!(runner.script().stops.len(), 1);
}

#[tokio::test]
async fn nothing_is_stopped_any_more_on_limits_that_were_replaced_in_the_middle_of_a_pass() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let session = world.held(&runner, "short", 2 * HOUR).await;
    let settings = world.tools.settings.clone();
    runner.hook(Verb::Sessions, When::Arrived, move |_| {
        settings.replace(Config::defaults());
        std::future::ready(())
    });

    let report = world.sweep().await;

    assert_eq!(kept(report.part(PartName::Idle), Verdict::Limit), 1, "{report:?}");
    assert!(runner.calls_of(Verb::End).is_empty() && world.read(&session).await.is_open());
    assert_eq!(world.sweep().await.part(PartName::Idle).examined, 0, "the next pass goes by the new ones");
}

#[tokio::test]
async fn new_limits_hold_from_the_next_pass_on_for_what_was_put_off_too() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "short", 6 * HOUR).await;
    runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
    for _ in 0..3 {
        world.sweep().await;
    }
    assert!(world.read(&session).await.next_check_at.is_some_and(|at| at > world.now()), "it is put off");
    runner.script().behave();
    let mut config = Config::defaults();
    short_and_long(&mut config);
    assert!(world.store().note_limits(&serde_json::to_string(&config.policy).unwrap()).await.unwrap());
    world.tools.settings.replace(config);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn a_stop_that_failed_on_replaced_limits_puts_nothing_off() {
    let world = World::with(short_and_long).await;
    let runner = world.runner().await;
    let session = world.held(&runner, "short", 2 * HOUR).await;
    runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
    let settings = world.tools.settings.clone();
    runner.hook(Verb::End, When::Arrived, move |_| {
        settings.replace(Config::clone(&settings.now()));
        std::future::ready(())
    });
    for _ in 0..3 {
        assert_eq!(kept(world.sweep().await.part(PartName::Idle), Verdict::StopFailed), 1);
    }
    assert_eq!(world.read(&session).await.next_check_at, None);
}
