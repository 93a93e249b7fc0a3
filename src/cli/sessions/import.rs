//! `sexton sessions import`: sessions of another system, all of the file or nothing.

use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};

use crate::cli::Context;
use crate::cli::output::{self, Outcome};
use crate::import::parse_line;
use crate::session::Session;
use crate::store::Imported;
use crate::timeline;
use crate::tools::Tools;
use crate::verbs;

/// Imports the file; `-` is standard input.
///
/// # Errors
/// Names the first line that does not fit and why; nothing was imported then.
pub(crate) async fn run(context: &Context, tools: &Tools, file: &Path) -> anyhow::Result<Outcome> {
    let name = if file == Path::new("-") { "standard input".into() } else { file.display().to_string() };
    let bytes = read(file).with_context(|| format!("cannot read {name}"))?;
    let lines = parse(&bytes).map_err(|fault| anyhow!("{name} {fault}; nothing was imported"))?;
    let sessions: Vec<Session> = lines.iter().map(|(_, session)| session.clone()).collect();
    let (owner, now) = (owner(context, tools, &lines).await?, tools.clock.now());
    let actor = verbs::person(tools, &owner);
    let imported =
        tools.store.import_sessions(&sessions, &owner, |row| Some(timeline::imported(row, &actor, now))).await?;
    match imported {
        Imported::Done => {
            let plural = if sessions.len() == 1 { "" } else { "s" };
            output::line(format_args!("Imported {} session{plural}.", sessions.len()))?;
            Ok(Outcome::Done)
        }
        Imported::Refused { index, why } => {
            let number = lines.get(index).map_or(0, |(number, _)| *number);
            bail!("{name} line {number}: {why}; nothing was imported")
        }
    }
}

/// Returns whose the rows are that name no owner: the configured one's, else whose the store is already, else the first
/// one's that the file names, else whoever runs this.
async fn owner(context: &Context, tools: &Tools, lines: &[(usize, Session)]) -> anyhow::Result<String> {
    let is_somebodys = !context.config.owner.is_empty() || tools.store.find_owner().await?.is_some();
    let named = lines.iter().find_map(|(_, row)| row.owner_id.clone()).filter(|_| !is_somebodys);
    Ok(match named {
        Some(named) => named,
        None => context.owner(&tools.store).await?,
    })
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    std::fs::read(file)
}

/// Reads every line that is not blank, each with its number from 1; a fault names the first line that does not fit, and
/// counts the others.
fn parse(bytes: &[u8]) -> Result<Vec<(usize, Session)>, String> {
    let (mut sessions, mut first, mut others) = (Vec::new(), None, 0_usize);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let read = match std::str::from_utf8(line).map(str::trim) {
            Ok("") => continue,
            Ok(text) => parse_line(text),
            Err(_) => Err("it is not UTF-8 text".to_owned()),
        };
        match read {
            Ok(session) => sessions.push((index + 1, session)),
            Err(why) if first.is_none() => first = Some(format!("line {}: {why}", index + 1)),
            Err(_) => others += 1,
        }
    }
    match (first, others) {
        (None, _) => Ok(sessions),
        (Some(fault), 0) => Err(fault),
        (Some(fault), 1) => Err(format!("{fault} (and 1 more line that does not fit)")),
        (Some(fault), others) => Err(format!("{fault} (and {others} more lines that do not fit)")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    const GOOD: &str = r#"{"id":"a","runner_id":"r","repo":"/x","engine":"e","status":"active"}"#;

    #[test]
    fn lines_are_numbered_from_one_and_blank_ones_count() {
        let file = format!("\n{GOOD}\r\n\n  \n{}", GOOD.replace("\"a\"", "\"b\""));
        let read = parse(file.as_bytes()).unwrap();
        let numbers: Vec<usize> = read.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 5]);
    }

    #[test]
    fn the_first_fault_is_named_and_the_others_are_counted() {
        let file = format!("{GOOD}\n{{}}\nnonsense\n");
        let fault = parse(file.as_bytes()).unwrap_err();
        assert!(fault.starts_with("line 2: missing field") && fault.contains("1 more line"), "{fault}");
        let fault = parse(b"\xff\n").unwrap_err();
        assert_eq!(fault, "line 1: it is not UTF-8 text");
    }

    #[test]
    fn an_empty_file_holds_no_sessions() {
        assert_eq!(parse(b"").unwrap().len(), 0);
    }
}
