//! Listening to an engine: nothing is lost or told twice, and leaving harms nobody.

use std::time::Duration;

use serde_json::{Value, json};
use sexton::runner::StreamLimits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::support::events::Told;
use crate::support::processes::is_alive;
use crate::support::runner::{SECRET, TestRunner};
use crate::support::stream::at;

fn kinds(told: &[Told]) -> Vec<&str> {
    told.iter().map(|one| one.kind.as_str()).collect()
}

fn lines(told: &[Told]) -> Vec<String> {
    let lines = told.iter().filter(|one| one.kind == "line");
    lines.map(|one| one.data["line"].as_str().unwrap().to_owned()).collect()
}

async fn attached(runner: &TestRunner, id: &str, count: i64) {
    runner.until_tracked(id, &format!("attached {count}"), |one| one["attached"] == count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_comes_first_then_what_is_said_then_exactly_one_end() {
    let runner = TestRunner::start().await;
    runner.sample("s1", &["puppet"]).await;
    for text in ["one", "two"] {
        runner.say("s1", text).await;
    }
    let mut events = runner.listen("s1", "cursor=1-0").await;
    assert_eq!((events.line().await, events.line().await), ("one".to_owned(), "two".to_owned()));
    runner.say("s1", "three").await;
    assert_eq!(events.line().await, "three");
    let (status, _) = runner.force("s1", 1).await;
    assert_eq!(status, 200, "a listener protects from no explicit end");
    let end = events.rest().await;
    assert_eq!((kinds(&end), &end[0].data["reason"]), (vec!["ended"], &json!("ended_by_person")));
    assert_eq!((end[0].cursor, &end[0].data["generation"]), (Some(at(14)), &json!(1)));

    let whole = runner.listen("s1", "").await.rest().await;
    assert_eq!(
        (kinds(&whole), lines(&whole)),
        (vec!["line", "line", "line", "ended"], ["one", "two", "three"].map(str::to_owned).to_vec())
    );
    let last = runner.listen("s1", &format!("cursor={}", whole[1].cursor.unwrap())).await.rest().await;
    assert_eq!((kinds(&last), lines(&last)), (vec!["line", "ended"], vec!["three".to_owned()]));
    assert_eq!(kinds(&runner.listen("s1", "cursor=1-14").await.rest().await), ["ended"]);
    let beyond = runner.ask_for_events("s1", "cursor=1-15").await;
    assert_eq!(beyond.status(), 416);
    let answer: Value = beyond.json().await.unwrap();
    assert!(answer["message"].as_str().unwrap().contains("1-15 lies behind the end of the output, which is 1-14"));

    std::fs::remove_dir_all(runner.state().join("output/s1.1")).unwrap();
    let late = runner.listen("s1", "cursor=1-14").await.rest().await;
    assert_eq!(kinds(&late), ["ended"], "whoever comes after the output is gone still hears of the end");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_back_with_its_cursor_hears_each_line_once() {
    const LINES: usize = 4_000;
    let mut runner = TestRunner::start().await;
    let counting = format!("i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo $i; done; cat");
    let pid = runner.script("s1", &counting).await;
    let (mut heard, mut cursor, mut visit) = (Vec::new(), at(0), 0);
    while heard.len() < LINES {
        visit += 1;
        if visit % 4 == 0 {
            runner = runner.again().await;
        }
        let mut events = runner.listen("s1", &format!("cursor={cursor}&client=me")).await;
        for _ in 0..(97 * visit).min(LINES - heard.len()) {
            let told = events.next().await.unwrap();
            (heard, cursor) =
                (heard.into_iter().chain(lines(std::slice::from_ref(&told))).collect(), told.cursor.unwrap());
        }
    }
    assert_eq!(heard, (1..=LINES).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(visit > 4 && is_alive(pid), "{visit}");
    let beyond = runner.ask_for_events("s1", &format!("cursor={}", cursor.at(cursor.offset + 1))).await;
    assert_eq!(beyond.status(), 416);
    attached(&runner, "s1", 0).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_no_more_is_a_gap_and_only_whole_lines_follow() {
    let small = |settings: &mut sexton::runner::Settings| {
        (settings.output_bytes, settings.segment_bytes) = (4_096, 1_000);
    };
    let runner = TestRunner::start_with(small).await;
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line-$i; done; echo last; cat";
    runner.script("s1", script).await;
    let newest = || {
        let out = std::fs::read_dir(runner.state().join("sessions/s1/out")).into_iter().flatten().flatten();
        let texts = out.filter_map(|it| std::fs::read_to_string(it.path()).ok());
        texts.max_by_key(|text| text.ends_with("last\n")).unwrap_or_default()
    };
    runner.until("written", |_| newest().ends_with("last\n")).await;
    let mut events = runner.listen("s1", "cursor=1-0").await;
    let gap = events.next().await.unwrap();
    let to = gap.cursor.unwrap();
    assert_eq!((gap.kind.as_str(), &gap.data), ("gap", &json!({"from": at(0), "to": to})));
    let mut heard = vec![events.line().await];
    while heard.last().is_none_or(|line| line != "last") {
        heard.push(events.line().await);
    }
    let mut again = runner.listen("s1", &format!("cursor={to}")).await;
    assert_eq!(again.line().await, heard[0], "whoever comes back right after a gap gets no rest of a line");
    let first: usize = heard[0].strip_prefix("line-").unwrap().parse().unwrap();
    let expected = (first..=2_000).map(|n| format!("line-{n}")).chain(["last".to_owned()]);
    assert_eq!(heard, expected.collect::<Vec<_>>());
    assert!(heard.len() > 100, "what may be kept is kept");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_comes_exactly_as_it_was() {
    let runner = TestRunner::start().await;
    runner.script("s1", r"printf 'a\r\nb\377\376\n\n\ttab \342\202\254\nno end'; cat").await;
    let mut events = runner.listen("s1", "cursor=1-0").await;
    assert_eq!(events.line().await, "a\r");
    assert_eq!(events.next().await.unwrap().data, json!({"cursor": "1-7", "hex": "62fffe"}));
    assert_eq!((events.line().await, events.line().await), (String::new(), "\ttab €".to_owned()));
    runner.force("s1", 1).await;
    assert_eq!(events.line().await, "no end", "what never ended comes with the end");
    assert_eq!(kinds(&events.rest().await), ["ended"]);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_header_of_who_comes_back_wins_and_nonsense_in_it_is_refused() {
    let runner = TestRunner::start().await;
    runner.script("s1", "echo one; echo two; cat").await;
    let mut events = runner.listen("s1", "").await;
    assert_eq!((events.line().await, events.line().await), ("one".to_owned(), "two".to_owned()));
    runner.force("s1", 1).await;
    let ask = |values: &[&str]| {
        let path = "/coding/events?session_id=s1&cursor=1-0";
        let request = runner.request(reqwest::Method::GET, path).bearer_auth(SECRET);
        values.iter().fold(request, |request, value| request.header("Last-Event-ID", *value)).send()
    };
    let rest = ask(&["1-4"]).await.unwrap().text().await.unwrap();
    assert!(rest.contains("two") && !rest.contains("one"), "{rest}");
    for nonsense in [&["x"][..], &[""], &["4"], &["1-4", "1-4"], &["1-4", "x"]] {
        let refused = ask(nonsense).await.unwrap();
        assert_eq!(refused.status(), 400, "{nonsense:?}");
        let answer: Value = refused.json().await.unwrap();
        assert_eq!(answer["outcome"], "bad_request");
        assert!(answer["message"].as_str().unwrap().contains("Last-Event-ID"), "{answer}");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_engines_listener_hears_a_ping() {
    let usual = StreamLimits::default();
    assert_eq!((usual.ping_every, usual.silent_most), (Duration::from_secs(20), Duration::from_secs(60)));
    let often = |settings: &mut sexton::runner::Settings| settings.streams.ping_every = Duration::from_millis(30);
    let runner = TestRunner::start_with(often).await;
    runner.sample("s1", &["puppet"]).await;
    let mut events = runner.listen("s1", "cursor=1-0").await;
    for _ in 0..3 {
        assert_eq!(events.next().await.unwrap().kind, "ping");
    }
    runner.say("s1", "text").await;
    let told = loop {
        let told = events.next().await.unwrap();
        if told.kind != "ping" {
            break told;
        }
    };
    assert_eq!(lines(&[told]), ["text"]);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_one_subscription_and_leaving_only_unsubscribes() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["puppet"]).await;
    runner.say("s1", "one").await;
    let mut first = runner.listen("s1", "client=a").await;
    assert_eq!(first.line().await, "one");
    attached(&runner, "s1", 1).await;
    let mut second = runner.listen("s1", "client=a&cursor=1-4").await;
    assert_eq!(first.next().await, None, "the earlier one is let go");
    let other = runner.listen("s1", "client=b&cursor=1-4").await;
    attached(&runner, "s1", 2).await;
    runner.say("s1", "two").await;
    assert_eq!(second.line().await, "two");

    let (status, adopted) = runner.begin_as("s1", 2, "sample", &["puppet"]).await;
    assert_eq!((status, adopted["session"]["attached"].as_i64()), (200, Some(2)), "an adoption lets nobody go");
    let said = json!({"session_id": "s1", "generation": 2, "text": "three"});
    assert_eq!(runner.post("messages", said).await.0, 200);
    assert_eq!(second.line().await, "three", "once, and without a break");
    drop(other);
    attached(&runner, "s1", 1).await;
    drop((first, second));
    attached(&runner, "s1", 0).await;
    let (status, _) = runner.begin_as("s1", 3, "sample", &["puppet"]).await;
    let back = runner.listen("s1", "client=a&cursor=1-8").await;
    drop(back);
    attached(&runner, "s1", 0).await;
    assert!(status == 200 && is_alive(pid), "nobody who left stopped anything");
    let mut last = runner.listen("s1", "client=a&cursor=1-8").await;
    assert_eq!(runner.force("s1", 3).await.1["outcome"], "stopped");
    assert_eq!(last.line().await, "three");
    let end = last.rest().await;
    assert_eq!((kinds(&end), &end[0].data["generation"]), (vec!["ended"], &json!(3)));
    assert!(!is_alive(pid));
    runner.stop().await;
}

/// The most memory that this process has used so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_read_cost_no_memory_and_are_let_go() {
    const CLIENTS: usize = 20;
    const OUTPUT: u64 = 24 << 20;
    let short = |settings: &mut sexton::runner::Settings| settings.streams.silent_most = Duration::from_millis(1_500);
    let runner = TestRunner::start_with(short).await;
    let line = "x".repeat(1_000);
    let pid = runner.script("s1", &format!("read go; yes {line} | head -c {OUTPUT}; cat")).await;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut client = socket.connect(runner.base.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap();
        let request = format!(
            "GET /coding/events?session_id=s1&client=c{number} HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {SECRET}\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        clients.push(client);
    }
    attached(&runner, "s1", i64::try_from(CLIENTS).unwrap()).await;
    let before = peak();
    runner.say("s1", "go").await;
    let out = runner.state().join("sessions/s1/out");
    let written = || -> u64 {
        std::fs::read_dir(&out).into_iter().flatten().flatten().map(|it| it.metadata().unwrap().len()).sum()
    };
    runner.until("written whole", |_| written() >= OUTPUT).await;
    attached(&runner, "s1", 0).await;
    let cost = peak() - before;
    eprintln!("{CLIENTS} clients that read none of {OUTPUT} bytes: {cost} bytes of memory");
    assert!(cost < 2 * OUTPUT, "{cost} bytes for {CLIENTS} clients");
    assert!(is_alive(pid));
    runner.stop().await;
}
