//! How the store is.

use std::path::Path;

use crate::cli::Context;
use crate::cli::doctor::checks::store::{Opened, StoreFacts};
use crate::report::Trigger;
use crate::store::{PAUSED, StoreError};
use crate::time::{HOUR, Ms};
use crate::tools::Tools;

/// So many passes are looked through for one of the schedule.
const PASSES: u32 = 50;

/// Events that were given up longer ago are past.
const LATELY: Ms = 7 * 24 * HOUR;

/// Opens the store as every command does, unless there is none: looking makes none.
pub(super) async fn look(context: &Context) -> (StoreFacts, Option<Tools>) {
    let url = match context.paths.store_url(&context.config) {
        Ok(url) => url,
        Err(why) => return (StoreFacts::Unusable(why.to_string()), None),
    };
    let place = url.strip_prefix("sqlite://").unwrap_or(&url);
    if !Path::new(place).exists() {
        return (StoreFacts::Missing, None);
    }
    let tools = match context.tools().await {
        Ok(tools) => tools,
        Err(why) => return (StoreFacts::Unusable(format!("{why:#}")), None),
    };
    match read(&tools, place).await {
        Ok(opened) => (StoreFacts::Opened(opened), Some(tools)),
        Err(why) => (StoreFacts::Unusable(why.to_string()), None),
    }
}

async fn read(tools: &Tools, place: &str) -> Result<Opened, StoreError> {
    let store = &tools.store;
    let mut open_sessions = 0;
    for runner in store.list_runners().await? {
        open_sessions += usize::try_from(store.count_open(&runner.id).await?).unwrap_or(usize::MAX);
    }
    for runner in store.list_unenrolled_runners().await? {
        open_sessions += usize::try_from(store.count_open(&runner).await?).unwrap_or(usize::MAX);
    }
    let passes = store.list_sweeps(PASSES).await?;
    Ok(Opened {
        place: place.to_owned(),
        owners: store.list_owners().await?,
        open_sessions,
        paused: store.setting(PAUSED).await?,
        last_pass: passes.first().map(|pass| pass.started_at),
        queues: store.delivery_queues(tools.clock.now().minus(LATELY)).await?,
        scheduled: passes.iter().any(|pass| pass.trigger == Trigger::Schedule.as_str()),
    })
}
