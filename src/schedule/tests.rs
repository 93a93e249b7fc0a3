//! Tests of the worker with a bell that the test rings, in paused time; and one with the real bell.
//!
//! Paused time is safe here: no pass does any I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, ManualClock, SystemClock};
use crate::config::Config;
use crate::schedule::{Outcome, Plan, RunError, Schedule, ScheduleHandle, ScheduleStatus, Trigger};
use crate::time::{HOUR, MINUTE, Span, UtcMs};

/// What a pass does in a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Ends when the test lets it.
    Wait,
    /// Panics at once.
    Panic,
    /// Ends when it is told to begin nothing new.
    Obey,
    /// Never ends.
    Hang,
}

/// What a test sees of its passes.
#[derive(Default)]
struct Seen {
    begun: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

/// Counts a pass as running for as long as it lives, aborted or not.
struct Running(Arc<Seen>);

impl Running {
    fn begin(seen: &Arc<Seen>) -> Self {
        seen.begun.fetch_add(1, Ordering::SeqCst);
        let now = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(seen))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Bench {
    clock: ManualClock,
    bell: Arc<Notify>,
    cancel: CancellationToken,
    handle: ScheduleHandle<Act, usize>,
    seen: Arc<Seen>,
    /// One permit lets one waiting pass end.
    let_go: Arc<Semaphore>,
    worker: JoinHandle<()>,
}

impl Bench {
    /// Starts a worker whose passes do `act` at a tick, and what is asked for on a request.
    fn start(act: Act, change: impl FnOnce(&mut crate::config::ScheduleConfig)) -> Self {
        let clock = ManualClock::at("2025-01-01T00:00:00Z".parse().unwrap());
        let mut config = Config::defaults().schedule;
        change(&mut config);
        let (schedule, handle) = Schedule::new(Plan::of(&config).unwrap(), Arc::new(clock.clone()));
        let (bell, cancel) = (Arc::new(Notify::new()), CancellationToken::new());
        let (seen, let_go) = (Arc::new(Seen::default()), Arc::new(Semaphore::new(0)));
        let ear = schedule.listen(Arc::clone(&bell));
        let job = {
            let (seen, let_go) = (Arc::clone(&seen), Arc::clone(&let_go));
            move |trigger: Trigger<Act>, token: CancellationToken| {
                let act = match trigger {
                    Trigger::Tick => act,
                    Trigger::Request(asked) => asked,
                };
                let running = Running::begin(&seen);
                let let_go = Arc::clone(&let_go);
                assert!(act != Act::Panic, "as told");
                async move {
                    match act {
                        Act::Wait | Act::Panic => let_go.acquire().await.unwrap().forget(),
                        Act::Obey => token.cancelled().await,
                        Act::Hang => std::future::pending().await,
                    }
                    running.0.begun.load(Ordering::SeqCst)
                }
            }
        };
        let worker = tokio::spawn(schedule.work(ear, job, cancel.clone()));
        Self { clock, bell, cancel, handle, seen, let_go, worker }
    }

    async fn until(&self, fits: impl FnMut(&ScheduleStatus) -> bool) -> ScheduleStatus {
        self.handle.watch().wait_for(fits).await.unwrap().clone()
    }

    /// Rings and waits until the pass has begun.
    async fn ring_and_begin(&self) {
        self.bell.notify_one();
        self.until(|status| status.running_since.is_some()).await;
    }

    /// Rings while a pass runs, and waits until that was counted as the `nth` skipped tick.
    async fn ring_in_vain(&self, nth: u64) {
        self.bell.notify_one();
        self.until(|status| status.ticks_skipped == nth).await;
    }

    fn begun(&self) -> usize {
        self.seen.begun.load(Ordering::SeqCst)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        assert!(self.seen.most.load(Ordering::SeqCst) <= 1, "two passes ran at once");
        self.worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_first_tick() {
    let bench = Bench::start(Act::Wait, |_| ());
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!((bench.begun(), bench.handle.status()), (0, ScheduleStatus::default()));
}

#[tokio::test(start_paused = true)]
async fn ticks_during_a_pass_are_counted_and_not_queued() {
    let bench = Bench::start(Act::Wait, |_| ());
    bench.ring_and_begin().await;
    for nth in 1..=3 {
        bench.ring_in_vain(nth).await;
    }
    bench.let_go.add_permits(1);
    let status = bench.until(|status| status.passes == 1).await;
    assert_eq!((status.ticks_skipped, status.last_outcome), (3, Some(Outcome::Finished)));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.begun(), 1);
    bench.let_go.add_permits(1);
    bench.bell.notify_one();
    bench.until(|status| status.passes == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_counted_and_the_next_tick_runs() {
    let bench = Bench::start(Act::Panic, |_| ());
    for passes in 1..=3 {
        bench.bell.notify_one();
        let status = bench.until(|status| status.passes == passes).await;
        assert_eq!((status.panicked, status.running_since), (passes, None));
    }
    assert_eq!(bench.handle.run_now(Act::Panic).await, Err(RunError::Panicked("as told".to_owned())));
    bench.let_go.add_permits(1);
    assert_eq!(bench.handle.run_now(Act::Wait).await, Ok(5));
}

#[tokio::test(start_paused = true)]
async fn an_overrun_is_abandoned_at_its_limit_and_the_next_tick_runs() {
    let bench = Bench::start(Act::Hang, |config| config.pass_limit = Span(20 * MINUTE));
    let before = Instant::now();
    bench.ring_and_begin().await;
    let status = bench.until(|status| status.passes == 1).await;
    assert_eq!((status.overran, status.last_outcome), (1, Some(Outcome::Overran)));
    assert_eq!(before.elapsed().as_secs(), 20 * 60);
    assert_eq!(bench.seen.running.load(Ordering::SeqCst), 0);
    bench.ring_and_begin().await;
    assert_eq!(bench.begun(), 2);
    assert_eq!(bench.handle.run_now(Act::Hang).await, Err(RunError::Overran));
}

#[tokio::test(start_paused = true)]
async fn a_silent_bell_is_replaced_after_two_ticks() {
    let bench = Bench::start(Act::Wait, |_| ());
    bench.let_go.add_permits(10);
    let before = Instant::now();
    let status = bench.until(|status| status.passes == 1).await;
    assert_eq!((status.silences, before.elapsed().as_secs()), (1, 122));
    // As if somebody had set the clock back by a day: the bell stays silent, the sweeps go on.
    bench.clock.step_wall(-24 * HOUR);
    bench.until(|status| status.passes == 2).await;
    assert_eq!(before.elapsed().as_secs(), 244);
}

#[tokio::test(start_paused = true)]
async fn a_bell_that_rings_is_not_replaced() {
    let bench = Bench::start(Act::Wait, |_| ());
    bench.let_go.add_permits(10);
    for passes in 1..=5 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        bench.bell.notify_one();
        bench.until(|status| status.passes == passes).await;
    }
    assert_eq!(bench.handle.status().silences, 0);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_and_are_served_in_order() {
    let bench = Bench::start(Act::Wait, |_| ());
    bench.ring_and_begin().await;
    let ask = || {
        let handle = bench.handle.clone();
        tokio::spawn(async move { handle.run_now(Act::Wait).await })
    };
    let (first, second) = (ask(), ask());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.begun(), 1);
    bench.let_go.add_permits(3);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(2), Ok(3)));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_asker_went_away_is_dropped() {
    let bench = Bench::start(Act::Wait, |_| ());
    bench.ring_and_begin().await;
    let handle = bench.handle.clone();
    let asker = tokio::spawn(async move { handle.run_now(Act::Wait).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    asker.abort();
    assert!(asker.await.unwrap_err().is_cancelled());
    bench.let_go.add_permits(2);
    assert_eq!(bench.handle.run_now(Act::Wait).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn requests_without_end_do_not_keep_the_schedule_from_its_sweeps() {
    let bench = Bench::start(Act::Wait, |_| ());
    let handle = bench.handle.clone();
    let flood = tokio::spawn(async move { while handle.run_now(Act::Wait).await.is_ok() {} });
    let let_go = Arc::clone(&bench.let_go);
    let pace = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(50)).await;
            let_go.add_permits(1);
        }
    });
    // The bell rings in vain each time: a request is being served.
    bench.until(|status| status.running_since.is_some()).await;
    bench.ring_in_vain(1).await;
    let status = bench.until(|status| status.silences == 1).await;
    assert!(status.passes <= 3, "{status:?}");
    flood.abort();
    pace.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stop_begins_no_pass_and_lets_the_running_one_end() {
    let mut bench = Bench::start(Act::Obey, |_| ());
    bench.ring_and_begin().await;
    let handle = bench.handle.clone();
    let waiting = tokio::spawn(async move { handle.run_now(Act::Wait).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = Instant::now();
    bench.bell.notify_one();
    bench.cancel.cancel();
    (&mut bench.worker).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 0);
    assert_eq!((bench.begun(), bench.handle.status().last_outcome), (1, Some(Outcome::Finished)));
    assert_eq!(waiting.await.unwrap(), Err(RunError::Stopped));
    assert_eq!(bench.handle.run_now(Act::Wait).await, Err(RunError::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_no_longer_than_its_limit() {
    let mut bench = Bench::start(Act::Hang, |config| config.shutdown_limit = Span(20_000));
    bench.ring_and_begin().await;
    let before = Instant::now();
    bench.cancel.cancel();
    (&mut bench.worker).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 20);
    let status = bench.handle.status();
    assert_eq!((status.last_outcome, status.overran), (Some(Outcome::Stopped), 0));
    assert_eq!(bench.seen.running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_stops_at_once() {
    let mut bench = Bench::start(Act::Hang, |_| ());
    bench.cancel.cancel();
    (&mut bench.worker).await.unwrap();
    assert_eq!(bench.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_handles_goes_on_with_its_ticks() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(UtcMs(0)));
    let (schedule, handle) = Schedule::<(), ()>::new(Plan::of(&Config::defaults().schedule).unwrap(), clock);
    let status = handle.watch();
    drop(handle);
    let bell = Arc::new(Notify::new());
    let ear = schedule.listen(Arc::clone(&bell));
    let worker = tokio::spawn(schedule.work(ear, |_, _| async {}, CancellationToken::new()));
    bell.notify_one();
    status.clone().wait_for(|status| status.passes == 1).await.unwrap();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn in_a_zone_only_rings_with_a_tick_before_them_count() {
    let bench = Bench::start(Act::Wait, |config| {
        config.sweep = "30 2 * * *".to_owned();
        config.timezone = "America/New_York".to_owned();
    });
    bench.let_go.add_permits(10);
    // 07:30Z is the tick; it is 00:00Z.
    for (ms, passes) in [(7 * HOUR + 29 * MINUTE, 0), (MINUTE, 1), (MINUTE, 1), (23 * HOUR, 1), (HOUR, 2)] {
        bench.clock.advance(ms);
        bench.bell.notify_one();
        // Long enough for the worker to have heard it, too short for the bell to count as silent.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.handle.status().passes, passes, "{}", bench.clock.now());
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_zone_a_ring_before_its_time_leaves_the_tick_to_the_next() {
    let bench = Bench::start(Act::Wait, |config| {
        config.sweep = "30 2 * * *".to_owned();
        config.timezone = "America/New_York".to_owned();
    });
    bench.let_go.add_permits(10);
    for (ms, passes) in [(7 * HOUR + 30 * MINUTE - 1, 0), (MINUTE, 1)] {
        bench.clock.advance(ms);
        bench.bell.notify_one();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.handle.status().passes, passes);
    }
}

#[tokio::test]
async fn the_real_bell_rings_in_utc_and_in_a_zone() {
    for timezone in ["UTC", "Asia/Kolkata"] {
        let mut config = Config::defaults().schedule;
        (config.sweep, config.timezone) = ("* * * * * *".to_owned(), timezone.to_owned());
        let (schedule, handle) = Schedule::<(), ()>::new(Plan::of(&config).unwrap(), Arc::new(SystemClock));
        let cancel = CancellationToken::new();
        let worker = tokio::spawn(schedule.run(|_, _| async {}, cancel.clone()));
        let mut status = handle.watch();
        let two = status.wait_for(|status| status.passes == 2);
        let status = tokio::time::timeout(Duration::from_secs(30), two).await.unwrap().unwrap().clone();
        assert_eq!(status.last_outcome, Some(Outcome::Finished));
        cancel.cancel();
        worker.await.unwrap().unwrap();
    }
}
