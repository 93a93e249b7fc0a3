//! The end of an engine: from the proof that nothing of it is left to the record that says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::protocol::{Ended, EngineExit, StopStage};
use crate::runner::attend::{Attendant, Parting};
use crate::runner::engine::{Ending, Engine, Errand};
use crate::runner::records::{self, Of, Record};
use crate::runner::shim::cgroup::Leaf;
use crate::runner::shim::wire::{Containment, Gone, HELD, Held, OUT};
use crate::runner::{Runner, files, output, survivors};
use crate::session::Id;

/// How often a record that cannot be written is tried again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// How many times a killed shim's remains are looked for before they are called stuck.
const ROUNDS: u32 = 250;

impl Runner {
    /// Follows the engine until nothing of it is left and its end is recorded.
    pub(crate) async fn follow(self, session: Arc<Engine>, attendant: Attendant, errands: mpsc::Receiver<Errand>) {
        let gone = match attendant.attend(errands).await {
            Parting::Gone(gone) => Some(gone),
            Parting::ShimDied => None,
            Parting::RunnerLeft => return,
        };
        self.conclude(&session, gone).await;
    }

    /// Records the end of an engine of which nothing is left, and lets it go.
    ///
    /// `gone` is the kernel's proof as the shim brought it. Without it, what carries the engine's marks is killed first,
    /// and the engine stays tracked until none of that is left. It stays tracked as well until its record is on disk.
    pub(crate) async fn conclude(&self, session: &Arc<Engine>, gone: Option<Gone>) -> Ended {
        let without_proof = gone.is_none();
        {
            let mut facts = session.facts();
            let detail = without_proof.then(|| "the shim that held the engine died".to_owned());
            session.begin_end(&mut facts, Ending { reason: "exited".to_owned(), detail, ..Ending::default() });
        }
        session.closing.cancel();
        if without_proof {
            self.free(session).await;
        }
        self.record_end(session, gone).await
    }

    /// Records the end of an engine that the machine's own end took along.
    ///
    /// What must be true: the engine was started in another boot of the machine, so none of its processes can be left.
    pub(crate) async fn conclude_rebooted(&self, session: &Arc<Engine>) {
        session.closing.cancel();
        self.record_end(session, None).await;
    }

    /// Writes down the end of an engine, and lets it go. What an earlier life had written down about it stays as it is.
    ///
    /// What must be true: nothing of it is left.
    async fn record_end(&self, session: &Arc<Engine>, gone: Option<Gone>) -> Ended {
        let folder = self.dir().session(&session.id);
        let generation = session.facts().generation;
        let known = self.known().records.get(&session.id, generation).cloned();
        let record = match known {
            Some(record) => record,
            None => self.record_anew(session, gone, folder.clone()).await,
        };
        // While the engine is still held, so that no successor's folder is there yet.
        let (runner, id) = (self.clone(), session.id.clone());
        let clearing = files::aside(move || runner.clear_folder(&folder, &id, generation)).await;
        if let Err(error) = clearing {
            tracing::warn!(session_id = %session.id, %error, "the folder of an ended session cannot be cleared");
        }
        self.let_rest(session, record.clone());
        self.drop_expired().await;
        record.ended
    }

    async fn record_anew(&self, session: &Arc<Engine>, gone: Option<Gone>, folder: PathBuf) -> Record {
        let complaints = files::aside(move || Ok(output::complaints(&folder))).await.unwrap_or_default();
        let record = Record::now(ended(session, gone, complaints), of(session), &*self.settings().clock);
        self.keep(session, &record).await;
        record
    }

    /// Moves what an engine had written to where it is kept, and removes the rest of its folder.
    ///
    /// What must be true: the end of the engine is on disk.
    pub(crate) fn clear_folder(&self, folder: &Path, id: &Id, generation: i64) -> std::io::Result<()> {
        match std::fs::rename(folder.join(OUT), self.dir().output(id, generation)) {
            // The folder stays, and with it what the engine wrote; the next start tries it again.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            // It never wrote anything.
            Ok(()) | Err(_) => {}
        }
        std::fs::remove_dir_all(folder)
    }

    /// Lists the engine among the ended instead of the living, and tells those who wait for its end.
    ///
    /// What must be true: nothing of it is left, and the record that says so is on disk.
    pub(crate) fn let_rest(&self, session: &Engine, record: Record) {
        let ended = record.ended.clone();
        {
            let mut known = self.known();
            known.records.insert(record);
            known.sessions.remove(&session.id);
        }
        session.is_gone(ended);
    }

    /// Removes the records and outputs that are too old to be kept, each from the disk first.
    pub(crate) async fn drop_expired(&self) {
        let expired = self.known().records.expired(&*self.settings().clock, &self.shared.boot_id);
        let runner = self.clone();
        let removed = files::aside(move || {
            records::clear_outputs(runner.dir(), |id, generation| runner.keeps_output(id, generation))?;
            Ok(records::remove(runner.dir(), expired))
        });
        match removed.await {
            Ok(removed) => self.known().records.drop_all(&removed),
            Err(error) => tracing::warn!(%error, "what is too old cannot be removed"),
        }
    }

    /// Returns whether what an engine had written is kept: for its time, and while its end is still being recorded.
    fn keeps_output(&self, id: &Id, generation: i64) -> bool {
        let (settings, known) = (self.settings(), self.known());
        let age = known.records.get(id, generation).map(|it| it.age(&*settings.clock, &self.shared.boot_id));
        known.sessions.contains_key(id) || age.is_some_and(|age| age < settings.output_kept)
    }

    /// Kills what carries the engine's marks, until none of it is left.
    ///
    /// What must be true: the shim that held the engine is gone, and left no proof of its own. Killed is only what
    /// carries both this folder's mark and this session's id, or is in the control group that this very shim made for the
    /// engine alone in this boot. It returns only once the kernel showed every process and none of them is one: a look
    /// that failed is repeated, for ever if need be.
    pub(crate) async fn free(&self, session: &Engine) {
        let leaf = self.leaf(session).await;
        loop {
            if let Some(leaf) = &leaf {
                leaf.kill();
            }
            let left = survivors::free(&self.dir().mark, &session.id, ROUNDS).await;
            if left.is_empty() && leaf.as_ref().is_none_or(Leaf::is_empty) {
                return leaf.as_ref().map_or((), Leaf::remove);
            }
            tracing::warn!(session_id = %session.id, left = ?left, "what a killed shim left cannot be killed");
            session.facts().stuck = left;
        }
    }

    /// Returns the control group that the shim made for this engine, if it wrote one down in this boot.
    async fn leaf(&self, session: &Engine) -> Option<Leaf> {
        let held = self.dir().session(&session.id).join(HELD);
        let held = files::aside(move || files::read_json::<Held>(&held)).await.ok().flatten()?;
        let folder = held.cgroup.filter(|_| held.boot_id == self.shared.boot_id)?;
        Leaf::known(folder, session.id.as_str())
    }

    /// Writes the record to the disk, however long that takes: until then the engine's end is not told.
    pub(crate) async fn keep(&self, session: &Engine, record: &Record) {
        loop {
            let (runner, writing) = (self.clone(), record.clone());
            let Err(error) = files::aside(move || records::write(runner.dir(), &writing)).await else { return };
            tracing::error!(session_id = %session.id, %error, "an end record cannot be written; trying again");
            session.facts().trouble = Some(format!("it is gone, but its end cannot be written down: {error}"));
            tokio::time::sleep(WRITE_AGAIN).await;
        }
    }
}

fn of(session: &Engine) -> Of {
    let engine_session_id = session.facts().engine_session_id.clone();
    Of { owner_id: session.owner_id.clone(), engine_session_id, start: Some(session.start) }
}

fn ended(session: &Engine, gone: Option<Gone>, complaints: String) -> Ended {
    let facts = session.facts();
    let ending = facts.ending.clone().unwrap_or_default();
    let containment = gone.as_ref().map_or(Containment::BestEffort, |gone| gone.containment);
    let exit = gone.as_ref().and_then(|gone| gone.exit.clone()).or(facts.exit.clone());
    let (taken, left_behind) = gone.map_or_else(Default::default, |gone| (gone.stages, gone.left_behind));
    let tells = matches!(ending.reason.as_str(), "start_failed" | "exited");
    let sentences = [
        ending.detail,
        exit.as_ref().filter(|_| tells).map(described),
        (tells && !left_behind.is_empty()).then(|| format!("left behind and ended: {}", left_behind.join(", "))),
        (tells && !complaints.is_empty()).then_some(complaints),
    ];
    let detail: Vec<String> = sentences.into_iter().flatten().collect();
    let resume = facts.adapter.resume(&session.spec, facts.engine_session_id.as_deref(), &session.cwd);
    Ended {
        sweep_id: ending.sweep_id,
        exit,
        stages: stages(taken, ending.asked),
        freed_bytes: ending.freed_bytes,
        resume,
        engine_session_id: facts.engine_session_id.clone(),
        detail: (!detail.is_empty()).then(|| detail.join("; ")),
        containment: Some(containment.to_string()),
        ..records::blank(session.id.clone(), facts.generation, &ending.reason)
    }
}

/// Completes the steps: an engine that leaves as soon as its input is closed may be gone before its shim heard of a stop.
fn stages(mut told: Vec<StopStage>, asked: bool) -> Vec<StopStage> {
    let begins = |first: &StopStage| ["interrupted", "stdin_closed"].contains(&first.stage.as_str());
    if asked && !told.first().is_some_and(begins) {
        told.insert(0, StopStage { stage: "stdin_closed".to_owned(), at_ms: 0 });
    }
    told
}

fn described(exit: &EngineExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("the engine left with exit code {code}"),
        (None, Some(signal)) => format!("the engine was ended by signal {signal}"),
        (None, None) => "how the engine left is not known".to_owned(),
    }
}
