//! What the model itself writes, out of one line of Claude Code's output. Text of agents below it is left out.

use serde::Deserialize;
use serde_json::Value;

use crate::runner::engines::Written;

/// The fields that text stands in; each may be of any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    #[serde(rename = "type")]
    kind: Value,
    parent_tool_use_id: Value,
    message: Value,
    event: Value,
}

/// Reads a line: a message is whole, and with partial messages its pieces came before it.
pub(super) fn read(line: &[u8]) -> Option<Written> {
    let line: Line = serde_json::from_slice(line).ok().filter(|line: &Line| line.parent_tool_use_id.is_null())?;
    match line.kind.as_str()? {
        "assistant" => {
            let blocks = line.message["content"].as_array()?.iter().filter(|block| block["type"] == "text");
            let text: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
            (!text.is_empty()).then(|| Written::whole(text.join("\n")))
        }
        "stream_event" => {
            let delta = &line.event["delta"];
            let text = delta["text"].as_str().filter(|_| delta["type"] == "text_delta")?;
            Some(Written::More { part: String::new(), text: text.to_owned() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_model_itself_writes_is_text() {
        let delta =
            r#"{"type":"stream_event","event":{"delta":{"type":"text_delta","text":"al"}},"parent_tool_use_id":null}"#;
        assert_eq!(read(delta.as_bytes()), Some(Written::More { part: String::new(), text: "al".to_owned() }));
        let whole = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"alpha"}]}}"#;
        assert_eq!(read(whole.as_bytes()), Some(Written::whole("alpha".to_owned())));
        for other in [
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]},"parent_tool_use_id":"t"}"#,
            r#"{"type":"stream_event","event":{"delta":{"type":"thinking_delta","thinking":"x"}}}"#,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"x"}]}}"#,
            r#"{"type":"assistant","message":7}"#,
            "no json",
        ] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
