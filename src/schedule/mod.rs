//! When sweeps run.

pub mod expression;
