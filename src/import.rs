//! Reading sessions of another system from JSON lines, one row a line. Pure: nothing is stored here.

use serde::Deserialize;

use crate::session::{ActivityKind, Id, Session, Status};
use crate::time::{Ms, UtcMs};

/// The public columns, with whole milliseconds for times.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Id,
    runner_id: Id,
    owner_id: Option<String>,
    repo: String,
    engine: String,
    engine_session_id: Option<String>,
    status: Status,
    generation: Option<i64>,
    reopened: Option<i64>,
    started_at: Option<i64>,
    attached_at: Option<i64>,
    updated_at: Option<i64>,
    last_activity_at: Option<i64>,
    last_activity_kind: Option<ActivityKind>,
    driver: Option<String>,
    driver_at: Option<i64>,
    keep_until: Option<i64>,
    keep_reason: Option<String>,
    idle_after_ms: Option<Ms>,
    next_check_at: Option<i64>,
    ended_at: Option<i64>,
    end_reason: Option<String>,
}

/// Reads one line: a JSON object of the public columns of `sessions`. `id`, `runner_id`, `repo`, `engine` and `status`
/// must be there; `generation` is 1 and `reopened` 0 where they are missing.
///
/// # Errors
/// Says in one sentence what does not fit.
pub fn parse_line(text: &str) -> Result<Session, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| explain(&error))?;
    line.check()?;
    Ok(Session {
        id: line.id,
        runner_id: line.runner_id,
        owner_id: line.owner_id,
        repo: line.repo,
        engine: line.engine,
        engine_session_id: line.engine_session_id,
        status: line.status,
        generation: line.generation.unwrap_or(1),
        reopened: line.reopened.unwrap_or(0),
        started_at: time("started_at", line.started_at)?,
        attached_at: time("attached_at", line.attached_at)?,
        updated_at: time("updated_at", line.updated_at)?,
        last_activity_at: time("last_activity_at", line.last_activity_at)?,
        last_activity_kind: line.last_activity_kind,
        driver: line.driver,
        driver_at: time("driver_at", line.driver_at)?,
        keep_until: time("keep_until", line.keep_until)?,
        keep_reason: line.keep_reason,
        idle_after_ms: line.idle_after_ms,
        next_check_at: time("next_check_at", line.next_check_at)?,
        ended_at: time("ended_at", line.ended_at)?,
        end_reason: line.end_reason,
    })
}

impl Line {
    fn check(&self) -> Result<(), String> {
        for (column, text) in
            [("repo", Some(&self.repo)), ("engine", Some(&self.engine)), ("owner_id", self.owner_id.as_ref())]
        {
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(format!("{column} is empty"));
            }
        }
        for (column, value, least) in [
            ("generation", self.generation, 1),
            ("reopened", self.reopened, 0),
            ("idle_after_ms", self.idle_after_ms, 1),
        ] {
            if let Some(value) = value.filter(|value| *value < least) {
                return Err(format!("{column} is {value}, but must be {least} or more"));
            }
        }
        match (self.status, self.ended_at, &self.end_reason) {
            (Status::Ended, None, _) => Err("status is ended, but ended_at is missing".to_owned()),
            (Status::Starting | Status::Active, Some(_), _) => {
                Err(format!("status is {}, but ended_at is given", self.status))
            }
            (Status::Starting | Status::Active, None, Some(_)) => {
                Err(format!("status is {}, but end_reason is given", self.status))
            }
            _ => Ok(()),
        }
    }
}

/// The end of the year 9999, the last that a time can be written for.
const LATEST: i64 = 253_402_300_799_999;
/// Whole seconds since 1970 between 2001 and 2286 lie here; as milliseconds they would be days of 1970.
const SECONDS: std::ops::RangeInclusive<i64> = 1_000_000_000..=9_999_999_999;

/// Reads a time; one that is in seconds is refused, since a session would look idle since 1970.
fn time(column: &str, value: Option<i64>) -> Result<Option<UtcMs>, String> {
    match value {
        Some(ms) if SECONDS.contains(&ms) => {
            Err(format!("{column} is {ms}, which looks like seconds; times are whole milliseconds since 1970"))
        }
        Some(ms) if !(0..=LATEST).contains(&ms) => {
            Err(format!("{column} is {ms}, which is no time in whole milliseconds since 1970"))
        }
        other => Ok(other.map(UtcMs)),
    }
}

/// A line's number is the caller's to tell, so only the column of the parser's place is of use.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line ") {
        Some((what, _)) => format!("{what} (at column {})", error.column()),
        None => text,
    }
}
