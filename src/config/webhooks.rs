//! `[[webhooks]]`: who is told of events, of which, and with what secret.

use serde::{Deserialize, Serialize};

use crate::entry::EntryKind;
use crate::session::Id;

/// One webhook.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct WebhookConfig {
    /// Its name, under which the store remembers how far it was served.
    pub name: Id,
    /// Where events are sent to.
    pub url: String,
    /// The file with the secret that signs them.
    pub secret_file: String,
    /// Only of this owner's sessions; empty means everybody's.
    #[serde(default)]
    pub owner: String,
    /// Events of these kinds.
    #[serde(default = "usual_events")]
    pub events: Vec<EntryKind>,
}

/// What somebody wants to know who is told of sessions that end.
fn usual_events() -> Vec<EntryKind> {
    vec![EntryKind::Ended, EntryKind::Stopped, EntryKind::Warned, EntryKind::Reopened, EntryKind::RunStale]
}
