//! `sexton config`: every setting as it holds now, without what must not be shown around.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::args::JsonArgs;
use crate::cli::output::{self, Outcome, escape};
use crate::config::render;

/// Prints the effective settings.
///
/// # Errors
/// When nobody reads any more.
pub(crate) fn run(context: &Context, args: JsonArgs) -> anyhow::Result<Outcome> {
    let text = render(&context.config);
    if args.json {
        let settings: Value = toml::from_str(&text).context("the settings cannot be printed as JSON")?;
        output::json(&json!({ "file": context.file, "settings": settings }))?;
        return Ok(Outcome::Done);
    }
    let file = context.file.as_ref().map(|path| path.display().to_string());
    output::line(format_args!("# Settings file: {}", escape(file.as_deref().unwrap_or("none, only the defaults"))))?;
    // TOML itself escapes control characters in its strings.
    output::line(text.trim_end())?;
    Ok(Outcome::Done)
}
