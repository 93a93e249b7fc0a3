//! `sexton attach`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::attach::station::Station;
use crate::cli::house::{House, wait_for};

const ENGINE: &str = "echo '{\"type\":\"turn_started\"}'; echo half; read -r m; printf 'a\\033[31mb\\n'; \
                      read -r m; echo '{\"type\":\"turn_ended\"}'; cat > /dev/null";

/// A terminal that is attached.
struct Terminal {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Terminal {
    fn attach(house: &House, args: &[&str]) -> Self {
        let mut command = house.command(&[&["attach"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Waits until it has ended; returns its exit code, what it printed last, and its remarks.
    fn ended(self) -> (Option<i32>, Vec<String>, String) {
        let rest = self.lines.map_while(Result::ok).collect();
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), rest, String::from_utf8(output.stderr).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_shows_the_turn_then_each_line_and_leaving_only_detaches() {
    let station = Station::new();
    let house = &station.house;
    let id = station.start("repo", ENGINE);
    wait_for("the turn", || {
        let list = house.json(&["sessions", "--json"]);
        if list["items"][0]["process"]["generating"] == true { Ok(()) } else { Err(list) }
    });
    let mut terminal = Terminal::attach(house, &[&id]);
    assert_eq!(terminal.line(), "half");
    let rows: Value = house.json(&["sessions", "--json"]);
    assert_eq!(rows["items"][0]["last_activity_kind"], "capture", "somebody looks");
    station.send(&id, "more");
    assert_eq!(terminal.line(), "a\\u{1b}[31mb", "nothing that a terminal obeys");
    kill_process(Pid::from_child(&terminal.child), Signal::INT).unwrap();
    let (code, rest, remarks) = terminal.ended();
    assert_eq!((code, rest.len()), (Some(0), 0));
    assert!(remarks.starts_with("Detached. The session goes on; `sexton attach "), "{remarks}");

    let mut programs = Terminal::attach(house, &[&id, "--json"]);
    let live: Value = serde_json::from_str(&programs.line()).unwrap();
    assert_eq!((&live["event"], &live["data"]["text"]), (&"live".into(), &"half\na\u{1b}[31mb".into()));
    station.send(&id, "done");
    let line: Value = serde_json::from_str(&programs.line()).unwrap();
    assert_eq!((&line["event"], &line["id"]), (&"line".into(), &line["data"]["cursor"]));
    let terminal = Terminal::attach(house, &[&id]);
    wait_for("the terminal", || {
        let list = house.json(&["sessions", "--json"]);
        if list["items"][0]["process"]["attached"] == 2 { Ok(()) } else { Err(list) }
    });
    house.done(&["end", &id]);
    let (code, rest, remarks) = terminal.ended();
    assert!(rest.iter().all(|line| line.contains("turn_ended")), "no old messages: {rest:?}");
    assert_eq!((code, remarks.as_str()), (Some(0), "The session has ended (ended_by_person).\n"));
    let (code, rest, _) = programs.ended();
    let end: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_eq!((code, &end["event"]), (Some(0), &"ended".into()));
    assert!(house.refused(&["attach", "nobody"]).contains("there is no session nobody"));
}
