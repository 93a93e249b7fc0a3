//! The steps of a stop, and who may hurry or leave meanwhile.

use std::fs;

use serde_json::{Value, json};

use crate::shim::driver::{House, script, until};

const DEAF: &str = "trap '' TERM; echo up; while :; do sleep 0.02; done";

fn stages(gone: &Value) -> Vec<&str> {
    gone["stages"].as_array().unwrap().iter().map(|it| it["stage"].as_str().unwrap()).collect()
}

fn patient() -> Value {
    json!({"interrupt": 60_000, "stdin": 60_000, "engine": 60_000, "tree": 60_000, "kill": 60_000, "linger": 60_000})
}

#[test]
fn a_stop_goes_on_when_who_ordered_it_is_gone() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script(DEAF));
    line.grown_to(3);
    line.order("stop", &json!({}));
    drop(line);
    house.wait_for_its_end();
    let gone: Value = serde_json::from_slice(&fs::read(house.file("exit.json")).unwrap()).unwrap();
    assert_eq!(stages(&gone).last(), Some(&"empty"));
}

#[test]
fn the_first_words_of_a_stop_are_read_before_the_input_is_closed() {
    let mut house = House::new();
    let text = "while read -r line; do echo \"got $line\"; done; echo closed";
    let mut spec = script(text);
    spec["graces"]["interrupt"] = json!(60_000);
    let (mut line, _) = house.start(&spec);
    line.order("stop", &json!({"first": "please end\n"}));
    line.grown_to(15);
    assert_eq!(line.write(9, "too late\n", &json!({})), "closed");
    line.order("hurry", &json!({}));
    let gone = line.news("gone");
    assert_eq!(stages(&gone), ["interrupted", "stdin_closed", "empty"]);
    assert_eq!(house.output(), b"got please end\nclosed\n");
}

#[test]
fn an_interrupt_reaches_the_engine_alone_and_ends_nothing() {
    let mut house = House::new();
    let text = "sh -c 'trap \"echo child hit\" INT; while :; do sleep 0.02; done' & \
                trap 'echo hit' INT; echo up; while :; do sleep 0.02; done";
    let (mut line, _) = house.start(&script(text));
    line.grown_to(3);
    line.order("interrupt", &json!({}));
    line.grown_to(7);
    line.order("stop", &json!({"signal": true}));
    assert_eq!(stages(&line.news("gone"))[0], "interrupted");
    assert_eq!(house.output(), b"up\nhit\nhit\n");
}

#[test]
fn a_second_stop_makes_it_faster_and_never_slower() {
    let mut house = House::new();
    let mut spec = script(DEAF);
    spec["graces"] = patient();
    let (mut line, _) = house.start(&spec);
    line.grown_to(3);
    line.order("stop", &json!({}));
    line.order("stop", &json!({"graces": script("")["graces"]}));
    line.order("stop", &json!({"graces": patient(), "first": "again\n", "signal": true}));
    let gone = line.news("gone");
    assert_eq!(stages(&gone), ["stdin_closed", "sigterm_engine", "sigterm_tree", "sigkill", "empty"]);
}

#[test]
fn who_comes_in_the_middle_of_a_stop_is_told_so() {
    let mut house = House::new();
    let mut spec = script(DEAF);
    spec["graces"] = patient();
    let (mut line, _) = house.start(&spec);
    line.grown_to(3);
    line.order("stop", &json!({}));
    drop(line);
    let (mut next, hello) = until("the stop has begun", || {
        let met = house.meet();
        met.1["stopping"].as_bool().unwrap().then_some(met)
    });
    assert_eq!(hello["exit"], Value::Null);
    next.order("stop", &json!({"graces": script("")["graces"]}));
    assert_eq!(stages(&next.news("gone")).last(), Some(&"empty"));
}

#[test]
fn what_an_engine_left_behind_lingers_no_longer_once_a_stop_is_ordered() {
    let mut house = House::new();
    let mut spec = script("setsid sleep 4000 & exit 0");
    spec["graces"]["linger"] = json!(60_000);
    let (mut line, _) = house.start(&spec);
    line.news("engine_exited");
    assert_eq!(stages(&line.stop()), ["sigterm_tree", "empty"]);
}
