//! `cargo bench --bench engines`: what a hundred idle engines cost besides themselves.
//!
//! A real runner with real shims and sample engines; prints the memory of the shims and of the runner, how long all of
//! them take to start and to be stopped, and how long a runner that was killed takes to know all of them again.
//! `SEXTON_BENCH_SESSIONS` changes how many there are. Fails where the memory of a hundred is above its limits.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a bench")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const SECRET: &str = "bench";
/// How long after its last work a shim is idle: it has given back what it does not need, and looked after its socket.
const QUIET: Duration = Duration::from_secs(17);
/// What an idle shim may have resident in the mean, in kB.
const SHIM_MOST: u64 = 1_500;
/// What the runner may have resident right after a hundred starts at once, in kB.
const RUNNER_MOST: u64 = 20_000;

/// A runner in a process of its own.
struct Runner {
    process: Child,
    base: String,
    client: reqwest::Client,
}

impl Runner {
    fn start(home: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (config, folder) = (home.join("config.toml"), home.display());
        let engine = env!("CARGO_BIN_EXE_sexton");
        let text = format!(
            "[runner]\nlisten = \"127.0.0.1:{port}\"\nstate_dir = \"{folder}/state\"\ntoken_file = \"{folder}/secret\"\n\
             [engines.sample]\ncommand = [\"{engine}\", \"sample-engine\", \"idle\"]\n"
        );
        std::fs::write(&config, text).unwrap();
        std::fs::write(home.join("secret"), SECRET).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sexton"));
        // It would be taken for a setting.
        command.env_remove("SEXTON_BENCH_SESSIONS");
        command.arg("--config").arg(&config).arg("runner").stdout(Stdio::null()).stderr(Stdio::null());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { process: command.spawn().unwrap(), base: format!("http://127.0.0.1:{port}/coding"), client }
    }

    async fn post(&self, verb: &str, body: Value) -> Value {
        let request = self.client.post(format!("{}/{verb}", self.base)).bearer_auth(SECRET).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Waits until it knows its engines, and returns how many.
    async fn ready(&self) -> usize {
        loop {
            let asked = self.client.get(format!("{}/sessions", self.base)).bearer_auth(SECRET).send().await;
            if let Ok(answer) = asked {
                let list: Value = answer.json().await.unwrap();
                if list["ready"] == true {
                    return list["tracked"].as_array().unwrap().len();
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Memory of one process: resident, and its share of what is used by several, in kB.
fn memory(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    (of("Rss:"), of("Pss:"))
}

/// Returns the shims that work below the folder.
fn shims(home: &Path) -> Vec<u32> {
    let home = home.display().to_string();
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let is_shim = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains("--held") && line.contains(&home)
    };
    pids.filter(is_shim).collect()
}

async fn all(count: usize, work: impl AsyncFn(usize)) -> Duration {
    let began = Instant::now();
    futures_util::future::join_all((0..count).map(|number| work(number))).await;
    began.elapsed()
}

fn main() {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(run());
}

async fn run() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let count = std::env::var("SEXTON_BENCH_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let home = tempfile::tempdir().unwrap();
    let mut runner = Runner::start(home.path());
    runner.ready().await;
    let started = all(count, async |number| {
        let body = json!({"session_id": format!("s{number}"), "generation": 1, "engine": "sample", "cwd": "/"});
        let answer = runner.post("start", body).await;
        assert!(answer["session"]["pid"].is_i64(), "{answer}");
    });
    println!("{count} engines started in {:.1} s", started.await.as_secs_f64());

    let of_runner = memory(runner.process.id()).0;
    println!("the runner: {of_runner} kB resident");
    tokio::time::sleep(QUIET).await;
    let of_shims: Vec<(u64, u64)> = shims(home.path()).into_iter().map(memory).collect();
    assert_eq!(of_shims.len(), count);
    let mean = |part: fn(&(u64, u64)) -> u64| of_shims.iter().map(part).sum::<u64>() / count as u64;
    println!("an idle shim: {} kB resident, {} kB proportional (mean)", mean(|it| it.0), mean(|it| it.1));
    println!("the runner when all are idle: {} kB resident", memory(runner.process.id()).0);
    assert!(mean(|it| it.0) <= SHIM_MOST, "a shim may have {SHIM_MOST} kB");
    assert!(count > 100 || of_runner <= RUNNER_MOST, "the runner of a hundred engines may have {RUNNER_MOST} kB");

    runner.kill();
    let began = Instant::now();
    runner = Runner::start(home.path());
    assert_eq!(runner.ready().await, count);
    println!("killed and started again, it knew all of them after {:.2} s", began.elapsed().as_secs_f64());
    println!("the runner then: {} kB resident", memory(runner.process.id()).0);

    let stopped = all(count, async |number| {
        let id = format!("s{number}");
        let body = json!({"session_id": id, "generation": 1, "mode": "force", "reason": "ended_by_person"});
        assert_eq!(runner.post("end", body).await["outcome"], "stopped");
    });
    println!("stopped in {:.1} s", stopped.await.as_secs_f64());
    assert_eq!(shims(home.path()).len(), 0);
    runner.kill();
}
