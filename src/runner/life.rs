//! Following one engine from its start to the record of its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::protocol::{Ended, EngineExit, StopStage};
use crate::runner::engine::{Ending, Engine};
use crate::runner::link::Link;
use crate::runner::pump::{self, Outgoing};
use crate::runner::records::{self, Record};
use crate::runner::shim::wire::{Gone, News};
use crate::runner::{Runner, files, survivors};

/// How often a record that cannot be written is tried again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// How many times a killed shim's remains are looked for before they are called stuck.
const ROUNDS: u32 = 250;

impl Runner {
    /// Follows the engine until nothing of it is left and its end is recorded.
    pub(crate) async fn follow(self, session: Arc<Engine>, mut link: Link, outgoing: mpsc::Receiver<Outgoing>) {
        let mut pumps = JoinSet::new();
        if let Some(stdin) = link.shim.stdin.take() {
            pumps.spawn(pump::write(Arc::clone(&session), stdin, outgoing));
        }
        if let Some(stdout) = link.shim.stdout.take() {
            pumps.spawn(pump::read(Arc::clone(&session), stdout, Arc::clone(&self.settings().clock)));
        }
        if let Some(stderr) = link.shim.stderr.take() {
            pumps.spawn(pump::read_errors(Arc::clone(&session), stderr, Arc::clone(&self.settings().clock)));
        }
        let gone = self.listen(&session, &mut link).await;
        session.closing.cancel();
        // Nobody holds the pipes any more, but for processes that were handed them from elsewhere.
        let _ = tokio::time::timeout(Duration::from_millis(200), async { while pumps.join_next().await.is_some() {} })
            .await;
        pumps.abort_all();
        let _ = tokio::time::timeout(WRITE_AGAIN, link.shim.wait()).await;
        self.conclude(&session, gone).await;
    }

    /// Hears the shim's news until everything is gone; none when the shim itself died first.
    async fn listen(&self, session: &Arc<Engine>, link: &mut Link) -> Option<Gone> {
        let mut told = false;
        loop {
            let news = tokio::select! {
                () = session.closing.cancelled(), if !told => {
                    told = true;
                    link.stop().await;
                    continue;
                }
                news = link.news() => news,
            };
            match news {
                Some(News::EngineExited { exit }) => left(session, exit),
                Some(News::Stuck { left }) => {
                    tracing::warn!(session_id = %session.id, left = ?left, "an engine cannot be killed");
                    session.facts().stuck = left;
                }
                Some(News::Gone(gone)) => return Some(gone),
                Some(_) => {}
                None => return None,
            }
        }
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
        let record = Record::now(self.ended(session, gone), session.owner_id.clone(), &*self.settings().clock);
        self.keep(&record).await;
        // While the engine is still held, so that no successor's folder is there yet.
        let folder = self.dir().session(&session.id);
        let removing = folder.clone();
        if let Err(error) = files::aside(move || std::fs::remove_dir_all(removing)).await {
            tracing::warn!(folder = %folder.display(), %error, "the folder of an ended session cannot be removed");
        }
        self.let_rest(session, record.clone());
        self.drop_expired().await;
        record.ended
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

    /// Removes the records that are too old to be kept, each from the disk first.
    pub(crate) async fn drop_expired(&self) {
        let expired = self.known().records.expired(&*self.settings().clock, &self.shared.boot_id);
        if expired.is_empty() {
            return;
        }
        let runner = self.clone();
        let removed = files::aside(move || Ok(records::remove(runner.dir(), expired))).await.unwrap_or_default();
        self.known().records.drop_all(&removed);
    }

    /// Kills what carries the engine's marks, until none of it is left.
    ///
    /// What must be true: the shim that held the engine is gone, and left no proof of its own. Killed is only what
    /// carries both this folder's mark and this session's id, and it returns only once the kernel showed every process
    /// and none of them is one: a look that failed is repeated, for ever if need be.
    pub(crate) async fn free(&self, session: &Engine) {
        loop {
            let left = survivors::free(&self.dir().mark, &session.id, ROUNDS).await;
            if left.is_empty() {
                return;
            }
            tracing::warn!(session_id = %session.id, left = ?left, "what a killed shim left cannot be killed");
            session.facts().stuck = left;
        }
    }

    /// Writes the record to the disk, however long that takes: until then the engine's end is not told.
    pub(crate) async fn keep(&self, record: &Record) {
        loop {
            let (runner, writing) = (self.clone(), record.clone());
            let written = tokio::task::spawn_blocking(move || records::write(runner.dir(), &writing)).await;
            match written {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::error!(%error, "an end record cannot be written; trying again"),
                Err(error) => tracing::error!(%error, "an end record cannot be written; trying again"),
            }
            tokio::time::sleep(WRITE_AGAIN).await;
        }
    }

    fn ended(&self, session: &Engine, gone: Option<Gone>) -> Ended {
        let complaints = session.complaints();
        let facts = session.facts();
        let ending = facts.ending.clone().unwrap_or_default();
        let containment = if gone.is_some() || facts.shim.is_none() { "subreaper" } else { "best_effort" };
        let gone = gone.unwrap_or_default();
        let exit = gone.exit.or(facts.exit.clone());
        let tells = matches!(ending.reason.as_str(), "start_failed" | "exited");
        let sentences = [
            ending.detail,
            exit.as_ref().filter(|_| tells).map(described),
            (tells && !gone.left_behind.is_empty())
                .then(|| format!("left behind and ended: {}", gone.left_behind.join(", "))),
            (tells && !complaints.is_empty()).then_some(complaints),
        ];
        let detail: Vec<String> = sentences.into_iter().flatten().collect();
        let resume = facts.adapter.resume(&session.spec, facts.engine_session_id.as_deref(), &session.cwd);
        Ended {
            sweep_id: ending.sweep_id,
            exit,
            stages: stages(gone.stages, ending.asked),
            freed_bytes: ending.freed_bytes,
            resume,
            detail: (!detail.is_empty()).then(|| detail.join("; ")),
            containment: Some(containment.to_owned()),
            ..records::blank(session.id.clone(), facts.generation, &ending.reason)
        }
    }
}

/// Completes the steps: an engine that leaves as soon as its input is closed may be gone before its shim heard of a stop.
fn stages(mut told: Vec<StopStage>, asked: bool) -> Vec<StopStage> {
    const FIRST: &str = "stdin_closed";
    if asked && told.first().is_none_or(|stage| stage.stage != FIRST) {
        told.insert(0, StopStage { stage: FIRST.to_owned(), at_ms: 0 });
    }
    told
}

/// Takes note that the engine's own process is gone. What it left behind may linger, unless it never got to work.
///
/// What must be true: the shim has waited for that process, so it is gone. Nobody has to be asked about the rest: only
/// what an engine leaves behind that never started is stopped at once, and the shim sees to the other in its own time.
fn left(session: &Engine, exit: EngineExit) {
    let mut facts = session.facts();
    facts.exit = Some(exit);
    let reason = if facts.settled { "exited" } else { "start_failed" };
    let began = session.begin_end(&mut facts, Ending { reason: reason.to_owned(), ..Ending::default() });
    let at_once = began && !facts.settled;
    drop(facts);
    if at_once {
        session.closing.cancel();
    }
}

fn described(exit: &EngineExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("the engine left with exit code {code}"),
        (None, Some(signal)) => format!("the engine was ended by signal {signal}"),
        (None, None) => "how the engine left is not known".to_owned(),
    }
}
