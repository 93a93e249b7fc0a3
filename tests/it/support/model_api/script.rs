//! What a conversation tells the model to do: its directives, read from the last message of the user.

use std::time::Duration;

use serde_json::{Value, json};

/// One item of a conversation, of either API.
pub(crate) enum Item {
    /// A text of the user, or of the engine in the user's name.
    User(String),
    /// The result of a tool.
    Result,
    /// Anything of the model.
    Model,
}

/// What the model does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Says a text.
    Say(String),
    /// Says it in pieces for so long.
    Slow(Duration),
    /// Runs a command, in the background or not.
    Shell {
        /// The command.
        command: String,
        /// Whether the turn goes on without it.
        background: bool,
    },
    /// Calls a tool.
    Tool(String, Value),
    /// Begins and never goes on.
    Stall,
    /// Refuses with a status.
    Refuse(u16),
}

/// Returns what the model does next, which is one thing or several tools at once.
pub(crate) fn next(items: &[Item]) -> Vec<Act> {
    for item in items.iter().rev() {
        match item {
            Item::Result => return vec![Act::Say("done".to_owned())],
            Item::Model => break,
            Item::User(text) => {
                let acts: Vec<Act> = text.lines().filter_map(|line| act(line.trim(), items)).collect();
                if !acts.is_empty() {
                    return acts;
                }
            }
        }
    }
    vec![Act::Say("noted".to_owned())]
}

/// Returns what came last, in words: the user's texts, or that it was a tool's result.
pub(crate) fn last(items: &[Item]) -> String {
    let texts = items.iter().rev().map_while(|item| match item {
        Item::User(text) => Some(text.as_str()),
        Item::Result | Item::Model => None,
    });
    let mut texts: Vec<&str> = texts.collect();
    texts.reverse();
    if texts.is_empty() { "tool result".to_owned() } else { texts.join("\n") }
}

fn act(line: &str, items: &[Item]) -> Option<Act> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let ms = || rest.trim().parse::<u64>().unwrap_or(1_000);
    let sleep = || {
        let ms = ms();
        format!("sleep {}.{:03}", ms / 1_000, ms % 1_000)
    };
    Some(match word {
        "@say" => Act::Say(rest.to_owned()),
        "@recall" => Act::Say(format!("recalled: {}", said(items).join(" | "))),
        "@run" => Act::Shell { command: sleep(), background: false },
        "@bg" => Act::Shell { command: sleep(), background: true },
        "@sh" => Act::Shell { command: rest.to_owned(), background: false },
        "@bgsh" => Act::Shell { command: rest.to_owned(), background: true },
        "@tool" => {
            let (name, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
            Act::Tool(name.to_owned(), serde_json::from_str(input).unwrap_or_else(|_| json!({})))
        }
        "@slow" => Act::Slow(Duration::from_millis(ms())),
        "@stall" => Act::Stall,
        "@err" => Act::Refuse(rest.trim().parse().unwrap_or(400)),
        _ => return None,
    })
}

/// Returns what the user let the model say so far.
fn said(items: &[Item]) -> Vec<String> {
    let texts = items.iter().filter_map(|item| match item {
        Item::User(text) => Some(text),
        Item::Result | Item::Model => None,
    });
    texts
        .flat_map(|text| text.lines())
        .filter_map(|line| line.trim().strip_prefix("@say "))
        .map(str::to_owned)
        .collect()
}
