//! A client that is dropped a hundred times within one turn, while worker and runner are killed under it.

use rustix::process::Signal;
use sexton::protocol::Cursor;

use crate::attach::station::Station;
use crate::support::sse::Got;

const LINES: usize = 20_000;
const VISITS: usize = 100;

/// One turn, which ends only when it is told to.
const ENGINE: &str = "read -r go; echo '{\"type\":\"turn_started\"}'; i=0; while [ $i -lt 200 ]; do \
                      seq $((i*100+1)) $((i*100+100)); i=$((i+1)); sleep 0.01; done; \
                      read -r end; echo '{\"type\":\"turn_ended\"}'; cat > /dev/null";

/// Everything that a client was told, in order.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    last: Option<Cursor>,
    ends: usize,
}

impl Heard {
    fn take(&mut self, got: &Got) {
        assert!(got.cursor() >= self.last, "{got:?} after {:?}", self.last);
        self.last = got.cursor();
        match got.name.as_str() {
            "live" => {
                let text = got.data["text"].as_str().unwrap();
                assert!(got.data["resumed"] == false || text.is_empty(), "{got:?}");
                self.lines.extend(text.lines().map(str::to_owned));
            }
            "line" => self.lines.push(got.data["line"].as_str().unwrap().to_owned()),
            "ended" => self.ends += 1,
            other => panic!("{other}: {got:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_got_equals_the_engines_output_exactly() {
    let mut station = Station::new();
    let id = station.start("repo", ENGINE);
    let path = format!("/v1/sessions/{id}/events?client=browser&looking=true");
    let mut heard = Heard::default();
    for visit in 0..VISITS {
        let mut events = station.follow(&path, heard.last.map(|it| it.to_string()).as_deref(), visit % 2 == 0).await;
        if visit == 0 {
            heard.take(&events.next().await.unwrap());
            station.send(&id, "go");
        }
        // What is left is spread over the visits that are left, so that each of them gets something.
        let share = (LINES + 2 - heard.lines.len()).div_ceil(VISITS - visit);
        let enough = heard.lines.len() + share.min(LINES + 1 - heard.lines.len());
        match visit {
            25 => station.lose_worker(Signal::TERM),
            50 => station.lose_runner(),
            75 => station.lose_worker(Signal::KILL),
            _ => {}
        }
        while heard.lines.len() < enough {
            match events.next().await {
                Some(got) => heard.take(&got),
                None => events = station.follow(&path, heard.last.map(|it| it.to_string()).as_deref(), true).await,
            }
        }
    }
    assert_eq!((heard.lines.len(), heard.ends), (LINES + 1, 0), "all of it within one turn");
    station.send(&id, "end");
    let mut events = station.follow(&path, heard.last.map(|it| it.to_string()).as_deref(), true).await;
    while heard.lines.len() < LINES + 2 {
        heard.take(&events.next().await.unwrap());
    }
    assert_eq!(heard.lines, history(&station, &id).await);
    let numbers = (1..=LINES).map(|n| n.to_string());
    let turn = ["{\"type\":\"turn_started\"}".to_owned()].into_iter().chain(numbers);
    assert_eq!(heard.lines, turn.chain(["{\"type\":\"turn_ended\"}".to_owned()]).collect::<Vec<_>>());

    station.house.done(&["end", &id]);
    heard.take(&events.next().await.unwrap());
    assert!(events.next().await.is_none());
    assert_eq!((heard.ends, heard.lines.len()), (1, LINES + 2), "exactly one end, and it is the last event");
}

/// Reads all that the runner keeps, page by page.
async fn history(station: &Station, id: &str) -> Vec<String> {
    let (mut lines, mut after) = (Vec::new(), String::new());
    loop {
        let page = station.get(&format!("/v1/sessions/{id}/history?limit=1000{after}")).await;
        let items = page["items"].as_array().unwrap();
        lines.extend(items.iter().map(|item| item["line"].as_str().unwrap().to_owned()));
        let next = &page["next"];
        if next.is_null() {
            return lines;
        }
        after = format!("&after={}", next.as_str().unwrap());
    }
}
