//! Enrolling the runner of this machine, once it answers under its own name to its own secret.

use anyhow::anyhow;

use crate::cli::Context;
use crate::network::reachable;
use crate::protocol::Health;
use crate::runner_client::{NoAnswer, Target};
use crate::session::Runner;
use crate::tools::Tools;
use crate::verbs::once_ready;

/// Returns the row that the runner of this machine is enrolled with.
///
/// # Errors
/// When there is no state folder to keep its secret in.
pub(crate) fn local_runner(context: &Context, tools: &Tools) -> anyhow::Result<Runner> {
    let settings = &context.config.runner;
    let scheme = if settings.tls_cert.is_empty() { "http" } else { "https" };
    let token_file = std::path::absolute(context.paths.runner_token_file(&context.config)?)?;
    let token_file = token_file.into_os_string().into_string();
    Ok(Runner {
        id: settings.id.clone(),
        url: format!("{scheme}://{}", reachable(settings.listen)),
        token_file: Some(token_file.map_err(|path| anyhow!("runner.token_file {} is not UTF-8", path.display()))?),
        created_at: tools.clock.now(),
        last_seen_at: None,
        epoch: None,
        protocol: None,
        state_id: None,
        identity: Some(settings.id.to_string()),
        require_conditional_stop: false,
    })
}

/// Asks the runner of this machine how it is.
///
/// # Errors
/// Why there is no answer of it; another runner at its address is none.
pub(crate) async fn health(tools: &Tools, runner: &Runner) -> Result<Health, NoAnswer> {
    tools.runners.health(&speaker(runner)).await
}

/// Asks the runner of this machine how it is, and waits a little for one that is just being started.
///
/// # Errors
/// As [`health`].
pub(crate) async fn health_once_ready(tools: &Tools, runner: &Runner) -> Result<Health, NoAnswer> {
    let target = speaker(runner);
    once_ready(tools, &target, || tools.runners.health(&target)).await
}

fn speaker(runner: &Runner) -> Target {
    Target { speaks_protocol: true, ..Target::from(runner) }
}

/// Enrols the runner of this machine, or tells the store where it is now; what is known of it otherwise stays.
///
/// # Errors
/// When the store fails.
pub(crate) async fn enrol(tools: &Tools, local: &Runner) -> anyhow::Result<()> {
    let known = tools.store.find_runner(&local.id).await?;
    if known.as_ref().is_some_and(|known| known.url == local.url && known.token_file == local.token_file) {
        return Ok(());
    }
    let require_conditional_stop = known.is_some_and(|known| known.require_conditional_stop);
    tools.store.add_runner(&Runner { require_conditional_stop, ..local.clone() }).await?;
    Ok(())
}
