//! A message and a conditional end race: exactly one of them wins, every time.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sexton::runner::Settings;
use sexton::time::HOUR;

use crate::support::runner::{QUIET, TestRunner};

const RACES: usize = 10_000;
/// How many race side by side.
const SIDE_BY_SIDE: usize = 50;

/// One session that is raced again and again; a new engine takes the place of one that was ended.
struct Racer {
    id: String,
    generation: i64,
    messages_won: usize,
    ends_won: usize,
    /// The texts that were answered with 200.
    taken: BTreeSet<String>,
}

impl Racer {
    async fn begin(runner: &TestRunner, number: usize) -> Self {
        let id = format!("s{number}");
        assert_eq!(runner.begin(&id, "sh", &["exec cat"]).await.0, 200);
        Self { id, generation: 1, messages_won: 0, ends_won: 0, taken: BTreeSet::new() }
    }

    /// Races once; the session has been silent for its window, and `limits` carries a fresh stamp.
    async fn race(&mut self, runner: &TestRunner, limits: &Value, round: usize) {
        let text = format!("{}-{round}", self.id);
        let message = json!({"session_id": self.id, "generation": self.generation, "text": text});
        let mut end = limits.clone();
        (end["session_id"], end["generation"]) = (json!(self.id), json!(self.generation));
        // Most of the time the end comes a little later, since each engine that it ends has to be started anew.
        let later = match round % 64 {
            63 => (2, 0),
            round if round % 4 == 3 => (0, 0),
            round => (0, 1 + round as u64 % 3),
        };
        let message = after(later.0, runner.post("messages", message));
        let (message, end) = tokio::join!(message, after(later.1, runner.post("end", end)));
        match ((message.0, &message.1), (end.0, end.1["outcome"].as_str().unwrap())) {
            ((200, _), (409, "refused")) => {
                assert_eq!(end.1["because"], "active", "{}", end.1);
                self.messages_won += 1;
                self.taken.insert(text);
            }
            ((410, answer), (200, "stopped")) => {
                assert_eq!((&answer["outcome"], &answer["reason"]), (&json!("ended"), &json!("idle")));
                assert_eq!(answer["message"], format!("the engine of the session {} has ended (idle)", self.id));
                self.ends_won += 1;
                self.generation += 1;
                let (status, answer) = runner.begin_as(&self.id, self.generation, "sh", &["exec cat"]).await;
                assert_eq!(status, 200, "{answer}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Does something some milliseconds later.
async fn after<T>(ms: u64, work: impl Future<Output = T>) -> T {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    work.await
}

/// Returns what the engines of a state folder were sent, as they echoed it.
fn echoed(state: &Path) -> Vec<String> {
    let folders = |path: &Path| std::fs::read_dir(path).unwrap().flatten().map(|it| it.path()).collect::<Vec<_>>();
    let living = folders(&state.join("sessions")).into_iter().map(|it| it.join("out")).filter(|it| it.exists());
    let files = living.chain(folders(&state.join("output"))).flat_map(|out| folders(&out));
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let text: String = logs.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let said =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned());
    said.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_message_and_an_end_exactly_one_wins_ten_thousand_times() {
    let all_is_kept = |settings: &mut Settings| {
        (settings.start_settle, settings.heartbeat, settings.output_kept) = (1, HOUR, 100_000 * HOUR);
    };
    let runner = TestRunner::start_with(all_is_kept).await;
    let mut racers = Vec::new();
    for number in 0..SIDE_BY_SIDE {
        racers.push(Racer::begin(&runner, number).await);
    }
    for round in 0..RACES / SIDE_BY_SIDE {
        runner.clock.advance(QUIET);
        let limits = runner.condition("any").await;
        let racing = racers.iter_mut().map(|racer| racer.race(&runner, &limits, round));
        futures_util::future::join_all(racing).await;
    }
    let (messages, ends) = racers.iter().fold((0, 0), |sum, it| (sum.0 + it.messages_won, sum.1 + it.ends_won));
    eprintln!("{messages} messages won, {ends} ends won");
    assert_eq!(messages + ends, RACES);
    assert!(messages > RACES / 100 && ends > RACES / 100, "it was a race");

    let taken: BTreeSet<String> = racers.iter().flat_map(|racer| racer.taken.clone()).collect();
    runner.until("echoed", |_| echoed(&runner.state()).len() >= messages).await;
    let echoed = echoed(&runner.state());
    assert_eq!(echoed.len(), messages, "each message that was taken reached its engine once, and no other did");
    assert_eq!(echoed.into_iter().collect::<BTreeSet<_>>(), taken);
    runner.stop().await;
}
