//! The scene of the demonstration: a folder, a runner with sample engines, a runner that answers `null`, five sessions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::demo::runners::{ComingBack, null_runner};
use crate::cli::{runner, secret};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::runner::settings::shim_program;
use crate::runner::{EngineSpec, Settings};
use crate::runner_client::{ClientSettings, HttpRunners, Wrapped};
use crate::session::{ActivityKind, Id, Runner, Session, Status};
use crate::store::{Inserted, Store};
use crate::time::{HOUR, MINUTE, Ms, SECOND, Span};
use crate::timeline;
use crate::token;
use crate::tools::{CurrentConfig, Tools};
use crate::verbs::{self, StartWish};

/// How long the sample's background task works.
const TASK: Ms = 5 * SECOND;

/// Whose the sessions are.
pub(crate) const OWNER: &str = "demo";

/// The names under which the five sessions are told of, which are also their repos' names.
pub(crate) const FORGOTTEN: &str = "forgotten";
pub(crate) const BUILDING: &str = "building";
pub(crate) const COMING_BACK: &str = "coming-back";
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const BROKEN: &str = "broken-runner";

/// The scene, set.
pub(crate) struct Stage {
    pub(crate) tools: Tools,
    pub(crate) sessions: BTreeMap<&'static str, Id>,
    token: String,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    runners: JoinHandle<()>,
    stop: CancellationToken,
}

impl Stage {
    /// Sets the scene in `folder`.
    pub(crate) async fn set(folder: &Path) -> anyhow::Result<Self> {
        let store = Store::open(&format!("sqlite://{}", folder.join("sexton.db").display())).await?;
        let token_file = folder.join("runner.token");
        secret::write(&token_file, uuid::Uuid::new_v4().simple().to_string().as_str())?;
        let stop = CancellationToken::new();
        let (runners, urls) = start_runners(folder, &token_file, &stop).await?;
        let tools = plain_tools(store)?;
        for (name, url) in ["demo", "broken"].into_iter().zip(urls) {
            tools.store.add_runner(&runner_row(name, url, &token_file)?).await?;
        }
        let sessions = open_sessions(&tools, folder).await?;
        let coming_back = ComingBack::new(tools.clone(), sessions[COMING_BACK].clone());
        let tools = Tools { runners: Arc::new(Wrapped::new(Arc::clone(&tools.runners), coming_back)), ..tools };
        let token = make_token(&tools).await?;
        let listener = TcpListener::bind(tools.config().server.listen).await.context("no free port")?;
        let address = listener.local_addr()?;
        Ok(Self { tools, sessions, token, address, listener: Mutex::new(Some(listener)), runners, stop })
    }

    pub(crate) fn tools(&self) -> Tools {
        self.tools.clone()
    }

    pub(crate) fn take_listener(&self) -> anyhow::Result<TcpListener> {
        let mut listener = self.listener.lock().map_err(|_| anyhow!("the listener's lock is poisoned"))?;
        listener.take().ok_or_else(|| anyhow!("the listener was taken before"))
    }

    /// Returns what a person reads first.
    pub(crate) fn welcome(&self) -> String {
        let policy = &self.tools.config().policy;
        format!(
            "Five sessions with real processes; the idle window is {} instead of six hours, a pass every second.\n\
             API: http://{address}   for instance\n  curl -H 'Authorization: Bearer {token}' http://{address}/v1/sessions\n",
            crate::time::spoken(policy.idle_after.0),
            address = self.address,
            token = self.token,
        )
    }

    /// Ends the runners, and with them every sample engine.
    pub(crate) async fn strike(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.runners.await.context("the runners did not end cleanly")
    }
}

/// The shipped settings with windows of seconds.
fn settings() -> Config {
    let mut config = Config::defaults();
    config.owner = OWNER.to_owned();
    config.server.listen.set_port(0);
    config.schedule.sweep = "* * * * * *".to_owned();
    let policy = &mut config.policy;
    policy.idle_after = Span(3 * SECOND);
    policy.driver_stale_after = Span(SECOND);
    policy.activity_throttle = Span(SECOND / 2);
    policy.orphan_grace = Span(SECOND);
    policy.orphan_quiet = Span(2 * SECOND);
    config
}

fn plain_tools(store: Store) -> anyhow::Result<Tools> {
    let config = settings();
    let runners = HttpRunners::new(&ClientSettings {
        connect_timeout: config.limits.connect_timeout,
        timeout: config.limits.request_timeout,
        end_timeout: config.limits.end_timeout,
        send_timeout: config.runner.send_timeout,
        response_bytes: config.limits.response_bytes.0,
    })
    .map_err(|why| anyhow!(why))?;
    Ok(Tools {
        store,
        runners: Arc::new(runners),
        clock: Arc::new(SystemClock),
        settings: CurrentConfig::new(config),
        metrics: Arc::new(Metrics::default()),
        worker_id: Id::new(),
    })
}

/// Makes the token that the welcome shows.
async fn make_token(tools: &Tools) -> anyhow::Result<String> {
    let scopes = "admin".parse().map_err(|why: String| anyhow!(why))?;
    let (row, secret) = token::create(OWNER, &scopes, tools.clock.now()).map_err(|why| anyhow!(why))?;
    tools.store.insert_token(&row).await?;
    Ok(secret.expose().to_owned())
}

/// Starts both runners in this process, the real one on real processes; returns their URLs in that order.
async fn start_runners(
    folder: &Path,
    secret: &Path,
    stop: &CancellationToken,
) -> anyhow::Result<(JoinHandle<()>, [String; 2])> {
    let mut settings = runner_settings(folder, secret)?;
    let program = settings.program.display().to_string();
    let sample = |kind: &[&str]| EngineSpec {
        command: [&[program.as_str(), "sample-engine"], kind].concat().into_iter().map(str::to_owned).collect(),
        ..EngineSpec::default()
    };
    settings.engines.insert("sample".to_owned(), sample(&["idle"]));
    settings.engines.insert("sample-builder".to_owned(), sample(&["background", &TASK.to_string()]));
    let runner = crate::runner::Runner::open(settings)?;
    let real = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
    let broken = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
    let urls = [format!("http://{}", real.local_addr()?), format!("http://{}", broken.local_addr()?)];
    let stop = stop.clone();
    let serving = tokio::spawn(async move {
        let asked = stop.clone();
        let broken = axum::serve(broken, null_runner()).with_graceful_shutdown(async move { asked.cancelled().await });
        let emptied = CancellationToken::new();
        let emptying = async {
            stop.cancelled().await;
            // Its folder is thrown away, so nobody would ever find these engines again.
            runner.stop_engines().await;
            emptied.cancel();
        };
        let serving = crate::runner::serve(runner.clone(), real, emptied.clone());
        let (served, _, ()) = tokio::join!(serving, broken.into_future(), emptying);
        if let Err(error) = served {
            tracing::error!(%error, "the demonstration's runner failed");
        }
    });
    Ok((serving, urls))
}

/// Makes the settings of the real runner: as shipped, but for a start that is seen sooner.
fn runner_settings(folder: &Path, secret: &Path) -> anyhow::Result<Settings> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    Ok(Settings {
        runner_id: id("demo")?,
        state_dir: folder.join("runner"),
        secret_file: secret.to_owned(),
        shim: shim_program(&program),
        program,
        start_settle: 100,
        ..runner::limits(&Config::defaults())
    })
}

fn runner_row(name: &str, url: String, secret: &Path) -> anyhow::Result<Runner> {
    Ok(Runner {
        id: id(name)?,
        url,
        token_file: Some(secret.display().to_string()),
        created_at: SystemClock.now(),
        last_seen_at: None,
        epoch: None,
        protocol: None,
        state_id: None,
        identity: Some(name.to_owned()),
        require_conditional_stop: false,
    })
}

/// Opens three sessions with engines, and two rows without one.
async fn open_sessions(tools: &Tools, folder: &Path) -> anyhow::Result<BTreeMap<&'static str, Id>> {
    let mut sessions = BTreeMap::new();
    for (name, engine) in [(FORGOTTEN, "sample"), (BUILDING, "sample-builder"), (COMING_BACK, "sample")] {
        let repo = folder.join(name);
        std::fs::create_dir(&repo)?;
        let wish = StartWish::new(OWNER.to_owned(), repo.display().to_string(), engine.to_owned());
        let wish = StartWish { runner: Some(id("demo")?), ..wish };
        let started = verbs::start(tools, &wish, &verbs::person(tools, OWNER)).await?;
        sessions.insert(name, started.session.id);
    }
    // As rows of a host that lost its engines: one on a runner that would know, one on a runner that answers `null`.
    for (name, runner, kept) in [(ORPHAN, "demo", None), (BROKEN, "broken", Some(HOUR))] {
        let row = lost_row(tools, name, runner, kept)?;
        let entry = timeline::started(&row, &verbs::person(tools, OWNER), tools.clock.now());
        let inserted = tools.store.insert_started(&row, &[], &entry).await?;
        anyhow::ensure!(inserted == Inserted::Done, "the demonstration's row {name} is there already");
        sessions.insert(name, row.id);
    }
    Ok(sessions)
}

fn lost_row(tools: &Tools, name: &str, runner: &str, kept: Option<Ms>) -> anyhow::Result<Session> {
    let now = tools.clock.now();
    let began = Some(now.minus(MINUTE));
    Ok(Session {
        id: Id::new(),
        runner_id: id(runner)?,
        owner_id: Some(OWNER.to_owned()),
        repo: format!("/demo/{name}"),
        engine: "sample".to_owned(),
        engine_session_id: None,
        status: Status::Active,
        generation: 1,
        reopened: 0,
        started_at: began,
        attached_at: began,
        updated_at: began,
        last_activity_at: Some(now),
        last_activity_kind: Some(ActivityKind::Message),
        driver: None,
        driver_at: None,
        keep_until: kept.map(|time| now.plus(time)),
        keep_reason: kept.map(|_| "the demonstration shows it as no orphan, whatever its age".to_owned()),
        idle_after_ms: None,
        next_check_at: None,
        ended_at: None,
        end_reason: None,
    })
}

fn id(text: &str) -> anyhow::Result<Id> {
    text.parse().map_err(|why: String| anyhow!(why))
}
