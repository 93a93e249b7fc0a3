//! Worker and runner beyond loopback: who is believed, and what a stranger cannot hold.

mod serve;
mod tls;
