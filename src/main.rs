//! The `sexton` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let rest = args.get(2..).unwrap_or_default();
    match args.get(1).map(String::as_str) {
        Some("shim") => sexton::runner::shim::main(rest),
        Some("shim-exec") => sexton::runner::shim::exec_main(rest),
        Some("sample-engine") => sexton::runner::sample::main(rest),
        _ => ExitCode::from(2),
    }
}
