//! What changes in the middle of a pass: facts from its beginning close nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use sexton::protocol::{
    EventsRequest, FindAnswer, FindRequest, ForgetRequest, Health, HistoryAnswer, HistoryRequest, LiveAnswer,
    LiveRequest, MessageRequest, SessionRequest, StartRequest, TouchRequest, TurnOutcome,
};
use sexton::report::PartName;
use sexton::runner_client::{
    EventStream, NoAnswer, Observation, OutputReply, RunnerApi, SessionReply, StopAnswer, StopCall, Target,
};
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::world::{World, kept};

const WINDOW: i64 = 6 * HOUR;

/// The runners as they are, but that something happens at the second question of a pass, which then finds nobody.
struct SecondQuestion {
    runners: Arc<dyn RunnerApi>,
    asked: AtomicUsize,
    first: Option<Observation>,
    happens: Box<dyn Fn() + Send + Sync>,
}

impl RunnerApi for SecondQuestion {
    fn tracked<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation> {
        let nobody = || Observation::Unconnected("nobody is there".to_owned());
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
                return match &self.first {
                    Some(answer) => answer.clone(),
                    None => self.runners.tracked(target).await,
                };
            }
            (self.happens)();
            nobody()
        })
    }

    fn end<'a>(&'a self, target: &'a Target, call: &'a StopCall) -> BoxFuture<'a, StopAnswer> {
        self.runners.end(target, call)
    }

    fn touch<'a>(
        &'a self,
        target: &'a Target,
        request: &'a TouchRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.touch(target, request)
    }

    fn message<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.message(target, request)
    }

    fn converse<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<(SessionReply, Option<TurnOutcome>), NoAnswer>> {
        self.runners.converse(target, request)
    }

    fn start<'a>(
        &'a self,
        target: &'a Target,
        request: &'a StartRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.start(target, request)
    }

    fn interrupt<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.interrupt(target, request)
    }

    fn clear<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.clear(target, request)
    }

    fn find<'a>(
        &'a self,
        target: &'a Target,
        request: &'a FindRequest,
    ) -> BoxFuture<'a, Result<Option<FindAnswer>, NoAnswer>> {
        self.runners.find(target, request)
    }

    fn live<'a>(
        &'a self,
        target: &'a Target,
        request: &'a LiveRequest,
    ) -> BoxFuture<'a, Result<OutputReply<LiveAnswer>, NoAnswer>> {
        self.runners.live(target, request)
    }

    fn history<'a>(
        &'a self,
        target: &'a Target,
        request: &'a HistoryRequest,
    ) -> BoxFuture<'a, Result<OutputReply<HistoryAnswer>, NoAnswer>> {
        self.runners.history(target, request)
    }

    fn events<'a>(
        &'a self,
        target: &'a Target,
        request: &'a EventsRequest,
    ) -> BoxFuture<'a, Result<OutputReply<EventStream>, NoAnswer>> {
        self.runners.events(target, request)
    }

    fn forget<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ForgetRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.forget(target, request)
    }

    fn health<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Health, NoAnswer>> {
        self.runners.health(target)
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
    world.tools.runners = Arc::new(SecondQuestion { runners, asked: AtomicUsize::new(0), first: None, happens });

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
    world.tools.runners = Arc::new(SecondQuestion { runners, asked: AtomicUsize::new(0), first, happens });

    let report = world.sweep().await;

    assert_eq!(kept(report.part(PartName::Idle), Verdict::RunnerOffline), 1, "{report:?}");
    assert!(world.read(&session).await.is_open());
}
