//! `sexton serve`: the worker's work and its API together, from the first request to a clean stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::feed::Listeners;
use crate::api::health::NO_TOKEN;
use crate::api::routes;
use crate::api::state::{Api, Shared};
use crate::attach::Seats;
use crate::connectivity::Probes;
use crate::network::{self, Listener, Names, ServeLimits};
use crate::store::Store;
use crate::tools::Tools;
use crate::worker::Worker;

/// What a clean stop may take beyond `schedule.shutdown_limit`: aborting a pass, the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A client that takes nothing of its answer for this long is let go.
const TAKES_NOTHING: Duration = Duration::from_secs(60);

/// How long closing the store may take.
const CLOSING: Duration = Duration::from_secs(5);

/// Serves the API on `listener` and does the worker's work, until `stop`. `owner` is whose the rows without an owner are.
///
/// On `stop` no request is taken any more and no further engine is stopped; what is in flight has
/// `schedule.shutdown_limit` to finish, or is left to the crash rule; then everything that the throttle holds back is
/// written and the store is closed. All of that within `schedule.shutdown_limit` and some 15 seconds.
///
/// # Errors
/// When the schedule makes no sense or cannot be started, or the listener has no address; nothing has run then.
pub async fn serve(
    tools: Tools,
    owner: String,
    listener: impl Into<Listener>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener: Listener = listener.into();
    let names = listener.names().context("the listener has no address")?;
    let url = format!("{}://{}", listener.scheme(), listener.address()?);
    if let Err(error) = listener.let_go_after(TAKES_NOTHING) {
        tracing::warn!(%error, "clients that take nothing of an answer cannot be let go");
    }
    let store = tools.store.clone();
    let limit = tools.config().schedule.shutdown_limit.as_std() + LAST_ANSWERS;
    let (worker, work) = Worker::new(&tools).map_err(anyhow::Error::msg)?;
    let (stop, quiet) = (stop.child_token(), CancellationToken::new());
    let api = shared(worker, owner, names, stop.clone())?;
    announce(&store, &url).await;

    let answering = async {
        answer(listener, &api, (&stop, limit)).await;
        stop.cancel();
        quiet.cancel();
    };
    let ((), worked) = tokio::join!(answering, work.run(stop.clone(), quiet.clone()));
    if timeout(CLOSING, store.close()).await.is_err() {
        tracing::warn!("the store was still in use when the worker ended; what was committed stands");
    }
    worked.context("the schedule could not be started")
}

/// Makes the API of a worker that listens on `address` in the clear, for who serves it in another way than [`serve`].
///
/// # Errors
/// When the API cannot be described: a fault of Sexton's own.
pub fn router(worker: Worker, owner: String, address: SocketAddr) -> anyhow::Result<Router> {
    let names = Names::new(address, &worker.tools.config().server.hosts, false);
    Ok(routes::route(&shared(worker, owner, names, CancellationToken::new())?))
}

fn shared(worker: Worker, owner: String, names: Names, stopping: CancellationToken) -> anyhow::Result<Shared> {
    let document = Bytes::from(routes::describe().to_json().context("the API cannot be described")?);
    let (requests, probes, listeners) = (TaskTracker::new(), Probes::default(), Listeners::default());
    let seats = Seats::new(Arc::clone(&worker.tools.clock));
    Ok(Shared::new(Api { worker, owner, names, requests, probes, listeners, seats, stopping, document }))
}

/// Says where the API is, and what is missing before anybody can use it.
async fn announce(store: &Store, url: &str) {
    tracing::info!("the API is at {url}");
    match store.count_tokens().await {
        Ok(0) => tracing::warn!("{NO_TOKEN}"),
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "the tokens cannot be read"),
    }
}

/// Answers requests until `stop`, and then those that are there already, for `limit` at most.
async fn answer(listener: Listener, api: &Shared, (stop, limit): (&CancellationToken, Duration)) {
    let serving = network::serve(listener, routes::route(api), ServeLimits::usual(), stop.clone());
    let overdue = async {
        stop.cancelled().await;
        api.listeners.end();
        tokio::time::sleep(limit).await;
    };
    let finishing = async {
        serving.await;
        // Requests whose callers went away are finished all the same.
        api.requests.close();
        api.requests.wait().await;
    };
    tokio::select! {
        () = finishing => {}
        () = overdue => tracing::warn!(requests = api.requests.len(), "requests were still open when the worker ended"),
    }
}
