//! Passes over a real store against scripted runners.

mod idle;
