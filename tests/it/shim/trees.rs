//! What an engine starts is gone when the shim says so, whatever it did to get away.

use serde_json::json;

use crate::shim::driver::{House, script, until};
use crate::support::processes::{sleeping, unique};

/// Starts an engine that makes a tree of `count` processes named by a word and then waits, stops it, and looks.
fn stopped(tree: &str, count: usize) {
    let word = unique();
    let mut house = House::new();
    let text = format!("{}\ncat", tree.replace("WORD", &word));
    let (mut line, _) = house.start(&script(&text));
    until("the tree stands", || (sleeping(&word).len() >= count).then_some(()));
    let gone = line.stop();
    assert_eq!(sleeping(&word), Vec::<i32>::new(), "{gone}");
    house.wait_for_its_end();
    let stages = gone["stages"].as_array().unwrap();
    assert_eq!((&stages[0]["stage"], &stages.last().unwrap()["stage"]), (&json!("stdin_closed"), &json!("empty")));
}

#[test]
fn a_child_in_a_session_of_its_own() {
    stopped("setsid sleep WORD &", 1);
}

#[test]
fn a_double_fork_without_an_environment() {
    stopped("(setsid env -i /bin/sh -c 'sleep WORD & exit 0' &)", 1);
}

#[test]
fn a_nohup_in_the_background_that_holds_the_pipes() {
    stopped("nohup sleep WORD & nohup sleep WORD >&2 &", 2);
}

#[test]
fn children_that_are_deaf_to_sigterm() {
    stopped("(trap '' TERM HUP INT; sleep WORD & setsid sleep WORD & wait) &", 2);
}

#[test]
fn a_stopped_child() {
    stopped("sleep WORD & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!", 1);
}

#[test]
fn a_fork_storm() {
    // Each one is deaf, starts another one in a session of its own, and is gone.
    let hop = "hop='trap \"\" TERM; sleep WORD & sleep 0.02; setsid sh -c \"$0\" \"$0\" & exit 0'\n\
               for i in 1 2 3; do setsid sh -c \"$hop\" \"$hop\" & done";
    stopped(hop, 10);
}

#[test]
fn an_engine_that_is_deaf_to_everything_but_sigkill() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("trap '' TERM INT HUP; echo up; while :; do sleep 0.05; done"));
    line.grown_to(3);
    let gone = line.stop();
    let stages: Vec<&str> = gone["stages"].as_array().unwrap().iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["stdin_closed", "sigterm_engine", "sigterm_tree", "sigkill", "empty"]);
    assert_eq!(gone["exit"]["signal"], 9);
}

#[test]
fn what_an_engine_leaves_behind_lingers_and_is_named() {
    let word = unique();
    let mut house = House::new();
    let (mut line, _) = house.start(&script(&format!("setsid sleep {word} & sleep 0.1; echo bye; exit 4")));
    assert_eq!(line.news("engine_exited")["exit"]["code"], 4);
    assert_eq!(sleeping(&word).len(), 1);
    let gone = line.news("gone");
    assert!(gone["left_behind"][0].as_str().unwrap().starts_with("sleep (process "), "{gone}");
    assert!(sleeping(&word).is_empty());
    assert_eq!(house.output(), b"bye\n");
}
