//! End records on disk: one file per session and generation, written once nothing of the engine is left.
//!
//! A record is listed until the worker says that it has taken note; after that it stays as a reminder of the highest
//! ended generation, for as long as a record would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::protocol::Ended;
use crate::runner::files;
use crate::runner::process;
use crate::runner::state_dir::StateDir;
use crate::session::Id;
use crate::time::{HOUR, Ms, UtcMs};

/// How long a record is kept at most.
pub(crate) const KEPT_FOR: Ms = 90 * 24 * HOUR;

/// One record, with what its age is computed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What the worker is told, but for its age.
    pub(crate) ended: Ended,
    /// When it ended, by the wall clock.
    pub(crate) at: UtcMs,
    /// When it ended, by a clock that runs on in sleep and starts anew at each boot.
    pub(crate) elapsed: Ms,
    /// Which boot that was.
    pub(crate) boot_id: String,
    /// The worker has taken note of it.
    #[serde(default)]
    pub(crate) forgotten: bool,
}

impl Record {
    /// Makes the record of an end that was proven just now.
    #[must_use]
    pub(crate) fn now(ended: Ended, clock: &dyn Clock) -> Self {
        let boot_id = process::boot_id().unwrap_or_default();
        Self { ended, at: clock.now(), elapsed: clock.elapsed(), boot_id, forgotten: false }
    }

    /// Returns what the worker is told, with its age.
    #[must_use]
    pub(crate) fn told(&self, clock: &dyn Clock, boot_id: &str) -> Ended {
        Ended { ended_ago_ms: Some(self.age(clock, boot_id)), ..self.ended.clone() }
    }

    fn age(&self, clock: &dyn Clock, boot_id: &str) -> Ms {
        let ago = if self.boot_id == boot_id { clock.elapsed() - self.elapsed } else { clock.now().since(self.at) };
        ago.max(0)
    }
}

/// All end records of a state folder, in memory as on disk.
#[derive(Debug, Default)]
pub(crate) struct Records {
    all: BTreeMap<(Id, i64), Record>,
}

impl Records {
    /// Reads all records. One that is damaged is set aside, and an end without details takes its place, since its name
    /// still says which engine is gone; `damaged` gets a sentence about each.
    ///
    /// # Errors
    /// When the folder cannot be read, or a damaged record cannot be set aside.
    pub(crate) fn load(dir: &StateDir, clock: &dyn Clock, damaged: &mut Vec<String>) -> io::Result<Self> {
        let mut records = Self::default();
        for entry in fs::read_dir(dir.ended())? {
            let path = entry?.path();
            let Some(key) = key_of(&path) else {
                // What was being written when the runner died is no record yet.
                if path.extension().is_some_and(|extension| extension == "new") {
                    fs::remove_file(&path)?;
                } else {
                    damaged.push(dir.quarantine(&path, "its name is none of a record", clock.now())?);
                }
                continue;
            };
            let record = read(&path, &key).or_else(|why| replace(dir, &path, &key, (&why, clock), damaged))?;
            records.all.insert(key, record);
        }
        records.drop_expired(dir, clock);
        Ok(records)
    }

    /// Takes in a record that is on disk by now.
    pub(crate) fn insert(&mut self, record: Record) {
        self.all.insert((record.ended.session_id.clone(), record.ended.generation), record);
    }

    /// Returns the record of exactly this engine.
    #[must_use]
    pub(crate) fn get(&self, id: &Id, generation: i64) -> Option<&Record> {
        self.all.get(&(id.clone(), generation))
    }

    /// Returns the newest record of the session.
    #[must_use]
    pub(crate) fn newest(&self, id: &Id) -> Option<&Record> {
        self.all.range((id.clone(), i64::MIN)..=(id.clone(), i64::MAX)).next_back().map(|(_, record)| record)
    }

    /// Returns what the worker has not taken note of, with its age.
    #[must_use]
    pub(crate) fn listed(&self, clock: &dyn Clock, boot_id: &str) -> Vec<Ended> {
        let fresh = |record: &&Record| !record.forgotten && record.age(clock, boot_id) <= KEPT_FOR;
        self.all.values().filter(fresh).map(|record| record.told(clock, boot_id)).collect()
    }

    fn drop_expired(&mut self, dir: &StateDir, clock: &dyn Clock) {
        let boot_id = process::boot_id().unwrap_or_default();
        self.all.retain(|(id, generation), record| {
            record.age(clock, &boot_id) <= KEPT_FOR || fs::remove_file(path_of(dir, id, *generation)).is_err()
        });
    }
}

/// Writes a record to the disk.
///
/// # Errors
/// When it cannot be written; what was there before is still there then.
pub(crate) fn write(dir: &StateDir, record: &Record) -> io::Result<()> {
    files::write_json(&path_of(dir, &record.ended.session_id, record.ended.generation), record)
}

fn path_of(dir: &StateDir, id: &Id, generation: i64) -> PathBuf {
    dir.ended().join(format!("{id}.{generation}.json"))
}

fn key_of(path: &Path) -> Option<(Id, i64)> {
    let (id, generation) = path.file_name()?.to_str()?.strip_suffix(".json")?.split_once('.')?;
    Some((id.parse().ok()?, generation.parse().ok()?))
}

fn read(path: &Path, key: &(Id, i64)) -> Result<Record, String> {
    let record: Record = files::read_json(path).map_err(|error| error.to_string())?.ok_or("it is gone")?;
    if (&record.ended.session_id, record.ended.generation) != (&key.0, key.1) {
        return Err("it speaks of another engine than its name".to_owned());
    }
    Ok(record)
}

fn replace(
    dir: &StateDir,
    path: &Path,
    (id, generation): &(Id, i64),
    (why, clock): (&str, &dyn Clock),
    damaged: &mut Vec<String>,
) -> io::Result<Record> {
    let sentence = dir.quarantine(path, why, clock.now())?;
    let ended = Ended { detail: Some(sentence.clone()), ..blank(id.clone(), *generation, "exited") };
    damaged.push(sentence);
    let record = Record::now(ended, clock);
    write(dir, &record)?;
    Ok(record)
}

/// Makes an end of which nothing is known but its reason.
#[must_use]
pub(crate) fn blank(session_id: Id, generation: i64, reason: &str) -> Ended {
    Ended {
        session_id,
        generation,
        reason: reason.to_owned(),
        sweep_id: None,
        ended_ago_ms: None,
        exit: None,
        stages: Vec::new(),
        freed_bytes: None,
        not_freed: Vec::new(),
        resume: None,
        detail: None,
        containment: None,
    }
}
