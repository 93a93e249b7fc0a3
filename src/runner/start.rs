//! `POST /coding/start`: one engine per session, however many ask at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::mpsc;

use crate::protocol::{Ended, SessionAnswer, StartRequest, variable};
use crate::runner::engine::{Ending, Engine, Plan};
use crate::runner::engines::{Adapter, Opening, adapter};
use crate::runner::intents::{self, StartIntent};
use crate::runner::link::Link;
use crate::runner::pump::Outgoing;
use crate::runner::refusal::Refusal;
use crate::runner::settings::EngineSpec;
use crate::runner::shim::wire::Spec;
use crate::runner::{Known, Runner, files};
use crate::session::Id;

/// The variables that every engine gets from the runner's own environment; nothing else of it reaches an engine.
const PASSED_ON: [&str; 10] =
    ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR"];

impl Runner {
    /// Makes sure that the session has an engine of this generation, and returns how it stands.
    pub(crate) async fn start(&self, request: StartRequest) -> Result<SessionAnswer, Refusal> {
        check(&request)?;
        let spec = self.engine(&request)?;
        let gate = self.gate(&request.session_id);
        let _alone = gate.lock().await;
        if self.is_leaving() {
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
        self.launch(request, spec).await
    }

    fn gate(&self, id: &Id) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.shared.gates.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One that nobody holds is not needed any more.
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(id.clone()).or_default())
    }

    fn engine(&self, request: &StartRequest) -> Result<EngineSpec, Refusal> {
        let engines = &self.settings().engines;
        let known = engines.get(&request.engine).filter(|spec| !spec.command.is_empty());
        known.cloned().ok_or_else(|| {
            let names: Vec<String> = engines.keys().cloned().collect();
            let message = format!("this runner has no engine {:?}; it has {}", request.engine, listed(&names));
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, "unknown_engine", message);
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
        if tokio::time::timeout(self.stop_most(), session.gone()).await.is_err() {
            return Err(Refusal::busy(id, asked, format!("the earlier engine of the session {id} is not gone yet")));
        }
        Ok(None)
    }

    /// Lets the living engine be known under the generation asked for; false when it began to end meanwhile.
    async fn adopt(&self, session: &Engine, request: &StartRequest, current: i64) -> Result<bool, Refusal> {
        let folder = self.dir().session(&session.id);
        let failed = |error| Refusal::internal(format!("the start could not be written down: {error}"));
        if request.generation > current {
            let intent = self.intent(&session.engine_name, &session.cwd, request.owner_id.clone());
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
        Ok(alive)
    }

    fn intent(&self, engine: &str, cwd: &str, owner_id: Option<String>) -> StartIntent {
        let (boot_id, at) = (self.shared.boot_id.clone(), self.settings().clock.now());
        StartIntent { engine: engine.to_owned(), cwd: cwd.to_owned(), owner_id, boot_id, at }
    }

    fn answer(&self, session: &Engine, generation: i64) -> SessionAnswer {
        let tracked = session.tracked(self.settings().clock.awake(), self.settings().stall_after);
        let (origin, session_id) = (self.origin(), session.id.clone());
        SessionAnswer { origin, session: Some(tracked), session_id, generation, outcome: None }
    }

    async fn launch(&self, request: StartRequest, spec: EngineSpec) -> Result<SessionAnswer, Refusal> {
        let adapter = adapter(spec.adapter);
        let command = command(&request, &spec, &*adapter);
        let (env, cwd) = (self.environment(&request, &spec), request.cwd.clone());
        let folder = self.write_down(&request).await?;
        let (name, owner_id) = (request.engine.clone(), request.owner_id.clone());
        let plan = Plan { name, adapter, spec, cwd: cwd.clone(), owner_id };
        let now = self.settings().clock.awake();
        let (session, outgoing) = Engine::starting(request.session_id.clone(), request.generation, plan, now);
        self.hold(&session, &request).await?;
        let spec = Spec {
            command,
            env,
            cwd,
            graces: self.settings().graces,
            output_most: 1 << 30,
            segment_bytes: crate::runner::shim::wire::SEGMENT_BYTES,
            cgroup: None,
        };
        let is_folder = tokio::fs::metadata(&request.cwd).await.is_ok_and(|it| it.is_dir());
        let linked = if is_folder {
            Link::start(&self.settings().program, &folder, spec).await
        } else {
            Err(format!("there is no folder {:?}", request.cwd))
        };
        match linked {
            Ok(link) => self.settle(session, link, outgoing, request.generation).await,
            Err(why) => {
                let ending = Ending { reason: "start_failed".to_owned(), detail: Some(why), ..Ending::default() };
                session.begin_end(&mut session.facts(), ending);
                Err(self.start_failed(&self.conclude(&session, None).await))
            }
        }
    }

    /// Writes down, in a folder without traces of an earlier engine, that this one is about to be started.
    async fn write_down(&self, request: &StartRequest) -> Result<PathBuf, Refusal> {
        let folder = self.dir().session(&request.session_id);
        let intent = self.intent(&request.engine, &request.cwd, request.owner_id.clone());
        let (writing, generation) = (folder.clone(), request.generation);
        files::aside(move || fresh(&writing).and_then(|()| intents::write_start(&writing, generation, &intent)))
            .await
            .map_err(|error| Refusal::internal(format!("the start could not be written down: {error}")))?;
        Ok(folder)
    }

    /// Holds the engine from here on, unless one of another owner came first meanwhile.
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

    /// Waits until the engine has said something or lived for a moment: one that leaves before never started.
    async fn settle(
        &self,
        session: Arc<Engine>,
        link: Link,
        outgoing: mpsc::Receiver<Outgoing>,
        generation: i64,
    ) -> Result<SessionAnswer, Refusal> {
        session.runs(link.engine, link.shim.id().and_then(|pid| i32::try_from(pid).ok()));
        tokio::spawn(self.clone().follow(Arc::clone(&session), link, outgoing));
        let moment = Duration::from_millis(u64::try_from(self.settings().start_settle).unwrap_or(0));
        let _ = tokio::time::timeout(moment, session.ends()).await;
        let ending = {
            let mut facts = session.facts();
            facts.settled = true;
            facts.ending.clone()
        };
        match ending {
            Some(ending) if ending.reason == "start_failed" => match session.gone().await {
                Some(ended) => Err(self.start_failed(&ended)),
                None => Err(Refusal::internal("the engine's end was lost")),
            },
            Some(ending) => Err(Refusal::ended(&session.id, generation, &ending.reason)),
            None => Ok(self.answer(&session, generation)),
        }
    }

    fn start_failed(&self, ended: &Ended) -> Refusal {
        let why = ended.detail.as_deref().unwrap_or("no reason is known");
        let message = format!("the engine did not start: {why}");
        let refusal = Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "start_failed", message);
        Refusal { reason: Some(ended.reason.clone()), ..refusal.about(&ended.session_id, ended.generation) }
    }

    fn environment(&self, request: &StartRequest, spec: &EngineSpec) -> BTreeMap<String, String> {
        let passed = |name: &str| PASSED_ON.contains(&name) || name.starts_with("XDG_");
        let mut env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| passed(name))
            .collect();
        env.extend(spec.env.clone());
        env.extend(request.env.clone());
        // Last, so that nothing can pass itself off as another session's.
        env.insert(variable::SESSION_ID.to_owned(), request.session_id.to_string());
        env.insert(variable::RUNNER_ID.to_owned(), self.settings().runner_id.to_string());
        env.insert(variable::RUNNER_MARK.to_owned(), self.dir().mark.clone());
        env
    }
}

/// Refuses a start on behalf of another owner than that of the engines which are there: a runner serves one at a time.
fn check_owner(known: &Known, request: &StartRequest) -> Result<(), Refusal> {
    if known.sessions.values().all(|session| session.owner_id == request.owner_id) {
        return Ok(());
    }
    let message = "this runner holds engines of another owner, and serves one owner at a time";
    let refusal = Refusal::new(StatusCode::CONFLICT, "bad_request", message);
    Err(refusal.about(&request.session_id, request.generation))
}

/// Removes what an earlier engine left in its folder: its end must never be taken for this one's.
fn fresh(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn command(request: &StartRequest, spec: &EngineSpec, adapter: &dyn Adapter) -> Vec<String> {
    let opening = Opening { cwd: request.cwd.clone(), engine_session_id: request.engine_session_id.clone() };
    let mut command = adapter.command(spec, &opening);
    command.extend(request.args.iter().cloned());
    command
}

fn check(request: &StartRequest) -> Result<(), Refusal> {
    let named = |message: String| Err(Refusal::bad(message).about(&request.session_id, request.generation));
    if request.generation < 1 {
        return named(format!("the generation {} is none: they count from 1", request.generation));
    }
    if !Path::new(&request.cwd).is_absolute() {
        return named(format!("the folder {:?} is not an absolute path", request.cwd));
    }
    let names = request.env.keys();
    if let Some(name) = names.into_iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return named(format!("{name:?} is not the name of an environment variable"));
    }
    let texts = request.args.iter().chain(request.env.values()).chain([&request.cwd]);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return named("a zero byte cannot be handed to a program".to_owned());
    }
    Ok(())
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
