//! The `sexton` program: its inner modes for engines and their shims, and else the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let rest = args.get(2..).unwrap_or_default();
    // Before anything else: these run once per engine and should weigh little.
    match args.get(1).map(String::as_str) {
        Some("shim") => sexton::runner::shim::main(&["shim"], rest),
        Some("opencode-bridge") => sexton::runner::bridge::main(rest),
        Some("sample-engine") => sexton::runner::sample::main(rest),
        _ => sexton::cli::main(),
    }
}
