//! This program, to be run once more in another of its inner modes.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Linux keeps the program of this process, also after an upgrade removed or replaced its file.
const RUNNING: &str = "/proc/self/exe";

/// How this program is called so that it is a shim.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    prefix: Vec<String>,
}

impl Own {
    /// Takes note of the arguments that come before a shim's own ones.
    #[must_use]
    pub(crate) fn new(prefix: &[&str]) -> Self {
        Self { prefix: prefix.iter().map(|&word| word.to_owned()).collect() }
    }

    /// Returns the command that runs it again.
    ///
    /// # Errors
    /// When the program cannot be found.
    pub(crate) fn again(&self) -> io::Result<Command> {
        let running = Path::new(RUNNING);
        let program = if running.exists() { running.to_owned() } else { std::env::current_exe()? };
        let mut command = Command::new(&program);
        command.arg0(self.name()).args(&self.prefix);
        Ok(command)
    }

    fn name(&self) -> PathBuf {
        std::env::args_os().next().map_or_else(|| PathBuf::from("sexton-shim"), PathBuf::from)
    }
}
