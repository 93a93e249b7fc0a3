//! `sexton serve`: the worker's work and its API together, from the first request to a clean stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::serve::ListenerExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::health::NO_TOKEN;
use crate::api::hosts::Hosts;
use crate::api::routes;
use crate::api::state::{Api, Shared};
use crate::attach::Seats;
use crate::store::Store;
use crate::tools::Tools;
use crate::worker::Worker;

/// What a clean stop may take beyond `schedule.shutdown_limit`: aborting a pass, the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How long a client may take nothing of what is sent to it.
const SILENT_MOST: Duration = Duration::from_secs(60);

/// How long closing the store may take.
const CLOSING: Duration = Duration::from_secs(5);

/// Serves the API on `listener` and does the worker's work, until `stop`. `owner` is whose the rows without an owner are.
///
/// On `stop` no request is taken any more and no further engine is stopped; what is in flight has
/// `schedule.shutdown_limit` to finish, or is left to the crash rule; then everything that the throttle holds back is
/// written and the store is closed. All of that within `schedule.shutdown_limit` and some 15 seconds.
///
/// # Errors
/// When the schedule makes no sense or cannot be started, or the listener is not on loopback; nothing has run then.
pub async fn serve(tools: Tools, owner: String, listener: TcpListener, stop: CancellationToken) -> anyhow::Result<()> {
    let address = listener.local_addr().context("the listener has no address")?;
    ensure!(
        address.ip().is_loopback(),
        "server.listen: {address} is not a loopback address; this version listens on loopback only"
    );
    let store = tools.store.clone();
    let limit = tools.config().schedule.shutdown_limit.as_std() + LAST_ANSWERS;
    let (worker, work) = Worker::new(&tools).map_err(anyhow::Error::msg)?;
    let (stop, quiet) = (stop.child_token(), CancellationToken::new());
    let api = shared(worker, owner, address, stop.clone())?;
    announce(&store, &api.owner, address).await;

    let answering = async {
        let answered = answer(listener, &api, (&stop, limit)).await;
        stop.cancel();
        quiet.cancel();
        answered
    };
    let (answered, worked) = tokio::join!(answering, work.run(stop.clone(), quiet.clone()));
    if timeout(CLOSING, store.close()).await.is_err() {
        tracing::warn!("the store was still in use when the worker ended; what was committed stands");
    }
    worked.context("the schedule could not be started")?;
    answered.context("the API could not be served")
}

/// Makes the API of a worker that listens on `address`, for who serves it in another way than [`serve`].
///
/// # Errors
/// When the API cannot be described: a fault of Sexton's own.
pub fn router(worker: Worker, owner: String, address: SocketAddr) -> anyhow::Result<Router> {
    Ok(routes::route(&shared(worker, owner, address, CancellationToken::new())?))
}

fn shared(worker: Worker, owner: String, address: SocketAddr, stopping: CancellationToken) -> anyhow::Result<Shared> {
    let document = Bytes::from(routes::describe().to_json().context("the API cannot be described")?);
    let (seats, hosts) = (Seats::new(Arc::clone(&worker.tools.clock)), Hosts::of(address));
    Ok(Shared::new(Api { worker, owner, hosts, requests: TaskTracker::new(), seats, stopping, document }))
}

/// Says where the API is, and what is missing before anybody can use it.
async fn announce(store: &Store, owner: &str, address: SocketAddr) {
    tracing::info!("the API is at http://{address}");
    let tokens = match store.list_tokens().await {
        Ok(tokens) => tokens,
        Err(error) => {
            tracing::error!(%error, "the tokens cannot be read");
            return;
        }
    };
    let mut valid = tokens.iter().filter(|token| token.revoked_at.is_none()).peekable();
    if valid.peek().is_none() {
        tracing::warn!("{NO_TOKEN}");
    } else if let Some(other) = valid.find(|token| token.owner_id != owner) {
        tracing::warn!(
            "there is a token of {}, and the configured owner is {owner}: it opens the sessions of {} alone",
            other.owner_id,
            other.owner_id
        );
    }
}

/// Gives up a client that takes nothing, or that the network does not reach any more: it follows no session, and nobody
/// looks there.
fn bound_silence(stream: &mut TcpStream) {
    let most = u32::try_from(SILENT_MOST.as_millis()).unwrap_or(u32::MAX);
    // Without it the kernel gives up as well, only much later.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, most);
}

/// Answers requests until `stop`, and then those that are there already, for `limit` at most.
async fn answer(
    listener: TcpListener,
    api: &Shared,
    (stop, limit): (&CancellationToken, Duration),
) -> std::io::Result<()> {
    let listener = listener.tap_io(bound_silence);
    let serving = axum::serve(listener, routes::route(api)).with_graceful_shutdown(stop.clone().cancelled_owned());
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(limit).await;
    };
    let finishing = async {
        let served = serving.await;
        // Requests whose callers went away are finished all the same.
        api.requests.close();
        api.requests.wait().await;
        served
    };
    tokio::select! {
        served = finishing => served,
        () = overdue => {
            tracing::warn!(requests = api.requests.len(), "requests were still open when the worker ended");
            Ok(())
        }
    }
}
