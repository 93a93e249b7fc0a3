//! What runner and shim say to each other, and, in `files.rs`, the names of the files that both know.
//!
//! One JSON object per line over the socket in the session's folder. Either side ignores what it does not know, since
//! the other may be of a later version; [`Hello`] tells which one the shim is of.

mod files;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::protocol::{EngineExit, StopStage};
use crate::runner::process::Identity;
use crate::session::Id;
use crate::time::Ms;
use crate::words::words;

pub use files::SEGMENT_BYTES;
pub(crate) use files::{
    ERRORS, ERRORS_MOST, ERRORS_OLD, EXIT, HELD, LOCK, OUT, SOCKET, TIME_BYTES, parse_segment, segment_name, times_name,
};

/// The version of what is said here.
pub(crate) const VERSION: u32 = 1;
/// How many bytes of a [`Note`]'s state are kept.
pub(crate) const NOTE_MOST: usize = 1024 * 1024;
/// How many bytes may wait for the engine to read them.
pub(crate) const INPUT_MOST: usize = 16 * 1024 * 1024;

/// How long each step of a stop may take, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopGraces {
    /// From what is written or signalled first, so that the engine ends its turn, to closing stdin.
    #[serde(default)]
    pub interrupt: Ms,
    /// From closing stdin to SIGTERM for the engine.
    pub stdin: Ms,
    /// From there to SIGTERM for its whole tree.
    pub engine: Ms,
    /// From there to SIGKILL.
    pub tree: Ms,
    /// From there until what is left is called stuck.
    pub kill: Ms,
    /// What an engine that left by itself leaves behind may stay for this long.
    pub linger: Ms,
}

impl StopGraces {
    /// Returns the longest time that a stop takes before it is called stuck.
    #[must_use]
    pub fn longest(&self) -> Ms {
        [self.interrupt, self.stdin, self.engine, self.tree, self.kill].into_iter().fold(0, Ms::saturating_add)
    }

    /// Returns the shorter of each.
    #[must_use]
    pub(crate) fn shortest(self, other: Self) -> Self {
        Self {
            interrupt: self.interrupt.min(other.interrupt),
            stdin: self.stdin.min(other.stdin),
            engine: self.engine.min(other.engine),
            tree: self.tree.min(other.tree),
            kill: self.kill.min(other.kill),
            linger: self.linger.min(other.linger),
        }
    }
}

words! {
    /// What makes sure that nothing of an engine gets away.
    Containment {
        /// A control group of its own, and the subreaper.
        Cgroup = "cgroup",
        /// Whatever loses its parent comes to the shim, until the shim dies.
        Subreaper = "subreaper",
        /// What carries the engine's marks in its environment is found; other processes may get away.
        BestEffort = "best_effort",
    }
}

impl Default for Containment {
    /// The one that claims least.
    fn default() -> Self {
        Self::BestEffort
    }
}

/// The engine to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The program and its arguments; never given to a shell.
    pub(crate) command: Vec<String>,
    /// Its whole environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The folder to run it in.
    pub(crate) cwd: String,
    /// The limits of its stop.
    pub(crate) graces: StopGraces,
    /// How many bytes of its output are kept; above that the oldest segments go.
    pub(crate) output_most: u64,
    /// How large a segment becomes.
    #[serde(default = "usual_segment")]
    pub(crate) segment_bytes: u64,
    /// The control group to make the engine's own one in, where one was delegated.
    #[serde(default)]
    pub(crate) cgroup: Option<PathBuf>,
}

fn usual_segment() -> u64 {
    SEGMENT_BYTES
}

/// What the shim writes down about itself and its engine, for who comes when it is dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// The shim's [`VERSION`].
    pub(crate) version: u32,
    /// The shim.
    pub(crate) shim: Identity,
    /// Its engine.
    pub(crate) engine: Identity,
    /// The boot of the machine under which both identities say something.
    pub(crate) boot_id: String,
    /// What keeps the engine's tree together.
    pub(crate) containment: Containment,
    /// The engine's own control group, when it has one.
    #[serde(default)]
    pub(crate) cgroup: Option<PathBuf>,
}

/// What must not be done twice, however often it is ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "once", rename_all = "snake_case")]
pub(crate) enum Once {
    /// An answer to the engine's own output: accepted if it is above the highest accepted one.
    Reply {
        /// The offset of the line that is answered.
        at: u64,
        /// Which of the answers to it.
        n: u32,
    },
    /// A message; the last 256 are remembered.
    Message {
        /// Its id.
        id: Id,
    },
}

/// What a runner knows about the engine, kept for the next runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Up to where the output was read into it.
    pub(crate) offset: u64,
    /// Says nothing to the shim; at most [`NOTE_MOST`] bytes.
    pub(crate) state: String,
}

/// From the runner to the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Start the engine; answered by `Started` or `NotStarted`. Ignored by a shim that has an engine.
    Start(Box<Spec>),
    /// Write to the engine's stdin, after what was ordered before; answered by `Taken`.
    Write {
        /// Names the order in its answer.
        seq: u64,
        /// What to write, as it is.
        text: String,
        /// Not written when it was accepted before.
        #[serde(default)]
        once: Option<Once>,
        /// Kept in the same step as the text is accepted, or was accepted before.
        #[serde(default)]
        note: Option<Note>,
    },
    /// Keep this instead of the note before it.
    Keep {
        /// The note.
        note: Note,
    },
    /// SIGINT to the engine's own process.
    Interrupt,
    /// Stop the engine and all that it started; a second one may make it faster, never slower.
    Stop {
        /// Written to stdin before it is closed; may be empty.
        #[serde(default)]
        first: String,
        /// Whether the engine's own process gets a SIGINT at the beginning.
        #[serde(default)]
        signal: bool,
        /// Instead of the spec's.
        #[serde(default)]
        graces: Option<StopGraces>,
    },
    /// The turn is over: a stop that waits for that goes on.
    Hurry,
    /// Go away; ignored by a shim that has an engine.
    Leave,
}

/// What became of a `Write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Taken {
    /// It is in the engine's pipe, whole.
    Written,
    /// It was accepted before, and is in the pipe; nothing was written for this order.
    Again,
    /// Too much is waiting; nothing was written.
    Full,
    /// The engine has closed its input; not all of it was written.
    Broken,
    /// A stop has begun, or there is no engine; not all of it was written.
    Closed,
}

/// From the shim to the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub(crate) enum News {
    /// How things are; the first on every connection.
    Hello(Box<Hello>),
    /// The engine's program runs.
    Started {
        /// The engine.
        engine: Identity,
        /// What keeps its tree together.
        containment: Containment,
    },
    /// It does not, and nothing is left of the attempt.
    NotStarted {
        /// Why, in one sentence.
        why: String,
    },
    /// There is more output than was told last.
    Grown {
        /// The offset behind the last byte of output.
        head: u64,
        /// How many bytes of standard error there were.
        errors: u64,
        /// No more output will come, whether the engine lives or not.
        #[serde(default)]
        ended: bool,
    },
    /// What became of a `Write` of this connection.
    Taken {
        /// Which.
        seq: u64,
        /// What became of it.
        result: Taken,
    },
    /// The engine's own process is gone; what it started may not be.
    EngineExited {
        /// How.
        exit: EngineExit,
    },
    /// Not everything could be killed within its time; it goes on trying.
    Stuck {
        /// What is left, for people.
        left: Vec<String>,
    },
    /// Something does not work, and is tried again; none when it all works again.
    Trouble {
        /// What, in one sentence.
        what: Option<String>,
    },
    /// The kernel says that nothing of the engine is left, and the record of it is on disk.
    Gone(Gone),
}

/// How things are with a shim and its engine. Times are readings of the awake clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The shim's [`VERSION`].
    pub(crate) version: u32,
    /// The shim.
    pub(crate) shim: Identity,
    /// Its engine; none before it was started.
    pub(crate) engine: Option<Identity>,
    /// How the engine's own process ended, when it did.
    pub(crate) exit: Option<EngineExit>,
    /// Whether a stop has begun.
    pub(crate) stopping: bool,
    /// The last note.
    pub(crate) note: Option<Note>,
    /// The offset of the first byte of output that is kept.
    pub(crate) base: u64,
    /// The offset behind the last byte of output.
    pub(crate) head: u64,
    /// How many bytes of standard error there were.
    pub(crate) errors: u64,
    /// When output came last.
    pub(crate) output_at: Option<Ms>,
    /// When standard error came last.
    pub(crate) errors_at: Option<Ms>,
    /// When the engine took input last.
    pub(crate) input_at: Option<Ms>,
    /// The highest accepted reply.
    pub(crate) answered: Option<(u64, u32)>,
    /// What could not be killed so far, for people.
    pub(crate) stuck: Vec<String>,
    /// What does not work.
    pub(crate) trouble: Option<String>,
    /// What keeps the engine's tree together.
    pub(crate) containment: Containment,
    /// How many accepted texts are not in the engine's pipe yet.
    pub(crate) messages: usize,
    /// No more output will come, whether the engine lives or not.
    #[serde(default)]
    pub(crate) output_ended: bool,
}

/// How an engine and everything below it came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Gone {
    /// How the engine's own process ended.
    pub(crate) exit: Option<EngineExit>,
    /// The steps that were taken.
    pub(crate) stages: Vec<StopStage>,
    /// What the engine left behind when it left by itself, for people.
    #[serde(default)]
    pub(crate) left_behind: Vec<String>,
    /// The offset behind the last byte of output there will ever be.
    #[serde(default)]
    pub(crate) head: u64,
    /// What kept its tree together.
    #[serde(default)]
    pub(crate) containment: Containment,
    /// Whether a runner's order to stop reached the shim before all was gone.
    #[serde(default)]
    pub(crate) asked: bool,
}
