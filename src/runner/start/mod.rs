//! `POST /coding/start`: one engine per session, however many ask at once.

mod check;
mod spec;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;

use crate::protocol::{Ended, FailureOutcome, SessionAnswer, StartRequest};
use crate::runner::attend::Attendant;
use crate::runner::engine::{Ending, Engine, Plan};
use crate::runner::engines::{AdapterKind, Opening, adapter};
use crate::runner::intents::{self, StartIntent};
use crate::runner::link::{Link, NotStarted};
use crate::runner::refusal::Refusal;
use crate::runner::settings::EngineSpec;
use crate::runner::start::check::{check, check_conversation, check_owner};
use crate::runner::verbs::KEPT_WITHIN;
use crate::runner::{Runner, files};
use crate::session::Id;

/// How long a start waits for an engine that has to be greeted; less than a client waits for an answer.
const READY_WITHIN: Duration = Duration::from_secs(8);

impl Runner {
    /// Makes sure that the session has an engine of this generation, and returns how it stands.
    pub(crate) async fn start(&self, mut request: StartRequest) -> Result<SessionAnswer, Refusal> {
        check(&request)?;
        request.owner_id = request.owner_id.or_else(|| self.settings().owner.clone());
        let spec = self.engine(&request)?;
        let gate = self.gate(&request.session_id);
        let _alone = gate.lock().await;
        if self.shared.leaving.is_cancelled() {
            return Err(Refusal::not_ready("the runner is being stopped"));
        }
        check_owner(&self.known(), &request)?;
        if let Some(session) = self.session(&request.session_id)
            && let Some(answer) = self.join(&session, &request).await?
        {
            return Ok(answer);
        }
        let highest = self.known().records.newest(&request.session_id).map(|record| record.ended.generation);
        if let Some(highest) = highest.filter(|highest| request.generation <= *highest) {
            return Err(Refusal::generation(&request.session_id, request.generation, highest));
        }
        check_conversation(&request, &spec)?;
        self.launch(request, spec).await
    }

    fn gate(&self, id: &Id) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.shared.gates.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One that nobody holds is not needed any more.
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(id.clone()).or_default())
    }

    fn engine(&self, request: &StartRequest) -> Result<EngineSpec, Refusal> {
        let known = self.settings().engines.get(&request.engine).filter(|spec| spec.is_here());
        known.cloned().ok_or_else(|| {
            let names = self.settings().engines_here();
            let message = match self.settings().engines.get(&request.engine).and_then(|spec| spec.command.first()) {
                Some(program) => format!(
                    "the program {program:?} of the engine {:?} is not found on the runner's machine; it has {}",
                    request.engine,
                    listed(&names)
                ),
                None => format!(
                    "this runner has no engine {:?}, or did not when it was started; it has {}",
                    request.engine,
                    listed(&names)
                ),
            };
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, FailureOutcome::UnknownEngine, message);
            Refusal { engines: names, ..refusal.about(&request.session_id, request.generation) }
        })
    }

    /// Answers for an engine that is there; none when it has just gone and another may be started.
    async fn join(&self, session: &Arc<Engine>, request: &StartRequest) -> Result<Option<SessionAnswer>, Refusal> {
        session.started().await;
        let _alone = session.change.lock().await;
        let (generation, ending) = {
            let facts = session.facts();
            (facts.generation, facts.ending.is_some())
        };
        let (id, asked) = (&request.session_id, request.generation);
        if asked < generation || (ending && asked == generation) {
            return Err(Refusal::generation(id, asked, generation));
        }
        if !ending && self.adopt(session, request, generation).await? {
            return Ok(Some(self.answer(session, asked)));
        }
        if tokio::time::timeout(self.stop_most(session), session.gone()).await.is_err() {
            return Err(Refusal::busy(id, asked, format!("the earlier engine of the session {id} is not gone yet")));
        }
        Ok(None)
    }

    /// Lets the living engine be known under the generation asked for; false when it began to end meanwhile.
    async fn adopt(&self, session: &Engine, request: &StartRequest, current: i64) -> Result<bool, Refusal> {
        let folder = self.dir().session(&session.id);
        let failed = |error| Refusal::internal(format!("the start could not be written down: {error}"));
        if request.generation > current {
            let named = (session.engine_name.as_str(), session.spec.adapter);
            let intent = StartIntent {
                engine_session_id: session.facts().engine_session_id.clone(),
                start: Some(session.start),
                ..self.intent(named, &session.cwd, request.owner_id.clone())
            };
            let (folder, generation) = (folder.clone(), request.generation);
            files::aside(move || intents::write_start(&folder, generation, &intent)).await.map_err(failed)?;
        }
        let alive = {
            let mut facts = session.facts();
            let alive = facts.ending.is_none();
            if alive {
                facts.generation = request.generation;
                facts.doings.touch(self.settings().clock.awake());
            }
            alive
        };
        if request.generation > current {
            let obsolete = if alive { current } else { request.generation };
            files::aside(move || intents::remove_start(&folder, obsolete)).await.map_err(failed)?;
        }
        // That it was used is to outlive this process, as with a touch.
        let _ = tokio::time::timeout(KEPT_WITHIN, session.keep()).await;
        Ok(alive)
    }

    fn intent(&self, (engine, adapter): (&str, AdapterKind), cwd: &str, owner_id: Option<String>) -> StartIntent {
        let clock = &self.settings().clock;
        StartIntent {
            engine: engine.to_owned(),
            cwd: cwd.to_owned(),
            owner_id,
            adapter,
            engine_session_id: None,
            start: None,
            boot_id: self.shared.boot_id.clone(),
            awake: clock.awake(),
            at: clock.now(),
        }
    }

    fn answer(&self, session: &Engine, generation: i64) -> SessionAnswer {
        let tracked = session.tracked(self.settings().clock.awake(), self.settings().stall_after);
        SessionAnswer { session: Some(tracked), ..self.plain_answer(&session.id, generation) }
    }

    async fn launch(&self, request: StartRequest, spec: EngineSpec) -> Result<SessionAnswer, Refusal> {
        let adapter = adapter(spec.adapter);
        let opening = Opening { cwd: request.cwd.clone(), engine_session_id: request.engine_session_id.clone() };
        let shim = self.shim_spec(&request, &spec, (&*adapter, &opening));
        let folder = self.write_down(&request, spec.adapter).await?;
        let (name, owner_id) = (request.engine.clone(), request.owner_id.clone());
        let plan = Plan { start: request.generation, name, adapter, spec, cwd: request.cwd.clone(), owner_id };
        let now = self.settings().clock.awake();
        let (session, errands) = Engine::starting(request.session_id.clone(), request.generation, plan, now);
        session.facts().engine_session_id.clone_from(&request.engine_session_id);
        self.hold(&session, &request).await?;
        let is_folder = tokio::fs::metadata(&request.cwd).await.is_ok_and(|it| it.is_dir());
        let linked = if is_folder {
            Link::start(&self.settings().shim, &folder, shim).await
        } else {
            Err(NotStarted::For(format!("there is no folder {:?}", request.cwd)))
        };
        let mut attendant = Attendant::new(self.clone(), Arc::clone(&session));
        match linked {
            Ok((link, started)) => {
                session.runs(started.engine, started.shim, started.containment);
                attendant.begin(link, &opening).await;
                self.shared.tasks.spawn(self.clone().follow(Arc::clone(&session), attendant, errands));
                self.settle(session, request.generation).await
            }
            Err(NotStarted::For(why)) => {
                give_up(&session, why);
                Err(self.start_failed(&self.conclude(&session, None).await))
            }
            Err(NotStarted::Unknown(why)) => {
                give_up(&session, why);
                session.closing.cancel();
                self.shared.tasks.spawn(self.clone().follow(Arc::clone(&session), attendant, errands));
                self.settle(session, request.generation).await
            }
        }
    }

    /// Writes down, in a folder without traces of an earlier engine, that this one is about to be started.
    async fn write_down(&self, request: &StartRequest, adapter: AdapterKind) -> Result<PathBuf, Refusal> {
        let folder = self.dir().session(&request.session_id);
        let intent = StartIntent {
            engine_session_id: request.engine_session_id.clone(),
            start: Some(request.generation),
            ..self.intent((&request.engine, adapter), &request.cwd, request.owner_id.clone())
        };
        let (writing, generation) = (folder.clone(), request.generation);
        files::aside(move || fresh(&writing).and_then(|()| intents::write_start(&writing, generation, &intent)))
            .await
            .map_err(|error| Refusal::internal(format!("the start could not be written down: {error}")))?;
        Ok(folder)
    }

    /// Holds the engine from here on, unless another one that may not be beside it came first meanwhile.
    async fn hold(&self, session: &Arc<Engine>, request: &StartRequest) -> Result<(), Refusal> {
        let held = {
            let mut known = self.known();
            let held = check_owner(&known, request);
            if held.is_ok() {
                known.sessions.insert(session.id.clone(), Arc::clone(session));
            }
            held
        };
        if held.is_err() {
            let folder = self.dir().session(&session.id);
            if let Err(error) = files::aside(move || fresh(&folder)).await {
                tracing::warn!(session_id = %session.id, %error, "a start that was refused cannot be taken back");
            }
        }
        held
    }

    /// Waits until the engine can take messages and has lived for a moment: one that leaves before never started.
    async fn settle(&self, session: Arc<Engine>, generation: i64) -> Result<SessionAnswer, Refusal> {
        let moment = Duration::from_millis(u64::try_from(self.settings().start_settle).unwrap_or(0));
        let lived = tokio::time::timeout(moment, session.ends()).await;
        if lived.is_err() {
            let _ = tokio::time::timeout(READY_WITHIN, session.can_be_told()).await;
        }
        let ending = {
            let mut facts = session.facts();
            facts.settled = true;
            facts.ending.clone()
        };
        match ending {
            Some(ending) if ending.reason == "start_failed" => {
                match tokio::time::timeout(self.stop_most(&session), session.gone()).await {
                    Ok(Some(ended)) => Err(self.start_failed(&ended)),
                    Ok(None) => Err(Refusal::internal("the engine's end was lost")),
                    Err(_) => {
                        let message =
                            "the engine did not start, and it is not known yet whether something is left of it";
                        Err(Refusal::busy(&session.id, generation, message))
                    }
                }
            }
            Some(ending) => Err(Refusal::ended(&session.id, generation, &ending.reason)),
            None => Ok(self.answer(&session, generation)),
        }
    }

    fn start_failed(&self, ended: &Ended) -> Refusal {
        let why = ended.detail.as_deref().unwrap_or("no reason is known");
        let message = format!("the engine did not start: {why}");
        let refusal = Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, FailureOutcome::StartFailed, message);
        Refusal { reason: Some(ended.reason.clone()), ..refusal.about(&ended.session_id, ended.generation) }
    }
}

fn give_up(session: &Engine, why: String) {
    let ending = Ending { reason: "start_failed".to_owned(), detail: Some(why), ..Ending::default() };
    session.begin_end(&mut session.facts(), ending);
}

/// Removes what an earlier engine left in its folder: its end must never be taken for this one's.
fn fresh(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
