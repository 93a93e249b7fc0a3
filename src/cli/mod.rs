//! The command line: one file per command, and all printing.

pub mod args;
