//! What people read: the sentence and the evidence of every kind of entry.

use sexton::entry::NewEntry;
use sexton::policy::{Decision, Finding};
use sexton::protocol::{Because, EndOutcome, Ended, EngineExit, ResumeCommand, StopStage};
use sexton::session::{ActivityKind, Run, RunStatus, Session, Status};
use sexton::time::{HOUR, MINUTE, SECOND, UtcMs};
use sexton::timeline::{self, Actor, Grounds};
use sexton::verdict::Verdict;

use crate::support::world::{NOON, id};

fn session() -> Session {
    let used = NOON.minus(6 * HOUR + 3 * MINUTE);
    Session {
        id: id("s-1"),
        runner_id: id("mac-mini"),
        owner_id: Some("anna".to_owned()),
        repo: "/home/anna/src/app".to_owned(),
        engine: "claude".to_owned(),
        engine_session_id: None,
        status: Status::Active,
        generation: 3,
        reopened: 0,
        started_at: Some(NOON.minus(24 * HOUR)),
        attached_at: Some(NOON.minus(24 * HOUR)),
        updated_at: Some(NOON.minus(24 * HOUR)),
        last_activity_at: Some(used),
        last_activity_kind: Some(ActivityKind::Capture),
        driver: None,
        driver_at: None,
        keep_until: None,
        keep_reason: None,
        idle_after_ms: None,
        next_check_at: None,
        ended_at: None,
        end_reason: None,
    }
}

fn actor() -> Actor {
    Actor { name: "sweep".to_owned(), worker_id: id("worker-1"), sweep_id: Some(id("sweep-2")) }
}

fn decision(verdict: Verdict) -> Decision {
    let finding = Finding {
        rule: Verdict::RecentlyActive,
        keeps: false,
        value_ms: Some(6 * HOUR + 3 * MINUTE),
        limit_ms: Some(6 * HOUR),
        until: None,
    };
    Decision { verdict, limit_ms: finding.limit_ms, findings: vec![finding] }
}

fn stage(stage: &str, at_ms: i64) -> StopStage {
    StopStage { stage: stage.to_owned(), at_ms }
}

fn ended(reason: &str) -> Ended {
    Ended {
        session_id: id("s-1"),
        generation: 3,
        reason: reason.to_owned(),
        sweep_id: Some(id("sweep-1")),
        ended_ago_ms: None,
        exit: Some(EngineExit { code: Some(0), signal: None }),
        stages: vec![stage("stdin_closed", 0), stage("empty", 1_240)],
        freed_bytes: Some(412_345_678),
        not_freed: Vec::new(),
        resume: Some(ResumeCommand {
            command: ["claude", "--resume", "5f0c"].map(str::to_owned).to_vec(),
            cwd: "~/src/app".to_owned(),
        }),
        detail: None,
        containment: Some("subreaper".to_owned()),
    }
}

fn gone(change: impl FnOnce(&mut Ended)) -> NewEntry {
    let mut ended = ended("idle");
    change(&mut ended);
    let (session, decision) = (session(), decision(Verdict::Idle));
    let grounds = Grounds { epoch: Some(7), runner_idle_ms: Some(21_720_000), ..Grounds::of(&session) }.with(&decision);
    timeline::engine_gone(grounds, EndOutcome::Stopped, &ended, &actor(), NOON)
}

fn without_stop(verdict: Verdict, why: &str) -> NewEntry {
    let (session, decision) = (session(), decision(verdict));
    timeline::closed_without_stop(Grounds::of(&session).with(&decision), verdict, why, &actor(), NOON)
}

fn said(name: &str, entry: &NewEntry) -> String {
    format!("{name}\n  [{} {}] {}", entry.kind, entry.reason.as_deref().unwrap_or("-"), entry.message)
}

#[test]
fn every_entry_is_one_sentence_a_person_understands() {
    let session = session();
    let closed = Session { end_reason: Some("machine_gone".to_owned()), ..session.clone() };
    let run = Run {
        id: id("run-1"),
        session_id: id("s-1"),
        status: RunStatus::Running,
        opened_session: true,
        started_at: NOON.minus(HOUR),
        heartbeat_at: Some(NOON.minus(15 * MINUTE)),
        finished_at: None,
    };
    let of = Grounds::of(&session);
    let mut lines = vec![
        said("idle", &gone(|_| ())),
        said("told two hours later", &gone(|ended| ended.ended_ago_ms = Some(2 * HOUR))),
        said(
            "killed",
            &gone(|ended| {
                ended.stages = vec![
                    stage("stdin_closed", 0),
                    stage("sigterm_engine", 5 * SECOND),
                    stage("sigterm_tree", 10 * SECOND),
                    stage("sigkill", 12 * SECOND),
                    stage("empty", 12_040),
                ];
            }),
        ),
        said(
            "after a signal",
            &gone(|ended| {
                ended.stages =
                    vec![stage("stdin_closed", 0), stage("sigterm_engine", 5 * SECOND), stage("empty", 5_800)];
                ended.resume = None;
            }),
        ),
        said("not freed", &gone(|ended| ended.not_freed = vec!["container 5d1e of docker".to_owned()])),
        said(
            "a runner that tells nothing",
            &gone(|ended| {
                *ended = Ended { reason: "idle".to_owned(), ..nothing() };
            }),
        ),
        said("stalled", &gone(|ended| ended.reason = "stalled".to_owned())),
        said("awaiting", &gone(|ended| ended.reason = "awaiting_expired".to_owned())),
        said(
            "exited",
            &gone(|ended| {
                (ended.reason, ended.stages) = ("exited".to_owned(), Vec::new());
                ended.exit = Some(EngineExit { code: Some(1), signal: None });
            }),
        ),
        said(
            "start failed",
            &gone(|ended| {
                *ended = Ended {
                    reason: "start_failed".to_owned(),
                    detail: Some("claude: not logged in".to_owned()),
                    ..nothing()
                };
            }),
        ),
        said("host reboot", &gone(|ended| *ended = Ended { reason: "host_reboot".to_owned(), ..nothing() })),
        said("a word of its own", &gone(|ended| *ended = Ended { reason: "out_of_memory".to_owned(), ..nothing() })),
        said("stray", &timeline::stray_stopped(of, &id("mac-mini"), &ended("stray"), &actor(), NOON)),
        said("machine gone", &without_stop(Verdict::MachineGone, "no connection to mac-mini:7118: connection refused")),
        said("orphaned", &without_stop(Verdict::Orphaned, "")),
        said("never started", &without_stop(Verdict::StartFailed, "")),
        said("refused to start", &timeline::start_failed(&session, "no such engine", &actor(), NOON)),
        said("reopened", &timeline::reopened(Grounds::of(&closed), Because::Active, &actor(), NOON)),
        said("run stale", &timeline::run_stale((Some(&session), &run), 15 * MINUTE, &actor(), NOON)),
        said("started", &timeline::started(&session, &actor(), NOON)),
        said("kept", &timeline::kept((&session, UtcMs(NOON.0 + 12 * HOUR)), "release day", &actor(), NOON)),
    ];
    let because = Because::ALL.iter().map(|because| Some(*because)).chain([None]);
    lines.extend(because.map(|because| {
        let idle_ms = (because == Some(Because::Active)).then_some(90 * SECOND);
        said("refused", &timeline::refused(of, because, idle_ms, &actor(), NOON))
    }));
    insta::assert_snapshot!(lines.join("\n"));
}

/// The record of a runner that says no more than it must.
fn nothing() -> Ended {
    let json = serde_json::json!({"session_id": "s-1", "generation": 3, "reason": "idle"});
    serde_json::from_value(json).unwrap()
}

#[test]
fn the_evidence_of_a_reap_is_whole() {
    let entry = gone(|ended| ended.not_freed = vec!["container 5d1e".to_owned()]);
    insta::assert_json_snapshot!(entry.evidence);
    let keys = "rule limit_ms last_activity_at last_activity_kind last_activity_source runner_idle_ms runner_id epoch \
                generation worker_id sweep_id outcome stages containment freed_bytes not_freed resume";
    for key in keys.split_whitespace() {
        assert!(!entry.evidence[key].is_null(), "{key}");
    }
    assert_eq!(
        entry.evidence["sweep_id"], "sweep-1",
        "the pass that asked for the stop, not the one that closed the row"
    );
}

#[test]
fn the_source_of_the_last_activity_is_the_column_it_came_from() {
    let source = |change: fn(&mut Session)| {
        let mut session = session();
        change(&mut session);
        timeline::started(&session, &actor(), NOON).evidence["last_activity_source"].clone()
    };
    assert_eq!(source(|_| ()), "last_activity_at");
    assert_eq!(source(|row| row.last_activity_at = None), "updated_at");
    assert_eq!(source(|row| (row.last_activity_at, row.updated_at) = (None, None)), "started_at");
    assert!(source(|row| (row.last_activity_at, row.updated_at, row.started_at) = (None, None, None)).is_null());
}

#[tokio::test]
async fn a_pass_hands_down_what_the_runner_said() {
    let world = crate::support::world::World::new().await;
    let runner = world.runner().await;
    let idle = world.held(&runner, "idle", 6 * HOUR).await;
    let unasked = world.held(&runner, "unasked", HOUR).await;
    runner.script().end_by_itself(&unasked.id, "exited", &world.clock);
    let orphan = world.session("orphan", HOUR, |_| ()).await;
    world.sweep().await;
    let evidence =
        async |session: &Session| world.entries(session, sexton::entry::EntryKind::Ended).await[0].evidence.clone();
    let of_idle = evidence(&idle).await;
    assert_eq!((&of_idle["runner_idle_ms"], &of_idle["epoch"]), (&(6 * HOUR).into(), &1.into()), "{of_idle}");
    for session in [&idle, &unasked, &orphan] {
        let evidence = evidence(session).await;
        for key in ["rule", "limit_ms", "outcome", "epoch", "runner_id", "generation", "worker_id", "last_activity_at"]
        {
            assert!(!evidence[key].is_null(), "{}: {key} in {evidence}", session.id);
        }
    }
}
