//! `sexton send`: a message to a session's engine.

use anyhow::bail;

use crate::cli::Context;
use crate::cli::args::SendArgs;
use crate::cli::output::{self, Outcome, escape};
use crate::session::Id;
use crate::tools::Tools;
use crate::verbs::{self, Message, VerbError};

/// Gives the engine a message; done once its runner took it.
///
/// # Errors
/// When it was not, or may not have been, delivered.
pub(crate) async fn run(context: &Context, tools: &Tools, args: SendArgs) -> anyhow::Result<Outcome> {
    let message = Message::new(args.text);
    let sent = if args.resume {
        let actor = verbs::person(tools, &context.owner(&tools.store).await?);
        verbs::send_resuming(tools, &args.id, &message, &actor).await
    } else {
        verbs::send(tools, &args.id, &message).await
    };
    let session = match sent {
        Err(VerbError::Ended { id, .. }) => bail!("{}", ended(tools, &id).await?),
        sent => sent?.session,
    };
    output::line(format_args!("Runner {} took the message for session {}.", session.runner_id, session.id))?;
    Ok(Outcome::Done)
}

/// Says why a message was not delivered, and how it would be.
async fn ended(tools: &Tools, id: &Id) -> anyhow::Result<String> {
    let farewell = verbs::farewell(tools, id).await?;
    let offer = if farewell.may_resume {
        format!("`sexton send --resume {id} TEXT` starts its engine again with its conversation")
    } else {
        "its engine told no id of its conversation, so it cannot be resumed".to_owned()
    };
    let story = farewell.story.unwrap_or_default();
    Ok(format!("{}, and the message was not delivered; {offer}. {}", farewell.how, escape(&story)))
}
