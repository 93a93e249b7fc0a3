//! The pieces that sentences are made of.

use crate::protocol::{Ended, ResumeCommand};
use crate::session::{ActivityKind, Session};
use crate::time::{MINUTE, Ms, UtcMs, spoken};

pub(super) fn quiet(session: &Session, now: UtcMs) -> String {
    session.last_used().map_or_else(|| "an unknown time".to_owned(), |at| spoken(now.since(at)))
}

/// `6 h 3 min with no activity (last: capture poll, 09:14 UTC)`; `idle_ms` is for how long the engine itself had been silent
/// by then, where its runner told: what the row, which
/// may be a minute behind, does not know of was the engine's own work.
pub(super) fn silence(session: &Session, idle_ms: Option<Ms>, now: UtcMs) -> String {
    let row = session.last_used();
    let engine = idle_ms.map(|ms| now.minus(ms)).filter(|at| row.is_some_and(|row| at.since(row) > MINUTE));
    let clock = |at: Option<UtcMs>| {
        let text = at.map(|at| at.to_string()).unwrap_or_default();
        text.get(11..16).unwrap_or("unknown").to_owned()
    };
    match engine {
        Some(at) => {
            let kind = activity(ActivityKind::Engine);
            format!("{} with no activity (last: {kind}, {} UTC)", spoken(now.since(at)), clock(engine))
        }
        None => {
            let kind = session.last_activity_kind.map_or("use of an unknown kind", activity);
            format!("{} with no activity (last: {kind}, {} UTC)", quiet(session, now), clock(row))
        }
    }
}

fn activity(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Capture => "capture poll",
        ActivityKind::Message => "message",
        ActivityKind::Run => "run",
        ActivityKind::Copilot => "co-pilot turn",
        ActivityKind::Timeline => "timeline read",
        ActivityKind::Engine => "output of the engine",
        ActivityKind::Start => "start",
        ActivityKind::Keep => "request to keep it",
    }
}

/// `The engine left on its own 1.2 s after stdin closed; 412 MB freed.`
pub(super) fn how_it_left(ended: &Ended) -> Option<String> {
    let after = |stage: &str| ended.stages.iter().find(|taken| taken.stage == stage).map(|taken| taken.at_ms);
    let gone = after("empty");
    let means = [
        ("sigkill", "The engine had to be killed and was gone", "after SIGKILL"),
        ("sigterm_tree", "The engine left", "after SIGTERM to all its processes"),
        ("sigterm_engine", "The engine left", "after SIGTERM"),
        ("stdin_closed", "The engine left on its own", "after stdin closed"),
    ];
    let how = means.into_iter().find_map(|(stage, text, since)| {
        let began = after(stage)?;
        Some(match gone {
            Some(at) => format!("{text} {} {since}", spoken((at - began).max(0))),
            None => format!("{text} {since}"),
        })
    });
    let freed = ended.freed_bytes.filter(|bytes| *bytes > 0).map(|bytes| format!("{} freed", size(bytes)));
    let exit = ended.exit.as_ref().filter(|_| ended.detail.is_none()).and_then(|exit| match (exit.code, exit.signal) {
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => None,
    });
    let parts: Vec<String> = if how.is_some() {
        [how, freed].into_iter().flatten().collect()
    } else {
        [exit, freed].into_iter().flatten().collect()
    };
    let left = ended.not_freed.join(", ");
    let tail = (!left.is_empty()).then(|| format!("Not freed: {left}."));
    let head = (!parts.is_empty()).then(|| format!("{}.", capital(&parts.join("; "))));
    match (head, tail) {
        (None, None) => None,
        (head, tail) => Some(join([head, tail, None, None])),
    }
}

pub(super) fn resume(resume: &ResumeCommand) -> String {
    let words: Vec<String> = resume.command.iter().map(|word| quoted(word)).collect();
    format!("Continue with: `{}` in {}", words.join(" "), resume.cwd)
}

/// Writes a word of a command so that a shell reads it as that one word, whatever an engine made of its id.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Writes a size for a sentence, in decimal units as memory is sold: `412 MB`, `1.3 GB`.
#[must_use]
pub fn size(bytes: i64) -> String {
    const MB: i64 = 1_000_000;
    match bytes {
        ..0 => "0 MB".to_owned(),
        b if b >= 1_000 * MB => format!("{}.{} GB", b / (1_000 * MB), b % (1_000 * MB) / (100 * MB)),
        b if b >= 10 * MB => format!("{} MB", b / MB),
        b => format!("{}.{} MB", b / MB, b % MB / (MB / 10)),
    }
}

pub(super) fn full_stop(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

pub(super) fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
