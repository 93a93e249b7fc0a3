//! The generic line form: any program that writes JSON lines and reads them; `docs/engines.md` describes it.

use serde::Deserialize;

use crate::protocol::ResumeCommand;
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, Written, configured_resume};
use crate::runner::settings::EngineSpec;
use crate::time::Ms;

/// An engine that speaks the generic line form.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lines;

/// What a line may say. A line that does not fit is output.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    engine_session_id: Option<String>,
    #[serde(default)]
    in_ms: Option<Ms>,
}

impl Lines {
    fn event(line: &[u8]) -> Event {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { return Event::Output { task: None } };
        match (line.kind.as_str(), line.id, line.engine_session_id, line.in_ms) {
            ("session", _, Some(id), _) => Event::Session(id),
            ("turn_started", ..) => Event::TurnStarted,
            ("turn_ended", ..) => Event::TurnEnded,
            ("background_started", Some(id), ..) => Event::BackgroundStarted(id),
            ("background_ended", Some(id), ..) => Event::BackgroundEnded(id),
            ("awaiting_input", ..) => Event::AwaitingInput,
            ("input_received", ..) => Event::InputReceived,
            ("wake_scheduled", _, _, Some(ms)) => Event::WakeScheduled(ms),
            ("wake_cleared", ..) => Event::WakeCleared,
            ("status", ..) => Event::Status,
            (_, task, ..) => Event::Output { task },
        }
    }
}

impl Adapter for Lines {
    /// A conversation that is to be taken up again runs the command for that, where the configuration has one.
    fn command(&self, spec: &EngineSpec, opening: &Opening) -> Vec<String> {
        let resume = configured_resume(spec, opening.engine_session_id.as_deref(), &opening.cwd);
        resume.map_or_else(|| spec.command.clone(), |resume| resume.command)
    }

    fn read(&mut self, line: &[u8]) -> Exchange {
        Exchange { events: vec![Self::event(line)], write: Vec::new() }
    }

    /// The `text` of output that has one, else the line itself; a line that says what the engine does is no text.
    fn written(&self, line: &[u8]) -> Option<Written> {
        #[derive(Deserialize)]
        struct Output {
            text: String,
        }
        if !matches!(Self::event(line), Event::Output { .. }) {
            return None;
        }
        let text = serde_json::from_slice(line).map(|Output { text }| text);
        Some(Written::whole(text.unwrap_or_else(|_| String::from_utf8_lossy(line).into_owned())))
    }

    fn message(&mut self, text: &str) -> Exchange {
        let line = serde_json::json!({"type": "message", "text": text});
        Exchange { events: Vec::new(), write: vec![format!("{line}\n")] }
    }

    fn interrupt(&mut self) -> Interrupt {
        Interrupt::Signal
    }

    /// By its `resume` command, and by nothing else.
    fn takes_up(&self, spec: &EngineSpec) -> bool {
        !spec.resume.is_empty()
    }

    fn resume(&self, spec: &EngineSpec, engine_session_id: Option<&str>, cwd: &str) -> Option<ResumeCommand> {
        configured_resume(spec, engine_session_id, cwd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_one_meaning_and_the_rest_is_output() {
        let id = || "b1".to_owned();
        let cases = [
            (r#"{"type":"session","engine_session_id":"b1"}"#, Event::Session(id())),
            (r#"{"type":"turn_started"}"#, Event::TurnStarted),
            (r#"{"type":"turn_ended","extra":[1]}"#, Event::TurnEnded),
            (r#"{"type":"background_started","id":"b1"}"#, Event::BackgroundStarted(id())),
            (r#"{"type":"background_ended","id":"b1"}"#, Event::BackgroundEnded(id())),
            (r#"{"type":"awaiting_input"}"#, Event::AwaitingInput),
            (r#"{"type":"input_received"}"#, Event::InputReceived),
            (r#"{"type":"wake_scheduled","in_ms":5}"#, Event::WakeScheduled(5)),
            (r#"{"type":"wake_cleared"}"#, Event::WakeCleared),
            (r#"{"type":"status"}"#, Event::Status),
            (r#"{"type":"output","id":"b1"}"#, Event::Output { task: Some(id()) }),
            (r#"{"type":"background_started"}"#, Event::Output { task: None }),
            (r#"{"type":"wake_scheduled","in_ms":"soon"}"#, Event::Output { task: None }),
            (r#"{"type":7}"#, Event::Output { task: None }),
            ("plain text", Event::Output { task: None }),
            ("", Event::Output { task: None }),
        ];
        for (line, expected) in cases {
            assert_eq!(Lines::event(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(Lines::event(b"\xff\xfe"), Event::Output { task: None });
    }

    #[test]
    fn the_text_of_output_is_told_and_no_line_that_only_tells_a_state() {
        let text = |line: &str| Lines.written(line.as_bytes());
        assert_eq!(text(r#"{"type":"output","text":"two\nlines"}"#), Some(Written::whole("two\nlines".to_owned())));
        assert_eq!(text("plain"), Some(Written::whole("plain".to_owned())));
        assert_eq!(text(r#"{"type":"output","n":1}"#), Some(Written::whole(r#"{"type":"output","n":1}"#.to_owned())));
        assert_eq!(text(r#"{"type":"turn_started"}"#), None);
    }

    #[test]
    fn a_message_is_one_line_whatever_it_says() {
        let exchange = Lines.message("two\nlines \"quoted\"");
        assert_eq!(exchange.write.concat().matches('\n').count(), 1);
    }

    #[test]
    fn a_conversation_is_resumed_only_where_the_configuration_says_how() {
        let spec = EngineSpec { resume: vec!["x".into(), "--id={engine_session_id}".into()], ..EngineSpec::default() };
        let resume = Lines.resume(&spec, Some("7"), "/src").unwrap();
        assert_eq!((resume.command, resume.cwd), (vec!["x".to_owned(), "--id=7".to_owned()], "/src".to_owned()));
        assert_eq!(Lines.resume(&spec, None, "/src"), None);
        assert_eq!(Lines.resume(&EngineSpec::default(), Some("7"), "/src"), None);
    }
}
