//! End records on disk: one file per session and generation, written once nothing of the engine is left.
//!
//! A record is listed until the worker says that it has taken note; after that it stays as a reminder of the highest
//! ended generation, for as long as a record would.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::protocol::Ended;
use crate::runner::engine::is_for;
use crate::runner::files;
use crate::runner::process;
use crate::runner::state_dir::StateDir;
use crate::session::Id;
use crate::time::{HOUR, Ms, UtcMs};

/// How long a record is kept at most.
pub(crate) const KEPT_FOR: Ms = 90 * 24 * HOUR;
/// How many records one answer lists at most.
const LISTED_MOST: usize = 1_000;
/// How many bytes they may have as JSON; a client takes an answer of 8 MiB, and the engines need room as well.
const LISTED_BYTES_MOST: usize = 2 * 1024 * 1024;
/// How many bytes the text for people in a record may have.
const DETAIL_MOST: usize = 4 * 1024;

/// Which engine a record is of: its session, and which start of it.
pub(crate) type Key = (Id, i64);

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
    /// On whose behalf the engine ran.
    #[serde(default)]
    pub(crate) owner_id: Option<String>,
    /// The engine's own id of its conversation.
    #[serde(default)]
    pub(crate) engine_session_id: Option<String>,
    /// Under which generation it was launched; none where that is the one under which it ended.
    #[serde(default)]
    pub(crate) start: Option<i64>,
}

/// Whose engine it was, which conversation it held, and how it began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Of {
    /// On whose behalf it ran.
    pub(crate) owner_id: Option<String>,
    /// Its own id of the conversation.
    pub(crate) engine_session_id: Option<String>,
    /// Under which generation it was launched.
    pub(crate) start: Option<i64>,
}

impl Record {
    /// Makes the record of an end that was proven just now.
    #[must_use]
    pub(crate) fn now(ended: Ended, of: Of, clock: &dyn Clock) -> Self {
        let boot_id = process::boot_id().unwrap_or_default();
        let ended = Ended { detail: ended.detail.map(cut), ..ended };
        let Of { owner_id, engine_session_id, start } = of;
        let (at, elapsed) = (clock.now(), clock.elapsed());
        Self { ended, at, elapsed, boot_id, forgotten: false, owner_id, engine_session_id, start }
    }

    /// Returns what the worker is told, with its age.
    #[must_use]
    pub(crate) fn told(&self, clock: &dyn Clock, boot_id: &str) -> Ended {
        Ended { ended_ago_ms: Some(self.age(clock, boot_id)), ..self.ended.clone() }
    }

    /// Returns under which generation its engine was launched: what the cursors of its output name.
    #[must_use]
    pub(crate) fn start(&self) -> i64 {
        self.start.unwrap_or(self.ended.generation)
    }

    /// Returns how long ago it ended.
    pub(crate) fn age(&self, clock: &dyn Clock, boot_id: &str) -> Ms {
        let ago = if self.boot_id == boot_id { clock.elapsed() - self.elapsed } else { clock.now().since(self.at) };
        ago.max(0)
    }
}

/// All end records of a state folder, in memory as on disk.
#[derive(Debug, Default)]
pub(crate) struct Records {
    all: BTreeMap<Key, Record>,
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
        let expired = records.expired(clock, &process::boot_id().unwrap_or_default());
        records.drop_all(&remove(dir, expired));
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

    /// Returns what the worker has not taken note of, with its age, the oldest first: as much of it as one answer holds.
    /// The others follow when it has taken note of these.
    #[must_use]
    pub(crate) fn listed(&self, clock: &dyn Clock, boot_id: &str, owner: Option<&str>) -> Vec<Ended> {
        let mine = |record: &&Record| is_for(owner, record.owner_id.as_deref()) && !record.forgotten;
        let aged = self.all.values().filter(mine).map(|it| (it.age(clock, boot_id), it));
        let mut fresh: Vec<_> = aged.filter(|(age, _)| *age <= KEPT_FOR).collect();
        fresh.sort_by_key(|(age, _)| Reverse(*age));
        let mut bytes = 0;
        let told = fresh.into_iter().take(LISTED_MOST).map(|(_, record)| record.told(clock, boot_id));
        told.take_while(|ended| {
            let first = bytes == 0;
            bytes += serde_json::to_vec(ended).map_or(0, |json| json.len());
            first || bytes <= LISTED_BYTES_MOST
        })
        .collect()
    }

    /// Returns the records of the engines that held this conversation, or said so.
    pub(crate) fn of_conversation(&self, engine_session_id: &str) -> impl Iterator<Item = &Record> {
        self.all.values().filter(move |it| it.engine_session_id.as_deref() == Some(engine_session_id))
    }

    /// Gives the records from before there were owners to `owner`; returns those that changed.
    pub(crate) fn adopt(&mut self, owner: &str) -> Vec<Record> {
        let legacy = self.all.values_mut().filter(|record| record.owner_id.is_none());
        let given = legacy.map(|record| {
            record.owner_id = Some(owner.to_owned());
            record.clone()
        });
        given.collect()
    }

    /// Returns the records that are too old to be kept.
    #[must_use]
    pub(crate) fn expired(&self, clock: &dyn Clock, boot_id: &str) -> Vec<Key> {
        let expired = self.all.iter().filter(|(_, record)| record.age(clock, boot_id) > KEPT_FOR);
        expired.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets records that are on the disk no more.
    pub(crate) fn drop_all(&mut self, removed: &[Key]) {
        for key in removed {
            self.all.remove(key);
        }
    }
}

/// Removes records from the disk, and returns those that are not there any more.
#[must_use]
pub(crate) fn remove(dir: &StateDir, mut keys: Vec<Key>) -> Vec<Key> {
    keys.retain(|(id, generation)| files::remove(&path_of(dir, id, *generation)).is_ok());
    keys
}

/// Removes what ended engines had written, but for what `keep` names.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn clear_outputs(dir: &StateDir, keep: impl Fn(&Id, i64) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir.outputs())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
        let key = name.and_then(|(id, generation)| Some((id.parse().ok()?, generation.parse().ok()?)));
        if !key.is_some_and(|(id, generation)| keep(&id, generation)) {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

/// Cuts a text for people at a length that any answer can hold.
fn cut(mut detail: String) -> String {
    if detail.len() > DETAIL_MOST {
        detail.truncate(detail.floor_char_boundary(DETAIL_MOST));
        detail.push('…');
    }
    detail
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

fn key_of(path: &Path) -> Option<Key> {
    let (id, generation) = path.file_name()?.to_str()?.strip_suffix(".json")?.split_once('.')?;
    Some((id.parse().ok()?, generation.parse().ok()?))
}

fn read(path: &Path, key: &Key) -> Result<Record, String> {
    let record: Record = files::read_json(path).map_err(|error| error.to_string())?.ok_or("it is gone")?;
    if (&record.ended.session_id, record.ended.generation) != (&key.0, key.1) {
        return Err("it speaks of another engine than its name".to_owned());
    }
    Ok(record)
}

/// Sets a record aside that cannot be read, and puts an end without details in its place.
///
/// What must be true: it lies under the name of a record, and a record is written only once nothing of that engine is
/// left; so whatever it says, that engine is gone. What it said goes to quarantine before anything takes its place.
fn replace(
    dir: &StateDir,
    path: &Path,
    (id, generation): &Key,
    (why, clock): (&str, &dyn Clock),
    damaged: &mut Vec<String>,
) -> io::Result<Record> {
    let sentence = dir.quarantine(path, why, clock.now())?;
    let ended = Ended { detail: Some(sentence.clone()), ..blank(id.clone(), *generation, "exited") };
    damaged.push(sentence);
    let record = Record::now(ended, Of::default(), clock);
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
        engine_session_id: None,
        detail: None,
        containment: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn ended_at(clock: &ManualClock, number: i64, detail: &str) -> Record {
        let id = format!("s{number}").parse().unwrap();
        let ended = Ended { detail: Some(detail.to_owned()), ..blank(id, 1, "exited") };
        Record::now(ended, Of::default(), clock)
    }

    #[test]
    fn one_answer_lists_the_oldest_records_and_never_more_than_it_can_hold() {
        let clock = ManualClock::at(UtcMs(0));
        let boot = process::boot_id().unwrap();
        let mut records = Records::default();
        for number in (0..1_500).rev() {
            clock.advance(1);
            records.insert(ended_at(&clock, number, "short"));
        }
        let listed = records.listed(&clock, &boot, None);
        assert_eq!(listed.len(), 1_000);
        assert_eq!(listed.first().map(|it| it.session_id.to_string()), Some("s1499".to_owned()), "the oldest first");

        // Control characters take six bytes each in JSON.
        let hostile = "\u{1}".repeat(100_000);
        let mut records = Records::default();
        for number in 0..1_500 {
            records.insert(ended_at(&clock, number, &hostile));
        }
        let listed = records.listed(&clock, &boot, None);
        assert!(serde_json::to_vec(&listed).unwrap().len() < LISTED_BYTES_MOST + LISTED_MOST);
        assert!(listed.len() > 50, "{}", listed.len());
    }

    #[test]
    fn a_record_that_does_not_tell_its_start_is_of_the_one_that_it_ended_under() {
        let clock = ManualClock::at(UtcMs(0));
        let of = Of { start: Some(2), ..Of::default() };
        let record = Record::now(blank("s".parse().unwrap(), 3, "exited"), of, &clock);
        let mut json = serde_json::to_value(&record).unwrap();
        let read = |json: &serde_json::Value| serde_json::from_value::<Record>(json.clone()).unwrap().start();
        assert_eq!(read(&json), 2);
        json.as_object_mut().unwrap().remove("start");
        assert_eq!(read(&json), 3);
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        let text = "ä".repeat(DETAIL_MOST);
        let short = cut(format!("x{text}"));
        assert!(short.len() <= DETAIL_MOST + 3 && short.ends_with("ä…"));
        assert_eq!(cut("as it is".to_owned()), "as it is");
    }
}
