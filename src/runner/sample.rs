//! Small engines that speak the generic line form: `sexton sample-engine KIND [MS…]`, for the demonstration and tests.
//!
//! Every kind takes messages, one turn each, and leaves when its input ends, unless said otherwise.
//!
//! | kind | does |
//! |---|---|
//! | `idle` | takes one turn, then waits |
//! | `background MS` | takes one turn, and leaves a background task behind that ends after MS |
//! | `wakes MS FOR` | takes one turn, then begins another one after MS, unannounced, that lasts FOR |
//! | `plans MS FOR` | as `wakes`, but announces it |
//! | `asks` | takes one turn and asks a question |
//! | `stalls` | begins a turn and never speaks again |
//! | `ticks MS` | takes one turn, then writes a line every MS that is no work |
//! | `plain` | never tells its turns: echoes what it reads |
//! | `puppet` | writes the text of each message as a line of its own |
//! | `fails` | complains on standard error and leaves at once |
//! | `acp` | no kind of the line form: a small agent of the Agent Client Protocol |
//! | `stays` | as `idle`, but stays when its input ends |

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::runner::sample_agent;

/// Runs the sample engine that `args` names.
pub fn main(args: &[String]) -> ExitCode {
    let number =
        |at: usize| args.get(at).and_then(|text| text.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
    match args.first().map(String::as_str) {
        Some("idle") => first_turn(),
        Some("acp") => return sample_agent::main(),
        Some("background") => background(number(1)),
        Some("wakes") => wakes(number(1), number(2)),
        Some("plans") => {
            say(&json!({"type": "wake_scheduled", "in_ms": number(1).as_millis()}));
            wakes(number(1), number(2));
        }
        Some("asks") => {
            first_turn();
            say(&json!({"type": "awaiting_input"}));
        }
        Some("stalls") => say(&json!({"type": "turn_started"})),
        Some("ticks") => ticks(number(1)),
        Some("plain" | "puppet") => {}
        Some("stays") => {
            first_turn();
            answer_messages("idle");
            loop {
                thread::park();
            }
        }
        Some("fails") => {
            let _ = writeln!(io::stderr(), "sample engine: no licence found");
            return ExitCode::from(3);
        }
        _ => {
            let _ = writeln!(io::stderr(), "sample engine: there is no such kind");
            return ExitCode::from(2);
        }
    }
    answer_messages(args.first().map_or("idle", String::as_str));
    ExitCode::SUCCESS
}

fn first_turn() {
    say(&json!({"type": "session", "engine_session_id": format!("sample-{}", std::process::id())}));
    turn("ready", Duration::ZERO);
}

fn turn(text: &str, lasting: Duration) {
    say(&json!({"type": "turn_started"}));
    say(&json!({"type": "output", "text": text}));
    thread::sleep(lasting);
    say(&json!({"type": "turn_ended"}));
}

fn background(lasting: Duration) {
    say(&json!({"type": "background_started", "id": "task-1"}));
    first_turn();
    thread::spawn(move || {
        thread::sleep(lasting);
        say(&json!({"type": "background_ended", "id": "task-1"}));
    });
}

fn wakes(after: Duration, lasting: Duration) {
    first_turn();
    thread::spawn(move || {
        thread::sleep(after);
        turn("woke up", lasting);
    });
}

fn ticks(every: Duration) {
    first_turn();
    thread::spawn(move || {
        loop {
            thread::sleep(every.max(Duration::from_millis(1)));
            say(&json!({"type": "output", "text": "tick"}));
        }
    });
}

fn answer_messages(kind: &str) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = message.get("text").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "puppet" | "plain" => write_line(text),
            _ => turn(text, Duration::ZERO),
        }
    }
}

fn say(line: &Value) {
    write_line(&line.to_string());
}

/// A reader that is gone ends an engine anyway.
fn write_line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
