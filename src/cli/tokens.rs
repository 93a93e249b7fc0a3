//! `sexton tokens`: who may use the API.

use anyhow::{anyhow, bail};
use comfy_table::Cell;
use serde_json::{Value, json};

use crate::cli::args::{TokensArgs, TokensCommand};
use crate::cli::output::{self, Outcome, cell};
use crate::store::Token;
use crate::token::{self, Scopes, Secret};
use crate::tools::Tools;

/// Lists tokens, makes one, or revokes one.
///
/// # Errors
/// When the wish cannot be met, or the store fails.
pub(crate) async fn run(tools: &Tools, args: TokensArgs) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(tools, args.json).await,
        Some(TokensCommand::Create { owner, scope, json }) => {
            let secret = create(tools, &owner, &scope).await?;
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

/// Makes a token, and keeps its hash.
///
/// # Errors
/// When the owner or the scope cannot be taken, or the store fails.
pub(crate) async fn create(tools: &Tools, owner: &str, scopes: &Scopes) -> anyhow::Result<Secret> {
    let (row, secret) = token::create(owner, scopes, tools.clock.now()).map_err(|why| anyhow!(why))?;
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
