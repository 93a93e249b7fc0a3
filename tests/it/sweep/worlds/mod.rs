//! Random worlds: several runners, faults at every call, uses in between, two processes at times. Whatever happens, no
//! engine in use is stopped, nothing is closed before it was stopped, the books balance, and idle ones go in the end.
//!
//! `SEXTON_TEST_WORLDS=5000` tries more of them; `SEXTON_TEST_WORLD=17` tries that one alone.

mod check;
mod dice;
mod history;

use crate::sweep::worlds::history::History;

const WORLDS: u64 = 80;
const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_no_world_is_anybody_reaped_early() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match (number("SEXTON_TEST_WORLD"), number("SEXTON_TEST_WORLDS")) {
        (Some(seed), _) => vec![seed],
        (None, count) => (0..count.unwrap_or(WORLDS)).collect(),
    };
    let (mut stops, mut reaps) = (0, 0);
    for some in seeds.chunks(AT_ONCE) {
        let worlds: Vec<_> = some.iter().map(|seed| (*seed, tokio::spawn(History::play(*seed)))).collect();
        for (seed, world) in worlds {
            let (stopped, reaped) = world.await.unwrap_or_else(|_| panic!("SEXTON_TEST_WORLD={seed} fails"));
            (stops, reaps) = (stops + stopped, reaps + reaped);
        }
    }
    if seeds.len() as u64 >= WORLDS {
        assert!(stops > seeds.len() && reaps > stops, "safety by never reaping: {stops} stops, {reaps} reaps");
    }
}
