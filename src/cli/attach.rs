//! `sexton attach`: what a session's engine says, as it says it.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::activity::{Heard, touch_once};
use crate::attach::{Event, Follower, Live, Looking};
use crate::cli::args::AttachArgs;
use crate::cli::ids;
use crate::cli::output::{self, Outcome, escape};
use crate::cli::signals;
use crate::protocol::OutputLine;
use crate::session::Session;
use crate::tools::Tools;
use crate::verbs::{self, VerbError};

/// Prints the text of the turn that runs, then each line as it comes, until the engine is gone or the person leaves.
/// Somebody looks, so it is a use of the session for as long as it lasts; leaving only leaves.
///
/// # Errors
/// When there is no such session, it had ended before, its runner does not say where it stands, or the store fails.
pub(crate) async fn run(tools: &Tools, args: AttachArgs) -> anyhow::Result<Outcome> {
    let args = AttachArgs { id: ids::whole(tools, &args.id).await?, ..args };
    let left = signals::shutdown()?;
    let session = tools.store.find_session(&args.id).await?.ok_or_else(|| VerbError::NotFound(args.id.clone()))?;
    look(tools, &session).await?;
    let session = tools.store.find_session(&args.id).await?.unwrap_or(session);
    let was_over = !session.is_open();
    let (live, mut follower) = Follower::begin(tools, session, None).await?;
    show(&Event::Live(Box::new(live)), args.json)?;
    let mut looking = Looking::begin(tools.clock.elapsed());
    while let Some(event) = next(&mut follower, &left).await {
        if args.json || !was_over || !matches!(event, Event::Ended { .. }) {
            show(&event, args.json)?;
        }
        if looking.is_due(tools.clock.elapsed())
            && let Some(session) = tools.store.find_session(&args.id).await?
        {
            look(tools, &session).await?;
        }
    }
    if left.is_cancelled() {
        output::remark(format_args!("Detached. The session goes on; `sexton attach {}` comes back.", args.id));
    }
    if was_over && !left.is_cancelled() {
        // Its last words were shown; that there is nothing to be attached to is said all the same.
        verbs::find_open(tools, &args.id).await?;
    }
    Ok(Outcome::Done)
}

/// Returns the next event; none at the end, and when the person leaves.
async fn next(follower: &mut Follower, left: &CancellationToken) -> Option<Event> {
    tokio::select! {
        biased;
        () = left.cancelled() => None,
        event = follower.next() => event,
    }
}

/// Records that somebody looks: runner first, then row. A session that has ended is only read.
async fn look(tools: &Tools, session: &Session) -> Result<(), VerbError> {
    if session.is_open()
        && let Heard::Ended(_) = touch_once(tools, session, Looking::KIND).await?
    {
        verbs::close_if_ended(tools, session).await?;
    }
    Ok(())
}

fn show(event: &Event, json: bool) -> std::io::Result<()> {
    if json {
        let data: Value = serde_json::from_str(&event.data()).unwrap_or_default();
        return output::json_line(&json!({"event": event.name(), "id": event.cursor(), "data": data}));
    }
    match event {
        Event::Live(live) => show_live(live),
        Event::Line { data, .. } => match serde_json::from_str::<OutputLine>(data) {
            Ok(OutputLine { line: Some(line), .. }) => output::line(escape(&line)),
            Ok(OutputLine { hex: Some(hex), .. }) => output::line(format_args!("[no text: {hex}]")),
            Ok(_) | Err(_) => output::line("[a line that is too long to be shown]"),
        },
        Event::Gap { .. } => {
            output::remark("Some of what it said is not kept any more.");
            Ok(())
        }
        Event::Ended { data, .. } => {
            let data: Value = serde_json::from_str(data).unwrap_or_default();
            let reason = data["reason"].as_str().unwrap_or("for an unknown reason");
            output::remark(format_args!("The session has ended ({}).", escape(reason)));
            Ok(())
        }
        Event::Ping => Ok(()),
    }
}

fn show_live(live: &Live) -> std::io::Result<()> {
    live.text.lines().try_for_each(|line| output::line(escape(line)))
}
