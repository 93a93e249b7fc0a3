//! One pass over many open sessions, a few of them idle, against runners that answer at once.
//!
//! `cargo bench --bench pass` prints time, memory and the share spent in SQL; `SEXTON_BENCH_SESSIONS` and
//! `SEXTON_BENCH_IDLE_PERCENT` change the size. The runners live in a process of their own, so that the figures are the
//! worker's.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for one person at a time")]

mod farm;

use sexton::report::{PartName, Trigger};
use sexton::sweep::{Request, sweep};
use tokio_util::sync::CancellationToken;

use crate::farm::Farm;

fn main() {
    farm::run(100_000, measure);
}

async fn measure(farm: Farm) {
    let before = resident("VmRSS:");
    for round in ["first pass", "second pass, nothing idle"] {
        let (cpu, sql) = (cpu_ms(), sql_us());
        let report = sweep(&farm.tools, Request::all(Trigger::Manual), CancellationToken::new()).await.unwrap();
        let idle = report.part(PartName::Idle);
        let (cpu, sql) = (cpu_ms() - cpu, (sql_us() - sql) / 1_000);
        println!(
            "{round}: {} open, {} idle examined, {} reaped, {} ms wall, {cpu} ms processor time, of which {sql} ms in SQLite",
            farm.sessions, idle.examined, idle.reaped, report.elapsed_ms,
        );
    }
    println!("memory: {} MiB before the passes, {} MiB at the most", before / 1_024, resident("VmHWM:") / 1_024);
}

/// Reads a figure of this process in KiB.
fn resident(figure: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Reads the processor time that this process has used.
fn cpu_ms() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Reads the processor time of the threads that run SQLite, in microseconds.
fn sql_us() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let of_sqlite = threads.filter(|thread| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("sqlx-sqlite"))
    });
    let spent = of_sqlite.map(|thread| {
        let stat = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
        stat.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
    });
    spent.sum::<u64>() / 1_000
}
