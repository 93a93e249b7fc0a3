//! What each line of an engine does to what is known of it, and to the ages.

use super::*;

const STALL: Ms = 1_000;

fn told(lines: &[(Ms, Event)]) -> Doings {
    let mut doings = Doings::started(0);
    for (at, event) in lines {
        doings.heard(event, *at);
    }
    doings
}

fn output() -> Event {
    Event::Output { task: None }
}

fn of(task: &str) -> Event {
    Event::Output { task: Some(task.to_owned()) }
}

fn begun(task: &str) -> Event {
    Event::BackgroundStarted(task.to_owned())
}

fn settled(task: &str) -> Event {
    Event::BackgroundEnded(task.to_owned())
}

fn idle(doings: &Doings, now: Ms) -> Ms {
    doings.state(now, STALL).idle_ms.value().unwrap()
}

#[test]
fn an_engine_that_never_told_its_turns_sends_no_state_and_any_output_is_a_use() {
    let doings = told(&[(10, output()), (20, Event::Session("c".into())), (30, Event::Status)]);
    let state = doings.state(50, STALL);
    assert_eq!((state.generating, state.background_tasks), (Told::Silent, Told::Silent));
    assert_eq!((state.awaiting_input, state.stalled), (Told::Silent, Told::Silent));
    assert_eq!(state.idle_ms, Told::Is(40));
}

#[test]
fn the_idle_clock_starts_when_the_turn_ends() {
    let doings = told(&[(10, Event::TurnStarted), (20, output()), (500, Event::TurnEnded), (600, output())]);
    assert_eq!(idle(&doings, 600), 100, "output outside of a turn is no use");
    assert_eq!(doings.state(600, STALL).generating, Told::Is(false));
}

#[test]
fn the_idle_clock_starts_when_the_last_task_ends() {
    let doings =
        told(&[(0, Event::TurnStarted), (1, begun("a")), (2, begun("b")), (3, Event::TurnEnded), (100, settled("a"))]);
    assert_eq!(doings.state(150, STALL).background_tasks, Told::Is(1));
    let mut doings = doings;
    doings.heard(&settled("b"), 300);
    assert_eq!((idle(&doings, 350), doings.state(350, STALL).background_tasks), (50, Told::Is(0)));
}

#[test]
fn output_of_one_task_keeps_that_one_fresh_and_status_lines_none() {
    let quiet = [(0, Event::TurnStarted), (0, begun("a")), (0, begun("b")), (0, Event::TurnEnded)];
    let mut doings = told(&quiet);
    doings.heard(&Event::Status, 50);
    assert_eq!(doings.state(60, STALL).background_silent_ms, Some(60));
    doings.heard(&of("a"), 70);
    assert_eq!((doings.state(80, STALL).background_silent_ms, idle(&doings, 80)), (Some(10), 10));
    doings.heard(&settled("a"), 90);
    assert_eq!(doings.state(100, STALL).background_silent_ms, Some(100), "b has been silent all the time");
}

#[test]
fn a_silent_turn_stalls_exactly_at_its_limit() {
    let doings = told(&[(0, Event::TurnStarted)]);
    assert_eq!(doings.state(STALL - 1, STALL).stalled, Told::Is(false));
    assert_eq!(doings.state(STALL, STALL).stalled, Told::Is(true));
    assert_eq!(doings.state(STALL, STALL).turn_silent_ms, Some(STALL));
}

#[test]
fn a_turn_that_waits_for_a_person_is_not_stalled() {
    let mut doings = told(&[(0, Event::TurnStarted), (0, Event::AwaitingInput)]);
    let state = doings.state(STALL, STALL);
    assert_eq!((state.stalled, state.turn_silent_ms), (Told::Is(false), Some(STALL)));
    doings.heard(&Event::InputReceived, STALL);
    assert_eq!(doings.state(2 * STALL, STALL).stalled, Told::Is(true));
}

#[test]
fn a_question_is_as_old_as_its_first_asking_and_a_message_answers_it() {
    let mut doings = told(&[(0, Event::TurnStarted), (5, Event::TurnEnded), (10, Event::AwaitingInput)]);
    doings.heard(&Event::AwaitingInput, 50);
    assert_eq!((doings.state(60, STALL).awaiting_ms, idle(&doings, 60)), (Some(50), 50));
    let asked = doings.message(70);
    assert_eq!((doings.state(70, STALL).awaiting_input, idle(&doings, 70)), (Told::Is(false), 0));
    doings.not_taken(asked);
    assert_eq!(doings.state(70, STALL).awaiting_ms, Some(60), "a message that was not taken answers nothing");
}

#[test]
fn a_wake_up_is_told_until_it_is_cleared_or_began_a_turn() {
    let wake = (0, Event::WakeScheduled(100));
    assert_eq!(told(std::slice::from_ref(&wake)).state(130, STALL).next_wake_in_ms, Some(-30));
    let early = told(&[wake.clone(), (50, Event::TurnStarted)]);
    assert_eq!(early.state(60, STALL).next_wake_in_ms, Some(40));
    for end in [(100, Event::TurnStarted), (10, Event::WakeCleared)] {
        assert_eq!(told(&[wake.clone(), end]).state(130, STALL).next_wake_in_ms, None);
    }
    let absurd = told(&[(0, Event::WakeScheduled(Ms::MIN)), (0, Event::WakeScheduled(Ms::MAX))]);
    assert_eq!(absurd.state(10, STALL).next_wake_in_ms, Some(Ms::MAX - 10));
}

#[test]
fn an_engine_that_fell_mute_is_unknown() {
    let mut doings = told(&[(0, Event::TurnStarted), (1, Event::TurnEnded)]);
    doings.fell_mute();
    let state = doings.state(10, STALL);
    assert_eq!((state.generating, state.background_tasks), (Told::Unknown, Told::Unknown));
    assert_eq!(state.awaiting_input, Told::Unknown);
}

#[test]
fn a_flood_of_tasks_costs_bounded_memory_and_stays_protected() {
    let mut doings = Doings::started(0);
    for number in 0..TASKS_MOST + 50 {
        doings.heard(&begun(&number.to_string()), 0);
    }
    assert_eq!(doings.tasks.len(), TASKS_MOST);
}
