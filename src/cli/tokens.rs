//! `sexton tokens`: who may use the API.

use anyhow::{anyhow, bail};
use comfy_table::Cell;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::args::{TokensArgs, TokensCommand};
use crate::cli::output::{self, Outcome, cell};
use crate::store::Token;
use crate::token::{self, Scopes, Secret};
use crate::tools::Tools;

/// Lists tokens, makes one, or revokes one.
///
/// # Errors
/// When the wish cannot be met, or the store fails.
pub(crate) async fn run(context: &Context, tools: &Tools, args: TokensArgs) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(tools, args.json).await,
        Some(TokensCommand::Create { owner, scope, json }) => {
            let secret = create(context, tools, &owner, &scope).await?;
            if json || args.json {
                output::json(&json!({ "token": secret.expose() }))?;
            } else {
                output::line(secret.expose())?;
            }
            Ok(Outcome::Done)
        }
        Some(TokensCommand::Revoke { id }) => {
            if !tools.store.revoke_token(&id, tools.clock.now()).await? {
                bail!("there is no token {id} that could be revoked");
            }
            output::line(format_args!("Token {id} opens nothing any more."))?;
            Ok(Outcome::Done)
        }
    }
}

/// Makes a token for the one owner that this version serves, and keeps its hash.
///
/// # Errors
/// When another owner is named, or the store fails.
pub(crate) async fn create(context: &Context, tools: &Tools, owner: &str, scopes: &Scopes) -> anyhow::Result<Secret> {
    let configured = Some(context.config.owner.clone()).filter(|own| !own.is_empty());
    let own = if configured.is_some() { configured } else { tools.store.find_owner().await? };
    if let Some(own) = own.filter(|own| own != owner) {
        bail!(
            "this version serves one owner on this machine only, and that is {own:?}; name that one, or see the setting `owner`"
        );
    }
    let existing = tools.store.list_tokens().await?;
    let made = token::create(&existing, owner, scopes, tools.clock.now());
    let (row, secret) = made.map_err(|why| anyhow!(why))?;
    tools.store.insert_token(&row).await?;
    Ok(secret)
}

async fn list(tools: &Tools, json: bool) -> anyhow::Result<Outcome> {
    let tokens = tools.store.list_tokens().await?;
    if json {
        output::json(&json!({ "items": tokens, "next": Value::Null }))?;
    } else if tokens.is_empty() {
        output::line("There are no tokens; `sexton tokens create --owner NAME --scope read,use` makes one.")?;
    } else {
        let header = ["TOKEN", "OWNER", "SCOPE", "MADE (UTC)", "REVOKED (UTC)"];
        output::table(&header, tokens.iter().map(row).collect())?;
    }
    Ok(Outcome::Done)
}

fn row(token: &Token) -> Vec<Cell> {
    let revoked = token.revoked_at.map_or_else(|| "-".to_owned(), output::time);
    vec![
        cell(&token.id),
        cell(&token.owner_id),
        cell(&token.scope),
        cell(output::time(token.created_at)),
        cell(revoked),
    ]
}
