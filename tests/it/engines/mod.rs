//! Real engines, where they are installed, against a model's API on the loopback.

mod bridge;
mod bridge_live;
mod installed;
mod model_api;
