//! Following what a session's engine says: from where its turn stands now, or from a cursor on, to its end.
//!
//! Nothing here records a use of a session and nothing here can end one: `looking.rs` says when somebody who looks is one,
//! and whoever leaves only leaves. `follow.rs` is one client's way through the output, over restarts of the runner;
//! `seats.rs` remembers how far each client was served.

mod event;
mod follow;
mod looking;
mod page;
mod seats;

pub use event::{Event, Live};
pub use follow::Follower;
pub use looking::Looking;
pub use page::{Piece, page};
pub use seats::{Seat, Seats};
