//! The worker's API: one file per resource, one table of routes, one shape for every error.
//!
//! A request passes, in this order: Host and Origin (`hosts.rs`), token and scope (`access.rs`), the shape of the id and
//! the owner of the session (`owned.rs`), the body (`body.rs`). The table in `routes.rs` is the only way to a route, and
//! each of its lines says who may come in. No token ever stands in a URL, in the log or in an answer.

mod access;
mod activity;
mod attach;
mod body;
mod connectivity;
mod deliveries;
mod document;
mod driver;
mod end;
mod engine_sessions;
mod error;
mod explain;
mod feed;
mod generating;
mod health;
mod hosts;
mod keep;
mod messages;
mod metrics;
mod output;
mod owned;
mod page;
mod patience;
mod routes;
mod runners;
mod runs;
mod say;
mod serve;
mod sessions;
mod state;
mod stream;
mod sweeps;
mod timeline;

pub use activity::Reach;
pub use error::{ApiError, ErrorBody, ErrorCode};
pub use generating::Asked;
pub use serve::{router, serve};
