//! Plays a recorded transcript to an adapter, for tests: what the engine wrote, and what was wanted of it in between.
//!
//! One JSON object per line. One with a `sexton` key is a call: `greet` (with `engine_session_id`), `message` (with
//! `text`), `interrupt`, `ask`, `clear`, `stop_tasks`; every other line is one that the engine wrote.

use std::fmt::Write as _;

use serde_json::Value;

use crate::protocol::EngineState;
use crate::runner::doings::Doings;
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening};
use crate::time::Ms;

/// A turn that was silent for this long stalls; each line takes one millisecond.
const STALL: Ms = 1_000_000;
/// How much of a line is shown.
const SHOWN: usize = 150;

/// Returns the recorded transcript of a file below `fixtures/engines`.
pub(crate) fn recorded(file: &str) -> String {
    let path = format!("{}/fixtures/engines/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Plays it, and returns per line what came of it and what the engine is doing then.
///
/// The adapter is saved, made anew and restored before every line, so whatever it must not forget is in its memory, and
/// each line is read twice from the same memory, with the same answer.
pub(crate) fn play(transcript: &str, make: impl Fn() -> Box<dyn Adapter>) -> String {
    let (mut adapter, mut doings, mut shown) = (make(), Doings::started(0), String::new());
    for (line, now) in transcript.lines().zip(1..) {
        let saved = adapter.save();
        assert!(saved.to_string().len() < 4_096, "it remembers little: {saved}");
        let (again, exchange) = (take(&mut *restored(&make, &saved), line), take(&mut *adapter, line));
        assert_eq!(again, exchange, "the same memory and the same line give the same answers: {line}");
        adapter = restored(&make, &adapter.save());
        exchange.events.iter().for_each(|event| doings.heard(event, now));
        show(&mut shown, line, &exchange, adapter.is_ready(), &doings.state(now, STALL));
    }
    shown
}

fn restored(make: &impl Fn() -> Box<dyn Adapter>, saved: &Value) -> Box<dyn Adapter> {
    let mut adapter = make();
    adapter.restore(saved);
    adapter
}

fn take(adapter: &mut dyn Adapter, line: &str) -> Exchange {
    let value: Value = serde_json::from_str(line).unwrap();
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let wrote = |write| Exchange { events: Vec::new(), write };
    match value["sexton"].as_str() {
        Some("greet") => {
            let engine_session_id = text("engine_session_id");
            adapter.greet(&Opening { cwd: "/repo".to_owned(), engine_session_id })
        }
        Some("message") => adapter.message(&text("text").unwrap()),
        Some("interrupt") => match adapter.interrupt() {
            Interrupt::Write(write) => wrote(write),
            Interrupt::Signal => wrote(vec!["SIGINT\n".to_owned()]),
        },
        Some("ask") => wrote(adapter.ask()),
        Some("stop_tasks") => wrote(adapter.stop_tasks()),
        Some("clear") => adapter.clear().unwrap(),
        Some(other) => panic!("there is no call {other:?}"),
        None => adapter.read(line.as_bytes()),
    }
}

fn show(shown: &mut String, line: &str, exchange: &Exchange, ready: bool, state: &EngineState) {
    let short: String = line.chars().take(SHOWN).collect();
    let _ = writeln!(shown, "{short}");
    let silent = exchange.events == [Event::Output { task: None }] && exchange.write.is_empty();
    if silent {
        return;
    }
    for written in &exchange.write {
        assert!(written.ends_with('\n') && written.lines().count() == 1, "whole lines: {written:?}");
        let _ = writeln!(shown, "    > {}", written.trim_end());
    }
    let _ = writeln!(
        shown,
        "    {:?} ready={ready} generating={:?} tasks={:?} awaiting={:?} idle={:?}",
        exchange.events,
        state.generating.value(),
        state.background_tasks.value(),
        state.awaiting_input.value(),
        state.idle_ms.value(),
    );
}
