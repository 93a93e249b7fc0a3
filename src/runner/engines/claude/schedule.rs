//! What Claude Code has planned to do later, as far as its tools' calls and their results tell.
//!
//! A schedule lives in the engine's memory and dies with it, so it protects the session like a background task does.
//! When it fires cannot be told without the clock and zone of the engine; nor does a firing name what fired. So one
//! that fires once is known to be over only when a listing or a removal says so.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runner::engines::Event;
use crate::time::SECOND;

/// How many calls without a result, and schedules, are remembered; it allows itself fewer schedules than these.
const MOST: usize = 64;

/// Its schedules, and the calls about them that have no result yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Schedule {
    calls: BTreeMap<String, Call>,
    live: BTreeSet<String>,
}

/// A call of a tool about schedules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Call {
    Create,
    Delete(String),
    List,
    Wake,
}

/// A line with a message in it.
#[derive(Deserialize)]
struct Line {
    message: Message,
    #[serde(default)]
    tool_use_result: Value,
}

#[derive(Deserialize)]
struct Message {
    content: Vec<Block>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Block {
    id: Option<String>,
    name: Option<String>,
    input: Value,
    tool_use_id: Option<String>,
    is_error: Option<bool>,
}

impl Schedule {
    /// Reads a message of the model or of a tool.
    pub(super) fn read(&mut self, model: bool, line: &[u8]) -> Vec<Event> {
        // Most lines are none of these, and may be large.
        let matters =
            if model { has(line, b"\"Cron") || has(line, b"\"ScheduleWakeup\"") } else { !self.calls.is_empty() };
        let Some(line) = matters.then(|| serde_json::from_slice::<Line>(line).ok()).flatten() else {
            return Vec::new();
        };
        if model {
            self.called(line.message.content);
            return Vec::new();
        }
        let results = line.message.content.iter();
        results.flat_map(|block| self.result(block, &line.tool_use_result)).collect()
    }

    fn called(&mut self, blocks: Vec<Block>) {
        for block in blocks {
            let call = match block.name.as_deref() {
                Some("CronCreate") => Call::Create,
                Some("CronDelete") => Call::Delete(block.input["id"].as_str().unwrap_or_default().to_owned()),
                Some("CronList") => Call::List,
                Some("ScheduleWakeup") => Call::Wake,
                _ => continue,
            };
            if let Some(id) = block.id.filter(|_| self.calls.len() < MOST) {
                self.calls.insert(id, call);
            }
        }
    }

    fn result(&mut self, block: &Block, result: &Value) -> Vec<Event> {
        let Some((id, call)) = block.tool_use_id.as_ref().and_then(|id| self.calls.remove_entry(id)) else {
            return Vec::new();
        };
        if block.is_error == Some(true) {
            return Vec::new();
        }
        match call {
            // One without a name is there all the same.
            Call::Create => self.begin(result["id"].as_str().unwrap_or(&id)),
            Call::Delete(id) => self.end(&id),
            Call::List => self.listed(result),
            Call::Wake => {
                let seconds = result["clampedDelaySeconds"].as_i64().filter(|seconds| *seconds > 0);
                seconds.map(|seconds| Event::WakeScheduled(seconds.saturating_mul(SECOND))).into_iter().collect()
            }
        }
    }

    fn listed(&mut self, result: &Value) -> Vec<Event> {
        let Some(jobs) = result["jobs"].as_array() else { return Vec::new() };
        let ids: Option<BTreeSet<String>> = jobs.iter().map(|job| job["id"].as_str().map(str::to_owned)).collect();
        let Some(ids) = ids else { return Vec::new() };
        let over: Vec<String> = self.live.difference(&ids).cloned().collect();
        let mut events: Vec<Event> = ids.iter().flat_map(|id| self.begin(id)).collect();
        events.extend(over.iter().flat_map(|id| self.end(id)));
        events
    }

    fn begin(&mut self, id: &str) -> Vec<Event> {
        let fresh = self.live.len() < MOST && self.live.insert(id.to_owned());
        fresh.then(|| Event::BackgroundStarted(task(id))).into_iter().collect()
    }

    fn end(&mut self, id: &str) -> Vec<Event> {
        self.live.remove(id).then(|| Event::BackgroundEnded(task(id))).into_iter().collect()
    }
}

fn task(id: &str) -> String {
    format!("schedule-{id}")
}

fn has(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|part| part == word)
}
