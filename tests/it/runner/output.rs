//! The text of a turn that runs, and pages of what was said: both fit the cursors of events exactly.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sexton::protocol::Cursor;
use sexton::runner::Settings;

use crate::support::daemon::{Daemon, home_of_a_past_life, start};
use crate::support::runner::{Engines, TestRunner};
use crate::support::stream::{Stream, at, events};

const TURN: &str = r#"{"type":"turn_started"}"#;
const OVER: &str = r#"{"type":"turn_ended"}"#;

/// Waits to be told to go, then writes numbers to `most` in a turn, slowly enough to be watched.
fn counting(parts: u64) -> String {
    format!(
        "read -r go; echo '{TURN}'; i=0; while [ $i -lt {parts} ]; do seq $((i*50+1)) $((i*50+50)); i=$((i+1)); \
         sleep 0.01; done; read -r end; echo '{OVER}'; cat > /dev/null"
    )
}

fn numbers(most: u64) -> Vec<String> {
    (1..=most).map(|n| n.to_string()).collect()
}

async fn live(runner: &TestRunner, id: &str) -> Value {
    runner.get(&format!("/coding/live?session_id={id}")).await
}

/// Asks for a page until it is as it should be.
async fn until(runner: &TestRunner, query: &str, fits: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..4_000 {
        let page = runner.get(&format!("/coding/history?session_id=s1&{query}")).await;
        if fits(&page) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{}", runner.get(&format!("/coding/history?session_id=s1&{query}")).await);
}

fn words(text: &Value) -> Vec<String> {
    text.as_str().unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_and_cursor_belong_together_while_the_engine_writes() {
    const PARTS: u64 = 60;
    let mut runner = TestRunner::start().await;
    runner.script("s1", &counting(PARTS)).await;
    let before = live(&runner, "s1").await;
    assert_eq!((&before["text"], &before["cursor"], &before["generation"]), (&json!(""), &json!("1-0"), &json!(1)));
    runner.say("s1", "go").await;
    for visit in 0..20 {
        if visit == 10 {
            runner = runner.again().await;
        }
        let now = live(&runner, "s1").await;
        let mut heard = words(&now["text"]);
        let mut events = runner.listen("s1", &format!("cursor={}", now["cursor"].as_str().unwrap())).await;
        while heard.len() < 50 * usize::try_from(PARTS).unwrap() {
            let line = events.line().await;
            heard.extend((line != TURN).then_some(line));
        }
        assert_eq!(heard, numbers(50 * PARTS), "visit {visit}");
    }
    let whole = live(&runner, "s1").await;
    assert_eq!((words(&whole["text"]), &whole["session"]["generating"]), (numbers(50 * PARTS), &json!(true)));
    runner.say("s1", "end").await;
    let after = runner.until_tracked("s1", "done", |one| one["generating"] == false).await;
    assert_eq!(after["session_id"], "s1");
    assert_eq!(live(&runner, "s1").await["text"], "", "outside of a turn nothing is half-written");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_of_a_turn_survives_a_runner_that_is_killed() {
    let home: Arc<tempfile::TempDir> = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let say = format!("echo '{TURN}'; echo one; echo two; read -r more; echo three; cat > /dev/null");
    daemon.until("ready", |list| list["ready"] == true).await;
    assert_eq!(daemon.tell("start", &start("s1", &say)).await.0, 200);
    let mut stream = Stream::open(daemon.request(&events("s1", at(0)))).await.unwrap();
    for _ in 0..3 {
        assert_eq!(stream.next().await.unwrap().kind, "line");
    }
    daemon.kill();
    let daemon = Daemon::start(&home).await;
    daemon.until("ready", |list| list["ready"] == true).await;
    let now = daemon.get("/coding/live?session_id=s1").await;
    assert_eq!((&now["text"], &now["session"]["generating"]), (&json!("one\ntwo"), &json!(true)), "{now}");
    daemon.say("s1", "more").await;
    let mut stream =
        Stream::open(daemon.request(&events("s1", now["cursor"].as_str().unwrap().parse().unwrap()))).await.unwrap();
    assert_eq!(stream.next().await.unwrap().data["line"], "three");
    daemon.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_told_in_pages_from_any_cursor_and_from_its_end() {
    let runner = TestRunner::start().await;
    runner.script("s1", r"seq 1 500; printf 'b\377\n'; printf 'no end'; cat > /dev/null").await;
    let page = |query: &str| {
        let path = format!("/coding/history?session_id=s1&{query}");
        let runner = &runner;
        async move { runner.get(&path).await }
    };
    let lines = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().filter_map(|it| Some(it["line"].as_str()?.to_owned())).collect()
    };
    let newest = until(&runner, "tail=1", |it| it["items"][0]["hex"] == "62ff").await;
    assert_eq!((newest["items"].as_array().unwrap().len(), &newest["next"]), (1, &Value::Null));
    let (mut all, mut after, mut pages) = (Vec::new(), json!("1-0"), 0);
    loop {
        let one = page(&format!("after={}&limit=120", after.as_str().unwrap())).await;
        all.extend(lines(&one));
        pages += 1;
        assert!(one["items"].as_array().unwrap().len() <= 120 && one["gap"].is_null(), "{one}");
        after = one["next"].clone();
        if after.is_null() {
            assert_eq!(one["cursor"], newest["cursor"]);
            break;
        }
    }
    assert_eq!((all, pages), (numbers(500), 5));
    let tail = page("tail=3").await;
    assert_eq!(
        (lines(&tail), tail["items"][2]["hex"].clone()),
        (vec!["499".to_owned(), "500".to_owned()], json!("62ff"))
    );
    assert_eq!(lines(&page("").await).len(), 200, "a page has its usual size");
    assert_eq!(page("after=1-1").await["outcome"], "bad_request", "a cursor is the end of a line");
    assert_eq!(page("limit=0").await["outcome"], "bad_request");
    runner.force("s1", 1).await;
    let last = page("tail=2").await;
    assert_eq!((&last["items"][0]["hex"], &last["items"][1]["line"]), (&json!("62ff"), &json!("no end")), "{last}");
    assert_eq!(live(&runner, "s1").await["outcome"], "ended");
    std::fs::remove_dir_all(runner.state().join("output/s1.1")).unwrap();
    assert_eq!(page("after=1-5").await["items"], json!([]), "nothing is kept any more");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_kept_any_more_is_a_gap_and_long_lines_are_bounded() {
    let small = |settings: &mut Settings| (settings.output_bytes, settings.segment_bytes) = (4_096, 1_000);
    let runner = TestRunner::start_with(small).await;
    runner.script("s1", "seq 10000 12000; echo last; cat").await;
    let page = |query: &str| {
        let path = format!("/coding/history?session_id=s1&{query}");
        let runner = &runner;
        async move { runner.get(&path).await }
    };
    until(&runner, "tail=1", |it| it["items"][0]["line"] == "last").await;
    let first = page("after=1-0&limit=1000").await;
    let gap = &first["gap"];
    let to: Cursor = gap["to"].as_str().unwrap().parse().unwrap();
    let behind = to.at(to.offset + 6).to_string();
    assert_eq!((&gap["from"], &first["items"][0]["cursor"]), (&json!("1-0"), &json!(behind)));
    assert_eq!(first["items"].as_array().unwrap().last().unwrap()["line"], "last");
    runner.stop().await;

    let runner = TestRunner::start().await;
    runner.script("s1", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; cat").await;
    until(&runner, "tail=1", |it| it["items"][0]["line"] == "end").await;
    let whole = runner.get("/coding/history?session_id=s1").await;
    assert_eq!(
        whole["items"],
        json!([{"cursor": "1-3000001", "oversize": true}, {"cursor": "1-3000005", "line": "end"}])
    );
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_owners_output_is_answered_as_an_unknown_one() {
    let runner = TestRunner::start().await;
    let body = json!({"session_id": "s1", "generation": 1, "engine": "sh", "cwd": "/", "args": ["echo hi; cat"],
        "owner_id": "ann"});
    assert_eq!(runner.post("start", body).await.0, 200);
    for verb in ["live", "history", "events"] {
        let of = async |id: &str, owner: &str| {
            let path = format!("/coding/{verb}?session_id={id}&owner_id={owner}");
            runner.get(&path).await.to_string().replace(id, "ID")
        };
        assert_eq!(of("s1", "bob").await, of("s9", "bob").await, "{verb}");
    }
    assert_eq!(runner.get("/coding/live?session_id=s1&owner_id=ann").await["session_id"], "s1");
    runner.stop().await;
}
