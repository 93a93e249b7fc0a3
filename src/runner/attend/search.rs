//! Finding the shim of an engine again that does not answer any more.

use std::io;
use std::time::Duration;

use crate::runner::attend::Attendant;
use crate::runner::link::{self, Link};
use crate::runner::shim::wire::{EXIT, Gone};
use crate::runner::{files, process};

/// How long a shim that does not answer is left alone, at first and at most.
const CALL_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

impl Attendant {
    /// Finds the shim again that does not answer any more; fails with what it left when it is gone.
    ///
    /// Only a lock that is free says that it is gone, and only if the process that was met here as the shim is gone too:
    /// a folder that somebody removed has no lock. One that holds its lock and does not answer is called again, for
    /// ever if need be; until it answers, nobody knows what its engine does.
    pub(super) async fn call_again(&mut self) -> Result<(), Option<Gone>> {
        let mut pause = CALL_AGAIN.0;
        self.session.facts().unread = true;
        loop {
            let folder = self.folder.clone();
            let met = self.session.facts().shim;
            let gone = move || Ok(!met.is_some_and(process::lives) && link::vacant(&folder).is_some());
            if files::aside(gone).await.unwrap_or(false) {
                let exit = self.folder.join(EXIT);
                let gone: Option<Gone> = files::aside(move || files::read_json(&exit)).await.ok().flatten();
                if self.opening.is_some() {
                    self.session.stop_is_over(gone.as_ref());
                }
                if let Some(gone) = &gone {
                    self.hear_out(gone).await;
                }
                return Err(gone);
            }
            match Link::find(&self.folder).await {
                Ok((link, hello)) => {
                    match self.opening.take() {
                        Some(opening) => {
                            self.session.known_to_run(&hello);
                            self.runner.go_on_stopping(&self.session, Some(&hello)).await;
                            self.resume(link, hello, &opening).await;
                        }
                        None => {
                            self.link = Some(link);
                            self.greeted(&hello);
                            self.say_again().await;
                            self.catch_up().await;
                        }
                    }
                    return Ok(());
                }
                Err(error) => self.unanswered(&error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(CALL_AGAIN.1);
        }
    }

    fn unanswered(&self, error: &io::Error) {
        let mut facts = self.session.facts();
        if facts.trouble.is_none() {
            tracing::warn!(session_id = %self.session.id, %error, "the shim of an engine does not answer");
        }
        facts.trouble = Some(format!("its shim does not answer: {error}"));
        facts.unread = true;
    }
}
