//! Sending signed messages to webhooks, one attempt at a time. When, what and how often is the sweep's business.
//!
//! The signature is the one of the Standard Webhooks specification, so that its libraries verify it.

mod send;
mod sign;

pub use send::{Failure, Message, Sender};
pub use sign::Secret;
