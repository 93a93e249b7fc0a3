//! Part `deliveries`: hand events to webhooks. It stops no engine and closes no row.
//!
//! The timeline is the outbox: first each event that a webhook wants is queued, then what is due is sent. Of a session
//! one event at a time and in order, sessions side by side. At least once: a delivery is claimed before it is sent and
//! noted afterwards, so whatever dies in between leads to a second attempt under the same id.
//!
//! A receiver that hangs costs a pass one attempt: until a webhook has answered once in this pass, one delivery is tried
//! alone, and after a failure to reach it the rest waits for the next pass.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::clock;
use crate::config::WebhookConfig;
use crate::entry::Event;
use crate::report::PartReport;
use crate::session::Id;
use crate::store::{Due, StoreError, Subscription};
use crate::sweep::pass::Pass;
use crate::time::{MINUTE, Ms, SECOND, UtcMs};
use crate::verdict::Verdict;
use crate::webhook::{Failure, Message, Secret, Sender};

/// After this no further attempt begins in a pass.
const BUDGET: Duration = Duration::from_secs(10);

/// How many attempts of one webhook are under way at once.
const AT_ONCE: usize = 8;

/// How many deliveries are looked at in one go.
const PAGE: u32 = 256;

/// How much longer than an attempt may take its claim holds: for what the store needs before and after.
const SLACK: Ms = 30 * SECOND;

/// The wait after the first failed attempt; each further one doubles it.
const FIRST_WAIT: Ms = 10 * SECOND;

/// The longest wait.
const LONGEST_WAIT: Ms = 15 * MINUTE;

/// What came of an attempt.
enum Outcome {
    Delivered,
    /// It failed, and is tried again later.
    Postponed,
    GivenUp(String),
    /// Another pass has it, or it was not begun any more.
    Left,
}

/// One webhook in one pass.
struct Line<'a> {
    pass: &'a Pass,
    hook: &'a WebhookConfig,
    sender: &'a Sender,
    /// When no further attempt begins.
    until: Instant,
    /// Set once the receiver could not be reached: no further attempt begins.
    down: AtomicBool,
    /// Set once the receiver took something: what waits for its return is due.
    up: AtomicBool,
    /// The sessions of what was given up without another attempt, and why.
    overdue: Mutex<Vec<(Id, String)>>,
}

/// Runs the part. A dry run sends and writes nothing, and so has nothing to tell.
pub(crate) async fn sweep(pass: &Pass) -> Result<PartReport, StoreError> {
    let (mut report, hooks) = (PartReport::default(), &pass.config().webhooks);
    if hooks.is_empty() || pass.request.dry_run {
        return Ok(report);
    }
    let wanted: Vec<Subscription> = hooks.iter().map(subscription).collect();
    pass.store().queue_deliveries(&wanted, pass.clock().now()).await?;
    let sender = match Sender::new(pass.config().limits.webhook_timeout) {
        Ok(sender) => sender,
        Err(error) => {
            tracing::error!(sweep_id = %pass.id, error, "nothing is delivered to webhooks");
            return Ok(report);
        }
    };
    let until = clock::timer() + BUDGET;
    let lines = hooks.iter().map(|hook| Line {
        pass,
        hook,
        sender: &sender,
        until,
        down: AtomicBool::new(false),
        up: AtomicBool::new(false),
        overdue: Mutex::default(),
    });
    for served in join_all(lines.map(|line| async move { line.serve().await })).await {
        report.merge(served?);
    }
    Ok(report)
}

fn subscription(hook: &WebhookConfig) -> Subscription {
    let owner = Some(hook.owner.clone()).filter(|owner| !owner.is_empty());
    Subscription { webhook: hook.name.clone(), owner, kinds: hook.events.clone() }
}

impl Line<'_> {
    /// Sends what is due, until nothing is, the receiver cannot be reached, or the time is up.
    async fn serve(&self) -> Result<PartReport, StoreError> {
        let mut report = PartReport::default();
        let mut width = 1;
        while !self.is_over() {
            let mut due = self.pass.store().list_due_deliveries(&self.hook.name, self.now(), PAGE).await?;
            if due.is_empty() {
                break;
            }
            due.truncate(width);
            width = PAGE as usize;
            let attempts = futures_util::stream::iter(due)
                .map(|due| async move { (due.session_id.clone(), self.attempt(&due).await) })
                .buffer_unordered(AT_ONCE);
            for (session, outcome) in attempts.collect::<Vec<_>>().await {
                self.count(&mut report, session, outcome?);
            }
        }
        for (session, why) in self.overdue.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.count(&mut report, session, Outcome::GivenUp(why));
        }
        Ok(report)
    }

    fn now(&self) -> UtcMs {
        self.pass.clock().now()
    }

    /// Returns whether no further attempt is to begin.
    fn is_over(&self) -> bool {
        self.down.load(Ordering::Relaxed) || self.pass.cancel.is_cancelled() || clock::timer() >= self.until
    }

    fn count(&self, report: &mut PartReport, session: Id, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => report.keep(Verdict::Delivered),
            Outcome::Postponed => report.keep(Verdict::Postponed),
            Outcome::GivenUp(why) => {
                report.fail(session, Verdict::GivenUp, given_up(&self.hook.name, &why));
            }
            Outcome::Left => {}
        }
    }

    /// Makes one attempt: claim, send, note.
    async fn attempt(&self, due: &Due) -> Result<Outcome, StoreError> {
        let (store, lease) = (self.pass.store(), self.pass.config().limits.webhook_timeout.0 + SLACK);
        if self.is_over() || !store.claim_delivery(due, self.now().plus(lease)).await? {
            return Ok(Outcome::Left);
        }
        let Some(event) = store.find_event(due.seq).await? else {
            let why = "the event, or the row of its session, is no longer kept";
            return self.give_up(due, why).await;
        };
        match self.send(due, &event).await {
            Ok(()) => {
                store.note_delivered(&due.id, self.now()).await?;
                if !self.up.swap(true, Ordering::Relaxed) {
                    store.retry_unreached(&self.hook.name, self.now()).await?;
                }
                Ok(Outcome::Delivered)
            }
            Err(failure) => self.failed(due, &failure).await,
        }
    }

    async fn send(&self, due: &Due, event: &Event) -> Result<(), Failure> {
        let unsigned = |why| Failure::Unsigned(format!("nothing was sent, since it cannot be signed: {why}"));
        let secret = Secret::read(&self.hook.secret_file).await.map_err(unsigned)?;
        let (id, seconds) = (due.id.as_str(), self.now().0.div_euclid(SECOND));
        let body = json!({
            "id": id, "type": event.entry.kind, "seq": event.seq, "at": event.entry.at,
            "session": event.session, "entry": event.entry,
        });
        let body = body.to_string().into_bytes();
        let signature = secret.sign(id, seconds, &body);
        self.sender.send(&self.hook.url, &Message { id, seconds, signature: &signature, body: &body }).await
    }

    async fn failed(&self, due: &Due, failure: &Failure) -> Result<Outcome, StoreError> {
        let (why, now) = (failure.why(), self.now());
        let overdue = self.is_overdue(due.created_at, now);
        // What another message would not fare better with either, is due again once one gets through.
        let unreached = matches!(failure, Failure::Unreachable(_) | Failure::Unsigned(_));
        if unreached && !self.down.swap(true, Ordering::Relaxed) {
            self.give_up_the_overdue(now, why).await?;
        }
        if overdue {
            return self.give_up(due, why).await;
        }
        if due.attempts == 0 {
            tracing::warn!(webhook = %self.hook.name, session_id = %due.session_id, error = why, "an event was not delivered and is tried again");
        }
        let noted =
            self.pass.store().note_postponed(due, now.plus(wait_after(due.attempts + 1)), (why, unreached)).await?;
        Ok(if noted { Outcome::Postponed } else { Outcome::Left })
    }

    /// Returns whether what was queued at `queued_at` was tried for long enough: in waking time, and not just after a boot
    /// or a wake-up, when this host's own network may be what is missing.
    fn is_overdue(&self, queued_at: UtcMs, now: UtcMs) -> bool {
        let host = self.pass.host();
        host.settled && host.waking_since(queued_at, now) >= self.pass.config().limits.webhook_give_up.0
    }

    async fn give_up(&self, due: &Due, why: &str) -> Result<Outcome, StoreError> {
        if !self.pass.store().note_given_up(due, self.now(), why).await? {
            return Ok(Outcome::Left);
        }
        tracing::error!(webhook = %self.hook.name, session_id = %due.session_id, seq = due.seq, error = why, "an event was given up");
        Ok(Outcome::GivenUp(why.to_owned()))
    }

    /// Gives up all that has waited too long for a receiver that cannot be reached: to try each would take for ever.
    async fn give_up_the_overdue(&self, now: UtcMs, why: &str) -> Result<(), StoreError> {
        let queued_by = now.minus(self.pass.config().limits.webhook_give_up.0);
        if !self.is_overdue(queued_by, now) {
            return Ok(());
        }
        let given_up = self.pass.store().give_up_overdue(&self.hook.name, (now, queued_by), why).await?;
        let mut overdue = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        for session in given_up {
            tracing::error!(webhook = %self.hook.name, session_id = %session, error = why, "an event was given up");
            overdue.push((session, why.to_owned()));
        }
        Ok(())
    }
}

fn given_up(webhook: &Id, why: &str) -> String {
    format!("an event was given up for webhook {webhook}: {why}")
}

/// Returns how long to wait after so many attempts failed.
fn wait_after(attempts: i64) -> Ms {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(20);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_quarter_of_an_hour() {
        let waits: Vec<Ms> = [1, 2, 3, 7, 8, 1_000].map(wait_after).to_vec();
        assert_eq!(waits, [10_000, 20_000, 40_000, 640_000, LONGEST_WAIT, LONGEST_WAIT]);
    }
}
