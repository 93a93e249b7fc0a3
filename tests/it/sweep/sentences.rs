//! What people read: the sentence and the evidence of every kind of entry.

use sexton::entry::NewEntry;
use sexton::policy::{Decision, Finding};
use sexton::protocol::{Because, EndOutcome, Ended, EngineExit, ResumeCommand, StopStage};
use sexton::session::{ActivityKind, Run, RunStatus, Session, Status};
use sexton::time::{HOUR, MINUTE, SECOND};
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
        engine_session_id: None,
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

/// The sentences about an engine that is gone, by how it went.
fn ends() -> Vec<String> {
    let bare = |reason: &str| Ended { reason: reason.to_owned(), ..nothing() };
    let stages = |stages: &[(&str, i64)]| stages.iter().map(|(name, at_ms)| stage(name, *at_ms)).collect();
    let killed = [
        ("stdin_closed", 0),
        ("sigterm_engine", 5_000),
        ("sigterm_tree", 10_000),
        ("sigkill", 12_000),
        ("empty", 12_040),
    ];
    let cases: [(&str, Ended); 13] = [
        ("idle", ended("idle")),
        ("told two hours later", Ended { ended_ago_ms: Some(2 * HOUR), ..ended("idle") }),
        ("killed", Ended { stages: stages(&killed), ..ended("idle") }),
        (
            "after a signal",
            Ended {
                stages: stages(&[("stdin_closed", 0), ("sigterm_engine", 5_000), ("empty", 5_800)]),
                resume: None,
                ..ended("idle")
            },
        ),
        ("not freed", Ended { not_freed: vec!["container 5d1e of docker".to_owned()], ..ended("idle") }),
        ("a runner that tells nothing", bare("idle")),
        ("stalled", ended("stalled")),
        ("awaiting", ended("awaiting_expired")),
        ("ended by a person", ended("ended_by_person")),
        (
            "exited",
            Ended { stages: Vec::new(), exit: Some(EngineExit { code: Some(1), signal: None }), ..ended("exited") },
        ),
        ("start failed", Ended { detail: Some("claude: not logged in".to_owned()), ..bare("start_failed") }),
        ("host reboot", bare("host_reboot")),
        ("a word of its own", bare("out_of_memory")),
    ];
    cases.into_iter().map(|(name, record)| said(name, &gone(|ended| *ended = record))).collect()
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
        stale_at: None,
        result: None,
    };
    let (of, actor) = (Grounds::of(&session), actor());
    let refused_connection = "no connection to mac-mini:7118: connection refused";
    let mut lines = ends();
    lines.extend([
        said("stray", &timeline::stray_stopped(of, &id("mac-mini"), &ended("stray"), &actor, NOON)),
        said("machine gone", &without_stop(Verdict::MachineGone, refused_connection)),
        said("orphaned", &without_stop(Verdict::Orphaned, "")),
        said("never started", &without_stop(Verdict::StartFailed, "")),
        said("refused to start", &timeline::start_failed(&session, "no such engine", &actor, NOON)),
        said("reopened", &timeline::reopened(Grounds::of(&closed), Because::Active, &actor, NOON)),
        said("run stale", &timeline::run_stale((Some(&session), &run), 15 * MINUTE, &actor, NOON)),
        said("started", &timeline::started(&session, &actor, NOON)),
        said("kept", &timeline::kept((&session, NOON.plus(12 * HOUR)), "release day", &actor, NOON)),
    ]);
    let because = Because::ALL.iter().map(|because| Some(*because)).chain([None]);
    lines.extend(because.map(|because| {
        let idle_ms = (because == Some(Because::Active)).then_some(90 * SECOND);
        said("refused", &timeline::refused(of, because, idle_ms, &actor, NOON))
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
