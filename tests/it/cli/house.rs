//! A home of its own for `sexton`, and what it said when it was called there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::processes::end_shims;

/// The program under test.
pub(crate) const SEXTON: &str = env!("CARGO_BIN_EXE_sexton");

/// How long anything may take before a test gives up on it.
const MOST: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Folders that no other test uses, and settings in them.
pub(crate) struct House {
    dir: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// How a call of the program ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Engines outlive the daemons that a test stops, but not the test.
impl Drop for House {
    fn drop(&mut self) {
        end_shims(self.dir.path());
    }
}

impl House {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// A house whose runner has a port of its own and engines of each kind that the tests need, with windows of seconds.
    pub(crate) fn with_engines(idle_after: &str) -> Self {
        let house = Self::new();
        house.configure(&format!(
            "[server]\nlisten = \"127.0.0.1:{}\"\n[runner]\nlisten = \"127.0.0.1:{}\"\nstdin_grace = \"2s\"\n\
             [policy]\nidle_after = \"{idle_after}\"\nactivity_throttle = \"250ms\"\ndriver_stale_after = \"1s\"\n\
             [engines.sample]\ncommand = [{SEXTON:?}, \"sample-engine\", \"idle\"]\n\
             [engines.busy]\ncommand = [{SEXTON:?}, \"sample-engine\", \"background\", \"600000\"]\n\
             [engines.broken]\ncommand = [{SEXTON:?}, \"sample-engine\", \"fails\"]\n",
            free_port(),
            free_port(),
        ));
        house
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a file or overwrites it, folders included, and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }

    pub(crate) fn configure(&self, text: &str) {
        self.write("config/sexton/config.toml", text);
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(SEXTON);
        command.args(args).env_clear().current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("HOME", self.dir.path()).env("USER", "ann").env("RUST_BACKTRACE", "full");
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_CONFIG_HOME", self.path("config"));
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Calls the program, and checks what holds for every call: no panic, no backtrace, nothing that a terminal obeys.
    pub(crate) fn call(&self, args: &[&str]) -> Said {
        Said::of(args, &self.command(args).output().unwrap())
    }

    /// Calls the program, which must succeed; returns what it printed.
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let said = self.call(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let out = self.done(args);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}"))
    }

    /// Calls the program, which must not be able to run; returns the one line that says why.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let said = self.call(args);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
        let line = said.err.strip_prefix("sexton: ").unwrap_or_else(|| panic!("{args:?}: {said:?}"));
        assert_eq!(line.trim_end().lines().count(), 1, "{args:?}: {line}");
        line.trim_end().to_owned()
    }

    /// Starts a daemon, which is asked to stop when the returned value is dropped.
    pub(crate) fn daemon(&self, args: &[&str]) -> Daemon {
        Daemon(self.command(args).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts a daemon as [`House::daemon`] does, whose log goes to a file.
    pub(crate) fn logging_daemon(&self, args: &[&str], file: &str) -> Daemon {
        let log = std::fs::File::create(self.path(file)).unwrap();
        Daemon(self.command(args).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Starts the runner and waits until an engine can be started on it.
    pub(crate) fn runner(&self) -> Daemon {
        let daemon = self.daemon(&["runner"]);
        let repo = self.folder("probe");
        // Which engine is asked for does not matter: the answer of a ready runner is that it has none of that name.
        wait_for("the runner", || {
            let said = self.call(&["start", "no-such-engine", "--repo", repo.to_str().unwrap()]);
            said.err.contains("no-such-engine did not start").then_some(()).ok_or(said.err)
        });
        daemon
    }

    /// Starts an engine in a folder of that name; returns the session's id.
    pub(crate) fn start(&self, engine: &str, folder: &str) -> String {
        let repo = self.folder(folder);
        self.done(&["start", engine, "--repo", repo.to_str().unwrap()]).trim().to_owned()
    }
}

impl Said {
    fn of(args: &[&str], output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let said = Self { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) };
        for text in [&said.out, &said.err] {
            assert!(!text.contains("panicked") && !text.to_lowercase().contains("backtrace"), "{args:?}: {text}");
            let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(obeyed), "{args:?}: {text:?}");
        }
        said
    }
}

/// A process that is asked to stop when this is dropped.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// Waits until it has ended by itself; returns its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        wait_for("the end of a daemon", || self.0.try_wait().unwrap().ok_or("it runs")).code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.signal(rustix::process::Signal::TERM);
            self.0.wait().unwrap();
        }
    }
}

/// Asks again and again until there is an answer: the last resort, for what happens in another process and does not tell.
pub(crate) fn wait_for<T, E: std::fmt::Debug>(what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    let tries = MOST.as_millis() / PAUSE.as_millis();
    for _ in 1..tries {
        match ask() {
            Ok(answer) => return answer,
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    ask().unwrap_or_else(|last| panic!("waited in vain for {what}; last: {last:?}"))
}

/// Finds a port below those that the system hands out by itself, another one for each test that runs at the same time.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(20_000 + (std::process::id() * 13 + step) % 12_000).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// One line of an import file: a session that is open and was used `age_ms` ago, with `change` on top.
pub(crate) fn import_line(id: &str, age_ms: i64, change: &Value) -> String {
    let used = now_ms() - age_ms;
    let mut line = serde_json::json!({"id": id, "runner_id": "mac", "repo": format!("/src/{id}"), "engine": "claude",
        "status": "active", "started_at": used, "last_activity_at": used, "last_activity_kind": "capture"});
    for (key, value) in change.as_object().unwrap() {
        line[key] = value.clone();
    }
    line.to_string()
}

fn now_ms() -> i64 {
    use sexton::clock::Clock as _;
    sexton::clock::SystemClock.now().0
}

/// Returns the path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
