//! The runner killed with -9 at random moments: no engine is lost or doubled, and no line of output.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::daemon::{Daemon, force, home_of_a_past_life, start};
use crate::support::processes::running;
use crate::support::runner::{Engines, ended, tracked};

/// How often the runner is killed, unless the variable says otherwise.
const TRIALS: u64 = 150;
/// How many engines are meant to live at once.
const ALIVE: usize = 4;

/// Speaks of its turns, leaves a child in a session of its own, and answers each message with a turn of some lines.
const ENGINE: &str = r#"say() { echo "{\"type\":\"$1\"}"; }; say turn_started; say turn_ended
setsid sleep 4321 & while read -r line; do
say turn_started; i=0; while [ $i -lt 20 ]; do echo "line $i"; i=$((i+1)); done; say turn_ended; done"#;
/// How many processes it has.
const PROCESSES: usize = 2;

fn trials() -> u64 {
    std::env::var("SEXTON_TEST_KILLS").map_or(TRIALS, |text| text.parse().unwrap())
}

/// A number below `end`.
fn chance(end: u64) -> u64 {
    u64::try_from(uuid::Uuid::new_v4().as_u128() % u128::from(end)).unwrap()
}

/// What the test knows of a session.
#[derive(Debug, Default, Clone)]
struct Told {
    /// The process that a start was answered with.
    pid: Option<i64>,
    /// Its end was asked for.
    end_asked: bool,
    /// Its end was answered.
    end_told: bool,
}

/// The sessions of a test, and what was said about them.
#[derive(Default)]
struct Book {
    all: BTreeMap<String, Told>,
    next: u64,
}

impl Book {
    fn alive(&self) -> Vec<String> {
        self.all.iter().filter(|(_, told)| !told.end_asked).map(|(id, _)| id.clone()).collect()
    }

    /// Asks for several things at once, kills the runner in their midst, and takes note of what was answered.
    async fn trial(&mut self, daemon: Daemon) {
        let mut alive = self.alive();
        let mut asking = Vec::new();
        for _ in 0..=(ALIVE.saturating_sub(alive.len())).min(2) {
            self.next += 1;
            let id = format!("s{}", self.next);
            asking.push((id.clone(), "start", tokio::spawn(daemon.post("start", &start(&id, ENGINE)).send())));
            self.all.insert(id, Told::default());
        }
        if alive.len() >= ALIVE {
            let id = alive.swap_remove(usize::try_from(chance(alive.len() as u64)).unwrap());
            asking.push((id.clone(), "end", tokio::spawn(daemon.post("end", &force(&id)).send())));
            self.all.get_mut(&id).unwrap().end_asked = true;
        }
        for id in alive {
            let body = json!({"session_id": id, "generation": 1, "text": "go"});
            asking.push((id, "messages", tokio::spawn(daemon.post("messages", &body).send())));
        }
        // A start is answered after half a second; most of them are caught earlier.
        let most = if chance(16) == 0 { 700_000 } else { 60_000 };
        tokio::time::sleep(Duration::from_micros(chance(most))).await;
        daemon.kill();
        for (id, verb, asked) in asking {
            let Ok(answer) = asked.await.unwrap() else { continue };
            let Ok(answer) = answer.json::<Value>().await else { continue };
            let told = self.all.get_mut(&id).unwrap();
            match verb {
                "start" => told.pid = answer["session"]["pid"].as_i64(),
                "end" => told.end_told = answer["outcome"] == "stopped",
                _ => {}
            }
        }
    }

    /// Forgets the sessions and the ends of which no trace was written before the runner died.
    fn strike_what_never_was(&mut self, home: &Path) {
        self.all.retain(|id, told| {
            let folder = home.join("state/sessions").join(id);
            let recorded = home.join(format!("state/ended/{id}.1.json")).exists();
            let written = recorded || folder.join("start.1.json").exists();
            assert!(written || told.pid.is_none(), "{id} was answered and not written down");
            told.end_asked &= recorded || folder.join("end.json").exists();
            written
        });
    }

    /// Checks the list of a runner that says that it is ready.
    fn check_list(&self, list: &Value) {
        assert_eq!((&list["ready"], &list["complete"]), (&json!(true), &json!(true)));
        for (id, told) in &self.all {
            let (lives, gone) = (tracked(list, id), ended(list, id));
            assert!(lives.is_some() || gone.is_some(), "{id} is neither tracked nor ended: {list}");
            assert!(lives.is_some() || told.pid.is_none() || told.end_asked, "{id} was lost: {list}");
            assert!(gone.is_some() || !told.end_told, "{id} was called stopped: {list}");
            if let Some(one) = lives {
                assert_same_engine(id, told, one);
            }
        }
    }

    /// Waits until nothing is in doubt any more, and takes note of what ended.
    async fn settle(&mut self, daemon: &Daemon, home: &Path) {
        let is_clear = |list: &Value, id: &str, told: &Told| match (tracked(list, id), ended(list, id)) {
            (Some(one), None) => !told.end_asked && one["pid"].is_i64() && one["generating"] == false,
            (None, Some(_)) => true,
            _ => false,
        };
        let fits =
            |list: &Value| self.all.iter().all(|(id, told)| is_clear(list, id, told)) && self.is_whole(list, home);
        let list = daemon.until("settled", fits).await;
        for id in self.alive() {
            if tracked(&list, &id).is_some() {
                let (status, answer) = daemon.touch(&id).await;
                assert_eq!(status, 200, "the shim of {id} does not answer: {answer}");
            }
        }
        for (id, told) in &mut self.all {
            if let Some(one) = tracked(&list, id) {
                assert!(one["pid"].is_i64(), "{id}: {list}");
                assert_same_engine(id, told, one);
            }
            told.pid = tracked(&list, id).and_then(|one| one["pid"].as_i64());
            if told.pid.is_none() {
                daemon.tell("forget", &json!({"session_id": id, "generation": 1})).await;
            }
        }
        self.all.retain(|_, told| told.pid.is_some());
    }

    /// Returns whether each session that is tracked has exactly one shim and one engine, and nothing else runs.
    fn is_whole(&self, list: &Value, home: &Path) -> bool {
        let (engines, shims) = running(home);
        let held: Vec<&String> = self.all.keys().filter(|id| tracked(list, id).is_some()).collect();
        shims.values().all(|pids| pids.len() == 1)
            && engines.values().all(|pids| pids.len() == PROCESSES)
            && shims.keys().eq(held.iter().copied())
            && engines.keys().eq(held.iter().copied())
    }
}

/// Checks that it is the engine that its start was answered with. One whose shim has not answered yet has no process that
/// anybody could name, and then all that it does is unknown, so that nobody takes it for idle or for missing.
fn assert_same_engine(id: &str, told: &Told, one: &Value) {
    let Some(pid) = told.pid else { return };
    match one["pid"].as_i64() {
        Some(found) => assert_eq!(found, pid, "{id} has another engine: {one}"),
        None => {
            let unknown = ["generating", "background_tasks", "idle_ms"].map(|key| one.get(key));
            assert_eq!(unknown, [Some(&Value::Null); 3], "{id}: {one}");
        }
    }
}

async fn begin_again(home: &TempDir) -> (Daemon, Value, Duration) {
    let mut daemon = Daemon::launch(home.path(), "");
    let began = sexton::clock::timer();
    daemon.answers().await;
    let list = daemon.ready().await;
    (daemon, list, began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_killed_at_any_moment_loses_and_doubles_no_engine() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let mut book = Book::default();
    let (mut daemon, _, _) = begin_again(&home).await;
    let (mut waits, mut doubts) = (Vec::new(), Duration::ZERO);
    for _ in 0..trials() {
        book.trial(daemon).await;
        book.strike_what_never_was(home.path());
        let (next, list, wait) = begin_again(&home).await;
        book.check_list(&list);
        let ready = sexton::clock::timer();
        book.settle(&next, home.path()).await;
        doubts = doubts.max(ready.elapsed());
        waits.push(wait);
        daemon = next;
    }
    waits.sort_unstable();
    let (middle, most) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!(
        "{} kills, {} starts; ready again after {middle:?}, at most {most:?}; settled {doubts:?} later",
        waits.len(),
        book.next
    );
    assert!(doubts < Duration::from_secs(8), "something was in doubt for {doubts:?}");
    assert!(middle < Duration::from_secs(1), "ready again after {middle:?}, at most {most:?}");
}
