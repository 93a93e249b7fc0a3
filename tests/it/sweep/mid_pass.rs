//! What changes in the middle of a pass: facts from its beginning close nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use sexton::report::PartName;
use sexton::runner_client::{Observation, RunnerApi, Target, Wrapped, Wrapper};
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::world::{World, kept};

const WINDOW: i64 = 6 * HOUR;

/// Something that happens at the second question of a pass, which then finds nobody.
struct SecondQuestion {
    asked: AtomicUsize,
    first: Option<Observation>,
    happens: Box<dyn Fn() + Send + Sync>,
}

impl Wrapper for SecondQuestion {
    fn tracked<'a>(&'a self, runners: &'a dyn RunnerApi, target: &'a Target) -> BoxFuture<'a, Observation> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
                return match &self.first {
                    Some(answer) => answer.clone(),
                    None => runners.tracked(target).await,
                };
            }
            (self.happens)();
            Observation::Unconnected("nobody is there".to_owned())
        })
    }
}

#[tokio::test]
async fn a_machine_that_was_reached_in_this_pass_is_not_gone_in_it() {
    let mut world = World::new().await;
    let runner = world.foreign_runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let clock = world.clock.clone();
    let happens = Box::new(move || clock.advance(11 * MINUTE));
    let runners = Arc::clone(&world.tools.runners);
    world.tools.runners =
        Arc::new(Wrapped::new(runners, SecondQuestion { asked: AtomicUsize::new(0), first: None, happens }));

    let report = world.sweep().await;

    assert_eq!(kept(report.part(PartName::Idle), Verdict::RunnerOffline), 1, "{report:?}");
    assert!(world.read(&session).await.is_open());
}

#[tokio::test]
async fn a_host_that_slept_in_the_middle_of_a_pass_calls_no_machine_gone() {
    let mut world = World::new().await;
    world.enrol_url("mac-mini", "http://127.0.0.1:9").await;
    let session = world.session("s", WINDOW, |_| ()).await;
    let clock = world.clock.clone();
    let happens = Box::new(move || clock.sleep(8 * HOUR));
    let runners = Arc::clone(&world.tools.runners);
    let first = Some(Observation::Unconnected("nobody is there".to_owned()));
    world.tools.runners =
        Arc::new(Wrapped::new(runners, SecondQuestion { asked: AtomicUsize::new(0), first, happens }));

    let report = world.sweep().await;

    assert_eq!(kept(report.part(PartName::Idle), Verdict::RunnerOffline), 1, "{report:?}");
    assert!(world.read(&session).await.is_open());
}
