//! Do events reach those who wait for them?

use crate::cli::doctor::checks::store::StoreFacts;
use crate::cli::doctor::finding::{Check, Finding, counted};
use crate::store::Queue;
use crate::time::{HOUR, UtcMs, spoken};

const CHECK: Check = Check("webhooks");

/// So long something may wait before that is worth a word.
const LONG: i64 = HOUR;

/// A webhook of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebhookFacts {
    /// Its name.
    pub(crate) name: String,
    /// The file with its secret.
    pub(crate) secret_file: String,
    /// Whether others on this machine may read the secret, or why nobody can.
    pub(crate) secret: Result<bool, String>,
}

/// Every webhook can sign, and takes what it is sent.
pub(crate) fn check(hooks: &[WebhookFacts], store: &StoreFacts, now: UtcMs) -> Vec<Finding> {
    let queues = store.opened().map(|opened| opened.queues.as_slice()).unwrap_or_default();
    hooks.iter().flat_map(|hook| of_one(hook, queues.iter().find(|queue| queue.webhook == hook.name), now)).collect()
}

fn of_one(hook: &WebhookFacts, queue: Option<&Queue>, now: UtcMs) -> Vec<Finding> {
    let (name, file) = (&hook.name, &hook.secret_file);
    let mut found = Vec::new();
    match &hook.secret {
        Err(why) => found.push(CHECK.problem(format!("Nothing is delivered to webhook {name}, since {why}: make it."))),
        Ok(true) => found.push(CHECK.warning(format!(
            "The secret of webhook {name} can be read by others on this machine: `chmod 600 {file}`."
        ))),
        Ok(false) => {}
    }
    if let Some(queue) = queue {
        found.extend(stuck(queue, now));
    }
    if found.is_empty() {
        let waiting = queue.map_or(0, |queue| usize::try_from(queue.pending).unwrap_or(usize::MAX));
        found.push(CHECK.ok(format!("Webhook {name} can be delivered to; {} waiting.", counted(waiting, "event"))));
    }
    found
}

fn stuck(queue: &Queue, now: UtcMs) -> Vec<Finding> {
    let count = |count| counted(usize::try_from(count).unwrap_or(usize::MAX), "event");
    let why = queue.last_error.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    let name = &queue.webhook;
    let given_up = (queue.given_up > 0).then(|| {
        CHECK.warning(format!(
            "Webhook {name} never took {} of the last week{why}; `GET /v1/deliveries?status=given_up` lists what was given up.",
            count(queue.given_up)
        ))
    });
    let waits = queue.oldest.map(|at| now.since(at)).filter(|age| *age >= LONG);
    let waiting = waits.map(|age| {
        CHECK.warning(format!(
            "Webhook {name} has not taken {} for up to {}{why}: look at its receiver.",
            count(queue.pending),
            spoken(age)
        ))
    });
    given_up.into_iter().chain(waiting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::store::Opened;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;

    fn hook(secret: Result<bool, String>) -> WebhookFacts {
        WebhookFacts { name: "boss".to_owned(), secret_file: "/s".to_owned(), secret }
    }

    fn said(secret: Result<bool, String>, queue: Option<(u64, u64)>) -> (Level, String) {
        let queue = queue.map(|(pending, given_up)| Queue {
            webhook: "boss".to_owned(),
            pending,
            given_up,
            oldest: (pending > 0).then_some(UtcMs(0)),
            last_error: Some("the receiver answered 503".to_owned()),
        });
        let opened = Opened { queues: queue.into_iter().collect(), ..Opened::default() };
        one(check(&[hook(secret)], &StoreFacts::Opened(opened), UtcMs(2 * HOUR)))
    }

    #[test]
    fn a_webhook_that_works_is_fine_and_none_is_nothing() {
        assert_eq!(check(&[], &StoreFacts::Missing, UtcMs(0)), []);
        assert_eq!(said(Ok(false), None).0, Level::Ok);
    }

    #[test]
    fn what_is_in_the_way_is_said() {
        let (level, said_of) = said(Err("its secret file /s is empty".to_owned()), None);
        assert!(level == Level::Problem && said_of.contains("/s is empty"), "{said_of}");
        assert_eq!(said(Ok(true), None).0, Level::Warning);
        let (level, said_of) = said(Ok(false), Some((0, 3)));
        assert!(
            level == Level::Warning && said_of.contains("never took 3 events of the last week (the receiver"),
            "{said_of}"
        );
        let (level, said_of) = said(Ok(false), Some((2, 0)));
        assert!(level == Level::Warning && said_of.contains("not taken 2 events for up to 2 h"), "{said_of}");
    }
}
