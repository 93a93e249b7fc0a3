//! `sexton send`: a message to a session's engine.

use crate::cli::Context;
use crate::cli::args::SendArgs;
use crate::cli::ids;
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
    let id = ids::whole(tools, &args.id).await?;
    let sent = if args.resume {
        let actor = verbs::person(tools, &context.owner(&tools.store).await?);
        verbs::send_resuming(tools, &id, &message, &actor).await
    } else {
        verbs::send(tools, &id, &message).await
    };
    let session = match sent {
        Err(VerbError::Ended { id, .. }) => return Err(ended(tools, &id).await?.into()),
        sent => sent?.session,
    };
    output::line(format_args!("Runner {} took the message for session {}.", session.runner_id, session.id))?;
    Ok(Outcome::Done)
}

/// Says why a message was not delivered, and how it would be.
async fn ended(tools: &Tools, id: &Id) -> Result<VerbError, VerbError> {
    let farewell = verbs::farewell(tools, id).await?;
    let offer = if farewell.may_resume {
        format!("`sexton send --resume {id} TEXT` starts its engine again with its conversation")
    } else {
        "its engine told no id of its conversation, so it cannot be resumed".to_owned()
    };
    let (how, story) = (farewell.how, escape(&farewell.story.unwrap_or_default()));
    Ok(VerbError::Conflict(format!("{how}, and the message for {id} was not delivered; {offer}. {story}")))
}
