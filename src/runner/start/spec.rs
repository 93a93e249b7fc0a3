//! What the shim of an engine is told to start: the command, and the environment that reaches it.

use std::collections::BTreeMap;

use crate::protocol::{StartRequest, variable};
use crate::runner::Runner;
use crate::runner::engines::{Adapter, OWN_PROGRAM, Opening};
use crate::runner::settings::EngineSpec;
use crate::runner::shim::wire::Spec;

/// The variables that every engine gets from the runner's own environment; nothing else of it reaches an engine.
const PASSED_ON: [&str; 20] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

impl Runner {
    /// Returns what the shim is told to start.
    pub(super) fn shim_spec(
        &self,
        request: &StartRequest,
        spec: &EngineSpec,
        (adapter, opening): (&dyn Adapter, &Opening),
    ) -> Spec {
        let mut command = adapter.command(spec, opening);
        if let Some(program) = command.first_mut().filter(|program| *program == OWN_PROGRAM) {
            *program = self.settings().program.display().to_string();
        }
        command.extend(request.args.iter().cloned());
        Spec {
            command,
            env: self.environment(request, spec, adapter),
            cwd: request.cwd.clone(),
            graces: spec.stop.unwrap_or(self.settings().graces),
            output_most: self.settings().output_bytes,
            segment_bytes: self.settings().segment_bytes,
            cgroup: self.shared.cgroup.clone(),
        }
    }

    fn environment(
        &self,
        request: &StartRequest,
        spec: &EngineSpec,
        adapter: &dyn Adapter,
    ) -> BTreeMap<String, String> {
        let more = spec.pass_env.iter().map(String::as_str);
        let patterns: Vec<&str> =
            PASSED_ON.into_iter().chain(adapter.passes_on().iter().copied()).chain(more).collect();
        let passed = |name: &str| patterns.iter().any(|pattern| fits(name, pattern));
        let mut env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| passed(name))
            .collect();
        env.extend(adapter.env());
        env.extend(spec.env.clone());
        env.extend(request.env.clone());
        // Last, so that nothing can pass itself off as another session's.
        env.insert(variable::SESSION_ID.to_owned(), request.session_id.to_string());
        env.insert(variable::RUNNER_ID.to_owned(), self.settings().runner_id.to_string());
        env.insert(variable::RUNNER_MARK.to_owned(), self.dir().mark.clone());
        env
    }
}

/// Returns whether a variable is meant by a pattern: its name, or its beginning and `*`.
fn fits(name: &str, pattern: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |beginning| name.starts_with(beginning))
}
