//! Real engines, where they are installed, against a model's API on the loopback.

mod model_api;
