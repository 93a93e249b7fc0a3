//! Clients that never read cost no engine and little memory, and no stream holds a clean stop up.

use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::attach::station::Station;
use crate::cli::house::wait_for;

const CLIENTS: u64 = 20;
const LINES: u64 = 10_000;
/// Each of its lines is a thousand bytes and an end.
const OUTPUT: u64 = LINES * 1_001;

/// Returns the most memory that the process which listens there has used so far, in bytes.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_read_cost_no_engine_little_memory_and_no_clean_stop() {
    let mut station = Station::new();
    let line = "x".repeat(1_000);
    let id = station.start("repo", &format!("read -r go; yes {line} | head -c {OUTPUT}; echo last; cat"));
    let mut reader = station.follow(&format!("/v1/sessions/{id}/events"), None, true).await;
    assert_eq!(reader.next().await.unwrap().name, "live");
    let before = peak(station.worker_pid());
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let address = station.base.strip_prefix("http://").unwrap();
        let mut client = socket.connect(address.parse().unwrap()).await.unwrap();
        let request = format!(
            "GET /v1/sessions/{id}/events?client=c{number} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
            station.token
        );
        client.write_all(request.as_bytes()).await.unwrap();
        clients.push(client);
    }
    wait_for("the clients", || {
        let list = station.house.json(&["sessions", "--json"]);
        let attached = list["items"][0]["process"]["attached"].as_u64();
        if attached == Some(CLIENTS + 1) { Ok(()) } else { Err(list) }
    });
    station.send(&id, "go");
    let mut heard = 0;
    while let Some(got) = reader.next().await {
        heard += 1;
        if got.data["line"] == "last" {
            break;
        }
    }
    assert_eq!(heard, LINES + 1, "whoever reads gets all of it");
    let cost = peak(station.worker_pid()) - before;
    eprintln!("{CLIENTS} clients that read none of {OUTPUT} bytes: {cost} bytes of memory in the worker");
    assert!(cost < CLIENTS * OUTPUT / 4, "{cost} bytes for {CLIENTS} clients");

    station.lose_worker(Signal::TERM);
    let over = tokio::time::timeout(Duration::from_secs(10), reader.next()).await;
    assert!(over.expect("the stream ends with its worker").is_none());
    let page = station.get(&format!("/v1/sessions/{id}/capture?lines=1")).await;
    assert_eq!(page["items"][0]["line"], "last", "the engine lives");
}
