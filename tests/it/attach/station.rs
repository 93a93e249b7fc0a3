//! A machine with a runner and a worker of their own, which may die at any time.

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::house::{Daemon, House, free_port, text, wait_for};

/// A home with both daemons in it.
pub(crate) struct Station {
    pub(crate) house: House,
    pub(crate) token: String,
    pub(crate) base: String,
    runner: Option<Daemon>,
    worker: Option<Daemon>,
}

impl Station {
    pub(crate) fn new() -> Self {
        // Whoever comes first in this process installs it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let house = House::new();
        let port = free_port();
        house.configure(&format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\n[runner]\nlisten = \"127.0.0.1:{}\"\nstdin_grace = \"500ms\"\n\
             [schedule]\nsweep = \"0 0 0 1 1 *\"\n[engines.sh]\ncommand = [\"/bin/sh\", \"-c\"]\n",
            free_port()
        ));
        let runner = Some(house.runner());
        let token = house.done(&["tokens", "create", "--owner", "ann", "--scope", "read,use"]).trim().to_owned();
        let worker = Some(house.daemon(&["serve"]));
        Self { house, token, base: format!("http://127.0.0.1:{port}"), runner, worker }
    }

    /// Starts a shell script as an engine; returns the session's id.
    pub(crate) fn start(&self, folder: &str, script: &str) -> String {
        let repo = self.house.folder(folder);
        self.house.done(&["start", "sh", "--repo", text(&repo), "--", script]).trim().to_owned()
    }

    /// Kills the runner with -9, and starts the next one.
    pub(crate) fn lose_runner(&mut self) {
        if let Some(mut runner) = self.runner.take() {
            runner.signal(Signal::KILL);
            runner.ended();
        }
        self.runner = Some(self.house.daemon(&["runner"]));
    }

    /// Ends the worker by a signal, and starts the next one.
    pub(crate) fn lose_worker(&mut self, signal: Signal) {
        if let Some(mut worker) = self.worker.take() {
            worker.signal(signal);
            let code = worker.ended();
            assert!(signal != Signal::TERM || code == Some(0), "{code:?}");
        }
        self.worker = Some(self.house.daemon(&["serve"]));
    }

    pub(crate) fn worker_pid(&self) -> i32 {
        self.worker.as_ref().unwrap().pid()
    }

    /// Gets a path of the API, as soon as there is a worker and a runner that answer it with success.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut last = String::new();
        for _ in 0..1_200 {
            let asked = client.get(format!("{}{path}", self.base)).bearer_auth(&self.token).send().await;
            match asked {
                Ok(answer) if answer.status() == 200 => return answer.json().await.unwrap(),
                Ok(answer) => last = answer.text().await.unwrap_or_default(),
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        }
        panic!("{path} was never answered: {last}");
    }

    /// Sends a message, as soon as the runner takes it.
    pub(crate) fn send(&self, id: &str, message: &str) {
        wait_for("the runner to take a message", || {
            let said = self.house.call(&["send", id, message]);
            if said.code == 0 { Ok(()) } else { Err(said.err) }
        });
    }
}
