//! Reading sessions of another system from JSON lines, one row a line. Pure: nothing is stored here.

use serde::Deserialize;

use crate::session::{ActivityKind, Id, Session, Status};
use crate::time::{HOUR, Ms, UtcMs};

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
        if self.idle_after_ms.is_some_and(|window| window > LONGEST_WINDOW) {
            return Err(format!("idle_after_ms must be {LONGEST_WINDOW} (ten years) or less"));
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

/// Ten years: a window beyond that is a slip, and one without end is a request to keep.
const LONGEST_WINDOW: Ms = 10 * 365 * 24 * HOUR;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A line that fits.
    fn line() -> Value {
        json!({
            "id": "a", "runner_id": "mac", "owner_id": "ann", "repo": "/src/app", "engine": "claude",
            "engine_session_id": "e", "status": "active", "generation": 2, "reopened": 1,
            "started_at": 1_800_000_000_000_i64, "attached_at": 1_800_000_000_000_i64,
            "updated_at": 1_800_000_000_000_i64, "last_activity_at": 1_800_000_000_000_i64,
            "last_activity_kind": "message", "driver": "ann", "driver_at": 1_800_000_000_000_i64,
            "keep_until": 1_800_000_000_000_i64, "keep_reason": "lunch", "idle_after_ms": 1_000,
            "next_check_at": null, "ended_at": null, "end_reason": null
        })
    }

    fn with(column: &str, value: Value) -> Result<Session, String> {
        let mut line = line();
        line[column] = value;
        parse_line(&line.to_string())
    }

    #[test]
    fn a_full_line_and_a_bare_one_are_read() {
        let full = parse_line(&line().to_string()).unwrap();
        assert_eq!((full.generation, full.last_activity_at), (2, Some(UtcMs(1_800_000_000_000))));
        let bare = r#"{"id":"a","runner_id":"mac","repo":"/src","engine":"claude","status":"active"}"#;
        let bare = parse_line(bare).unwrap();
        assert_eq!((bare.generation, bare.reopened, bare.owner_id, bare.last_activity_at), (1, 0, None, None));
    }

    #[test]
    fn a_line_that_does_not_fit_is_refused_in_one_sentence() {
        for (column, value, expected) in [
            ("id", json!("a b"), "\"a b\" is not an id"),
            ("id", json!(null), "invalid type: null"),
            ("runner_id", json!(""), "is not an id"),
            ("repo", json!(" "), "repo is empty"),
            ("owner_id", json!(""), "owner_id is empty"),
            ("status", json!("asleep"), "unknown variant `asleep`"),
            ("generation", json!(0), "generation is 0, but must be 1 or more"),
            ("reopened", json!(-1), "reopened is -1"),
            ("idle_after_ms", json!(0), "idle_after_ms is 0"),
            ("idle_after_ms", json!(i64::MAX), "(ten years) or less"),
            ("last_activity_at", json!("2027-01-15T08:00:00Z"), "invalid type: string"),
            ("last_activity_at", json!(1.5), "invalid type: floating point"),
            ("last_activity_at", json!(-1), "last_activity_at is -1"),
            ("last_activity_at", json!(1_800_000_000), "looks like seconds"),
            ("last_activity_at", json!(1_800_000_000_000_000_i64), "is no time in whole milliseconds"),
            ("last_activity_kind", json!("nap"), "unknown variant `nap`"),
            ("ended_at", json!(1_800_000_000_000_i64), "status is active, but ended_at is given"),
            ("end_reason", json!("idle"), "status is active, but end_reason is given"),
            ("status", json!("ended"), "status is ended, but ended_at is missing"),
            ("opened_by", json!("ann"), "unknown field `opened_by`"),
        ] {
            let error = with(column, value.clone()).unwrap_err();
            assert!(error.contains(expected), "{column} {value}: {error}");
            assert!(!error.contains("line 1") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "null", "[]", "{", "7", "{\"id\":\"a\",\"id\":\"b\"}"] {
            assert!(parse_line(text).is_err(), "{text}");
        }
    }
}
