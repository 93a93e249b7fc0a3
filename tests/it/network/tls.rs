//! Worker and runner beyond loopback: TLS by own certificates, and who is believed.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sexton::api;
use sexton::clock::SystemClock;
use sexton::config::Config;
use sexton::network::{Listener, Tls};
use sexton::runner::{Runner, serve};
use sexton::runner_client::{ClientSettings, HttpRunners, NoAnswer, Observation, RunnerApi, Target};
use sexton::time::Span;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::runner::{SECRET, settings};
use crate::support::world::World;

const CERT: &str = include_str!("../../../fixtures/tls/cert.pem");
const KEY: &str = include_str!("../../../fixtures/tls/key.pem");

/// Longer than anything here takes.
const MOST: Duration = Duration::from_secs(10);

/// Listens on a free port with the certificate of the fixtures.
async fn listener(address: &str, folder: &Path) -> Listener {
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, CERT).unwrap();
    std::fs::write(&key, KEY).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let tls = Tls::read(&cert, &key).unwrap();
    Listener::from(TcpListener::bind(address).await.unwrap()).with_tls(Some(tls))
}

fn client(roots: &str) -> HttpRunners {
    let settings = ClientSettings {
        connect_timeout: Span(5_000),
        timeout: Span(5_000),
        end_timeout: Span(5_000),
        send_timeout: Span(5_000),
        response_bytes: 1 << 20,
    };
    HttpRunners::trusting(&settings, roots.as_bytes()).unwrap()
}

/// A client that believes the certificate of the fixtures alone.
fn browser() -> reqwest::Client {
    // A second installation is refused, and then the first one serves.
    drop(rustls::crypto::ring::default_provider().install_default());
    let root = reqwest::Certificate::from_pem(CERT.as_bytes()).unwrap();
    reqwest::Client::builder().no_proxy().tls_certs_only([root]).timeout(MOST).build().unwrap()
}

/// A real runner that speaks TLS, and who asks it.
struct Secured {
    home: TempDir,
    port: u16,
    stop: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
}

impl Secured {
    async fn start(hosts: &[String]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let listener = listener("0.0.0.0:0", home.path()).await.with_hosts(hosts);
        let (port, stop) = (listener.address().unwrap().port(), CancellationToken::new());
        let runner = Runner::open(settings(home.path(), Arc::new(SystemClock))).unwrap();
        let served = tokio::spawn(serve(runner, listener, stop.clone()));
        Self { home, port, stop, served }
    }

    fn target(&self, scheme: &str, host: &str) -> Target {
        let token_file = self.home.path().join("token");
        std::fs::write(&token_file, SECRET).unwrap();
        Target {
            id: "runner-1".parse().unwrap(),
            url: format!("{scheme}://{host}:{}", self.port),
            token_file: Some(token_file.display().to_string()),
            identity: Some("runner-1".to_owned()),
            state_id: None,
            epoch: None,
            speaks_protocol: true,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_runner_is_asked_over_tls_and_believed_by_its_certificate_alone() {
    let runner = Secured::start(&[]).await;
    for host in ["127.0.0.1", "localhost"] {
        let health = client(CERT).health(&runner.target("https", host)).await;
        assert_eq!(health.unwrap().origin.runner_id.as_str(), "runner-1", "{host}");
    }
    let stranger = client("").health(&runner.target("https", "127.0.0.1")).await.unwrap_err();
    assert!(matches!(stranger, NoAnswer::Unanswered(_)), "it did connect, so its machine is not gone: {stranger:?}");
    // Nothing of its set is believed either, so no row could be closed by it.
    let observed = client("").tracked(&runner.target("https", "127.0.0.1")).await;
    assert!(!matches!(observed, Observation::Live(_)), "{observed:?}");
    let plain = client(CERT).health(&runner.target("http", "127.0.0.1")).await;
    assert!(plain.is_err_and(|why| !matches!(why, NoAnswer::Unconnected(_))), "a secret is answered to over TLS alone");
    runner.stop().await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_believed() {
    let runner = Secured::start(&[]).await;
    // The fixture is for 127.0.0.1, not for the rest of the loopback.
    let refused = client(CERT).health(&runner.target("https", "127.0.0.2")).await;
    assert!(matches!(refused, Err(NoAnswer::Unanswered(_))), "{refused:?}");
    runner.stop().await;
}

#[test]
fn roots_that_are_none_are_refused() {
    let settings = ClientSettings {
        connect_timeout: Span(1),
        timeout: Span(1),
        end_timeout: Span(1),
        send_timeout: Span(1),
        response_bytes: 1,
    };
    for bad in ["nothing", KEY] {
        let why = HttpRunners::trusting(&settings, bad.as_bytes()).unwrap_err();
        assert!(why.contains("server.runner_ca"), "{why}");
    }
}

/// A worker that speaks TLS on all addresses.
struct Worker {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<anyhow::Result<()>>,
    client: reqwest::Client,
    _world: World,
}

impl Worker {
    async fn start(hosts: &[String]) -> Self {
        let world = World::with(|config: &mut Config| config.schedule.sweep = "0 0 0 1 1 *".to_owned()).await;
        let listener = listener("0.0.0.0:0", world.folder.path()).await.with_hosts(hosts);
        let address = SocketAddr::new([127, 0, 0, 1].into(), listener.address().unwrap().port());
        let stop = CancellationToken::new();
        let served = tokio::spawn(api::serve(world.tools.clone(), "me".to_owned(), listener, stop.clone()));
        Self { address, stop, served, client: browser(), _world: world }
    }

    async fn healthz(&self, headers: &[(&str, &str)]) -> u16 {
        let mut request = self.client.get(format!("https://{}/healthz", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(2 * MOST, self.served).await.expect("the stop takes too long").unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_api_answers_over_tls_under_addresses_and_listed_names() {
    let worker = Worker::start(&["sexton.example".to_owned()]).await;
    let port = worker.address.port();
    for host in ["10.0.0.7", "sexton.example", &format!("192.168.1.2:{port}"), &format!("sexton.example:{port}")] {
        assert_eq!(worker.healthz(&[("host", host)]).await, 200, "{host}");
    }
    for host in ["evil.example", "10.0.0.7.nip.io", "10.0.0.7:1", "evil.sexton.example"] {
        assert_eq!(worker.healthz(&[("host", host)]).await, 403, "{host}");
    }
    for (origin, status) in
        [("https://sexton.example", 200), ("http://sexton.example", 403), ("https://evil.example", 403), ("null", 403)]
    {
        assert_eq!(worker.healthz(&[("host", "sexton.example"), ("origin", origin)]).await, status, "{origin}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn clients_that_say_nothing_or_nonsense_hold_up_nobody() {
    let worker = Worker::start(&[]).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(worker.address).await.unwrap());
    }
    let answered = tokio::time::timeout(Duration::from_secs(4), worker.healthz(&[])).await;
    assert_eq!(answered.expect("it waits for those that say nothing"), 200);

    let mut plain = TcpStream::connect(worker.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let ended = tokio::time::timeout(MOST, plain.read_to_end(&mut said)).await.expect("it is left waiting");
    assert!(ended.is_err() || !String::from_utf8_lossy(&said).contains("HTTP/"), "{said:?}");
    assert_eq!(worker.healthz(&[]).await, 200, "and it goes on");
    for mut client in silent {
        let mut byte = [0];
        let let_go = tokio::time::timeout(MOST, client.read(&mut byte)).await.expect("it is never let go");
        assert!(matches!(let_go, Ok(0) | Err(_)), "{let_go:?}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_clients_that_say_nothing() {
    let worker = Worker::start(&[]).await;
    let _silent = TcpStream::connect(worker.address).await.unwrap();
    assert_eq!(worker.healthz(&[]).await, 200);
    let stopped = tokio::time::timeout(Duration::from_secs(4), worker.stop()).await;
    stopped.expect("it waits for who says nothing");
}

#[tokio::test]
async fn a_runner_beyond_loopback_is_asked_under_addresses_and_listed_names_and_by_no_browser() {
    let runner = Secured::start(&["mac.example".to_owned()]).await;
    let client = browser();
    let asked = async |name: &str, value: &str| {
        let request = client.get(format!("https://127.0.0.1:{}/coding/health", runner.port)).bearer_auth(SECRET);
        request.header(name, value).send().await.unwrap().status().as_u16()
    };
    for host in ["10.0.0.7", "mac.example", &format!("mac.example:{}", runner.port)] {
        assert_eq!(asked("host", host).await, 200, "{host}");
    }
    for host in ["evil.example", "mac.example.evil.example"] {
        assert_eq!(asked("host", host).await, 403, "{host}");
    }
    assert_eq!(asked("origin", "https://mac.example").await, 403);
    runner.stop().await;
}
