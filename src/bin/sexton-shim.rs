//! The `sexton-shim` program: `sexton shim` alone, which weighs less than all of `sexton` does.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    sexton::runner::shim::main(&[], &args)
}
