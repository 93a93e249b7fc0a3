//! The commands of Codex that are not over, and those of them that outlive their turn: its background terminals.
//!
//! A command is told by its beginning and its end. One that is open when its turn ends is a background task. A list of
//! the living ones, asked for now and then, corrects what was missed: it may begin any task, but ends only such as were
//! tasks before it was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runner::engines::Event;

/// How many commands are told apart; one more is a task at once, and over when it says so.
const MOST: usize = 256;
/// After so many occasions without an answer the list is asked for again.
const PATIENCE: u32 = 20;

/// The commands that are not over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Terminals {
    open: BTreeMap<String, Terminal>,
    /// A turn ended since the list was last asked for.
    due: bool,
    /// The list was asked for, so many occasions ago.
    waiting: Option<u32>,
    /// The list cannot be asked for.
    refused: bool,
}

/// A command that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Terminal {
    thread: String,
    /// The number of the last request that was made before it became a task; none while its turn runs.
    task_since: Option<u64>,
}

impl Terminals {
    /// Takes note that a command began; outside of a turn it is a task at once.
    pub(super) fn began(&mut self, id: &str, thread: &str, turn: bool, requests: u64) -> Event {
        let full = self.open.len() >= MOST && !self.open.contains_key(id);
        let task_since = (!turn || full).then_some(requests);
        if !full {
            self.open.insert(id.to_owned(), Terminal { thread: thread.to_owned(), task_since });
        }
        if task_since.is_some() { Event::BackgroundStarted(id.to_owned()) } else { Event::Output { task: None } }
    }

    /// Takes note that a command is over.
    pub(super) fn ended(&mut self, id: &str) -> Event {
        match self.open.remove(id) {
            Some(Terminal { task_since: None, .. }) => Event::Output { task: None },
            Some(_) | None => Event::BackgroundEnded(id.to_owned()),
        }
    }

    /// Takes note that a turn of the thread is over: what it left open are tasks.
    pub(super) fn turn_ended(&mut self, thread: &str, requests: u64) -> Vec<Event> {
        self.due = true;
        let left = self.open.iter_mut().filter(|(_, it)| it.thread == thread && it.task_since.is_none());
        left.map(|(id, it)| {
            it.task_since = Some(requests);
            Event::BackgroundStarted(id.clone())
        })
        .collect()
    }

    /// Returns whether it is a task.
    pub(super) fn is_task(&self, id: &str) -> bool {
        self.open.get(id).is_some_and(|it| it.task_since.is_some())
    }

    /// Returns the threads that have tasks.
    pub(super) fn threads(&self) -> BTreeSet<String> {
        self.open.values().filter(|it| it.task_since.is_some()).map(|it| it.thread.clone()).collect()
    }

    /// Returns the threads whose list is to be asked for now, with `current` among them where a turn ended lately.
    pub(super) fn occasion(&mut self, current: &str) -> BTreeSet<String> {
        if self.refused {
            return BTreeSet::new();
        }
        if let Some(waited) = self.waiting.as_mut() {
            *waited += 1;
            if *waited < PATIENCE {
                return BTreeSet::new();
            }
        }
        let mut threads = self.threads();
        if std::mem::replace(&mut self.due, false) {
            threads.insert(current.to_owned());
        }
        self.waiting = (!threads.is_empty()).then_some(0);
        threads
    }

    /// Reads the list of a thread that was asked for by the request of this number.
    pub(super) fn listed(&mut self, thread: &str, number: u64, result: Option<&Value>) -> Vec<Event> {
        self.waiting = None;
        let Some(list) = result.map(|result| &result["data"]).and_then(Value::as_array) else {
            self.refused = true;
            return Vec::new();
        };
        let ids: Option<BTreeSet<&str>> = list.iter().map(|one| one["itemId"].as_str()).collect();
        let Some(ids) = ids else { return Vec::new() };
        let whole = result.is_some_and(|result| result["nextCursor"].is_null());
        let over = |id: &str, it: &Terminal| {
            whole && it.thread == thread && it.task_since.is_some_and(|since| since < number) && !ids.contains(id)
        };
        let over: Vec<String> = self.open.iter().filter(|(id, it)| over(id, it)).map(|(id, _)| id.clone()).collect();
        let mut events = Vec::new();
        for id in ids {
            if !self.open.contains_key(id) {
                events.push(self.began(id, thread, false, number));
            }
        }
        events.extend(over.iter().map(|id| self.ended(id)));
        events
    }
}
