//! What is written to an engine arrives whole and once, or it is said that it did not.

use serde_json::json;

use crate::shim::driver::{House, script};

#[test]
fn a_message_is_written_once_however_often_it_is_ordered() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("exec cat"));
    let message = |id: &str| json!({"once": {"once": "message", "id": id}});
    let reply = |at: u64, n: u32| json!({"once": {"once": "reply", "at": at, "n": n}});
    let tries = [
        ("a\n", message("m-1"), "written"),
        ("a\n", message("m-1"), "again"),
        ("b\n", message("m-2"), "written"),
        ("c\n", reply(10, 0), "written"),
        ("c\n", reply(10, 0), "again"),
        ("d\n", reply(10, 1), "written"),
        ("older\n", reply(9, 7), "again"),
        ("a\n", message("m-1"), "again"),
    ];
    for (seq, (text, once, result)) in (1..).zip(&tries) {
        assert_eq!(line.write(seq, text, once), *result, "{seq}");
    }
    line.grown_to(8);
    assert_eq!(house.output(), b"a\nb\nc\nd\n");
    assert_eq!(house.meet().1["answered"], json!([10, 1]));
    house.meet().0.stop();
}

#[test]
fn a_note_is_kept_with_what_was_accepted_and_not_with_what_was_not() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("exec sleep 4000"));
    let with =
        |state: &str, id: &str| json!({"note": {"offset": 1, "state": state}, "once": {"once": "message", "id": id}});
    assert_eq!(line.write(1, "a", &with("first", "m-1")), "written");
    assert_eq!(line.write(2, "a", &with("again", "m-1")), "again");
    line.order("write", &json!({"seq": 3, "text": "x".repeat(16 << 20)}));
    assert_eq!(line.write(4, "b", &with("full", "m-2")), "full");
    assert_eq!(house.meet().1["note"]["state"], "first", "what is asked for again changes nothing");
    let (mut line, hello) = house.meet();
    assert_eq!(hello["messages"], 1);
    line.order("keep", &json!({"note": {"offset": 2, "state": "x".repeat((1 << 20) + 1)}}));
    assert!(line.news("trouble")["what"].as_str().unwrap().contains("too large"));
    line.order("keep", &json!({"note": {"offset": 3, "state": "small"}}));
    assert!(line.news("trouble")["what"].is_null());
    let (mut line, hello) = house.meet();
    assert_eq!(hello["note"], json!({"offset": 3, "state": "small"}));
    line.stop();
}

#[test]
fn an_engine_that_closed_its_input_is_said_to_have() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("exec <&-; echo up; exec sleep 4000"));
    line.grown_to(3);
    assert_eq!(line.write(1, "a\n", &json!({})), "broken");
    assert_eq!(line.write(2, "a\n", &json!({})), "broken");
    line.stop();
}

#[test]
fn a_large_text_arrives_whole() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("exec cat"));
    let text = "0123456789".repeat(1_000_000);
    assert_eq!(line.write(1, &text, &json!({})), "written");
    line.stop();
    assert_eq!(house.output(), text.as_bytes());
}

#[test]
fn without_an_engine_nothing_is_taken() {
    let mut house = House::new();
    let (mut line, _) = house.meet();
    assert_eq!(line.write(1, "a\n", &json!({})), "closed");
}
