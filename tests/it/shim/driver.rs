//! A shim in a folder that is thrown away, and connections to it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::processes;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session folder and the shim in it. What is left of the shim and its engine is killed when it is dropped.
pub(super) struct House {
    folder: tempfile::TempDir,
    /// The shim's process, once a connection told it.
    pub(super) shim: Option<i32>,
}

impl House {
    /// Starts a shim.
    pub(super) fn new() -> Self {
        let house = Self { folder: tempfile::tempdir().unwrap(), shim: None };
        house.run_shim();
        house
    }

    /// Makes the folder alone.
    pub(super) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), shim: None }
    }

    /// Runs the program that starts a shim; it is over at once, and well.
    pub(super) fn run_shim(&self) {
        let program = env!("CARGO_BIN_EXE_sexton-shim");
        let status = Command::new(program).arg(self.path()).env_clear().stdin(Stdio::null()).status().unwrap();
        assert!(status.success());
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Connects, and returns the connection and how the shim said things are.
    pub(super) fn meet(&mut self) -> (Line, Value) {
        let stream = until("the shim takes callers", || UnixStream::connect(self.file("s")).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut line = Line { from: BufReader::new(stream.try_clone().unwrap()), to: stream, head: 0 };
        let hello = line.news("hello");
        self.shim = Some(i32::try_from(hello["shim"]["pid"].as_i64().unwrap()).unwrap());
        (line, hello)
    }

    /// Starts the engine, and returns the connection and the engine's process.
    pub(super) fn start(&mut self, spec: &Value) -> (Line, i32) {
        let (mut line, hello) = self.meet();
        assert_eq!(hello["engine"], Value::Null);
        line.order("start", spec);
        let started = line.news("started");
        (line, i32::try_from(started["engine"]["pid"].as_i64().unwrap()).unwrap())
    }

    /// Returns all output that is kept.
    pub(super) fn output(&self) -> Vec<u8> {
        segments(&self.file("out")).into_iter().flat_map(|path| fs::read(path).unwrap()).collect()
    }

    /// Waits until the shim is no more.
    pub(super) fn wait_for_its_end(&self) {
        let shim = self.shim.unwrap();
        until("the shim leaves", || (!processes::is_alive(shim)).then_some(()));
    }
}

impl House {
    /// Kills what is left.
    pub(super) fn end(&self) {
        let Some(shim) = self.shim.filter(|pid| is_shim(*pid)) else { return };
        // The tree first: while the shim lives, nothing gets away from it.
        for _ in 0..100 {
            let below = below(shim);
            if below.is_empty() {
                break;
            }
            for pid in below {
                sigkill(pid);
            }
        }
        if is_shim(shim) {
            sigkill(shim);
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.end();
    }
}

/// One connection.
pub(super) struct Line {
    from: BufReader<UnixStream>,
    to: UnixStream,
    /// How much output was told last.
    head: u64,
}

impl Line {
    /// Orders something.
    pub(super) fn order(&mut self, order: &str, rest: &Value) {
        let mut value = rest.clone();
        value["order"] = json!(order);
        self.say(&format!("{value}\n"));
    }

    /// Says something, whatever it is.
    pub(super) fn say(&mut self, text: &str) {
        self.to.write_all(text.as_bytes()).unwrap();
    }

    /// Returns the next news of this kind, passing over others.
    pub(super) fn news(&mut self, kind: &str) -> Value {
        loop {
            let news = self.next().unwrap_or_else(|| panic!("the shim hung up before it told {kind}"));
            if news["news"] == kind {
                return news;
            }
        }
    }

    /// Returns the next news; none when the shim hung up.
    pub(super) fn next(&mut self) -> Option<Value> {
        let mut text = String::new();
        match self.from.read_line(&mut text) {
            Ok(0) => None,
            Ok(_) => {
                let news: Value = serde_json::from_str(&text).unwrap();
                self.head = news["head"].as_u64().unwrap_or(self.head);
                Some(news)
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("nothing came: {error}"),
        }
    }

    /// Waits until there is so much output.
    pub(super) fn grown_to(&mut self, head: u64) {
        while self.head < head {
            self.news("grown");
        }
    }

    /// Writes a text, and returns what became of it.
    pub(super) fn write(&mut self, seq: u64, text: &str, rest: &Value) -> Value {
        let mut order = rest.clone();
        (order["seq"], order["text"]) = (json!(seq), json!(text));
        self.order("write", &order);
        let taken = self.news("taken");
        assert_eq!(taken["seq"], seq);
        taken["result"].clone()
    }

    /// Stops the engine, and returns how it went.
    pub(super) fn stop(&mut self) -> Value {
        self.order("stop", &json!({}));
        self.news("gone")
    }
}

/// Returns the spec of a shell script as an engine, with short graces.
pub(super) fn script(text: &str) -> Value {
    let path = std::env::var("PATH").unwrap();
    json!({
        "command": ["sh", "-c", text],
        "env": {"PATH": path},
        "cwd": "/",
        "graces": {"interrupt": 300, "stdin": 200, "engine": 200, "tree": 100, "kill": 5_000, "linger": 200},
        "output_most": 1 << 30,
    })
}

/// Returns the segments in the order of their offsets.
pub(super) fn segments(out: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(out).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "log"));
    paths.sort();
    paths
}

/// Looks again and again until there is something, for what nobody tells.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    const PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..(PATIENCE.as_millis() / PAUSE.as_millis()) {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("waited in vain until {what}");
}

/// Returns the live processes below this one.
pub(super) fn below(root: i32) -> Vec<i32> {
    let read = |task: PathBuf| fs::read_to_string(task.join("children")).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{root}/task")).into_iter().flatten().flatten();
    let children: Vec<i32> = tasks
        .flat_map(|task| read(task.path()).split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let all = children.into_iter().flat_map(|pid| [vec![pid], below(pid)].concat());
    all.filter(|pid| processes::is_alive(*pid)).collect()
}

pub(super) fn sigkill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // It may be gone by now.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn is_shim(pid: i32) -> bool {
    processes::is_alive(pid) && processes::visible(pid).contains("--held")
}
