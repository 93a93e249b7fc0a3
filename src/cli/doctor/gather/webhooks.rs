//! How the secrets of webhooks are.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cli::doctor::checks::webhooks::WebhookFacts;
use crate::config::Config;
use crate::webhook::Secret;

/// Looks at each webhook's secret, and at who else may read it.
pub(super) async fn look(config: &Config) -> Vec<WebhookFacts> {
    let mut facts = Vec::new();
    for hook in &config.webhooks {
        let file = &hook.secret_file;
        let shared = fs::metadata(file).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
        facts.push(WebhookFacts {
            name: hook.name.to_string(),
            secret_file: file.clone(),
            secret: Secret::read(file).await.map(|_| shared),
        });
    }
    facts
}
