//! Every refusal, the framework's own included, is JSON that says who refuses.

use reqwest::Method;
use reqwest::header::{HOST, ORIGIN};
use serde_json::{Value, json};

use crate::support::runner::{SECRET, TestRunner, tracked};

async fn refused(request: reqwest::RequestBuilder, status: u16, outcome: &str) -> String {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), status);
    let body: Value = answer.json().await.unwrap();
    assert_eq!((body["protocol"].as_i64(), body["runner_id"].as_str()), (Some(1), Some("runner-1")), "{body}");
    assert_eq!((body["epoch"].as_i64(), body["ready"].as_bool()), (Some(1), Some(true)), "{body}");
    assert_eq!(body["outcome"], outcome, "{body}");
    body["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_says_who_refuses() {
    let runner = TestRunner::start().await;
    let get = |path: &str| runner.request(Method::GET, path);
    let post = |path: &str| runner.request(Method::POST, path).bearer_auth(SECRET);
    refused(get("/coding/health"), 401, "unauthorised").await;
    refused(get("/coding/nowhere"), 401, "unauthorised").await;
    refused(get("/coding/health").bearer_auth("wrong"), 401, "unauthorised").await;
    refused(get("/coding/health").header("Authorization", format!("Basic {SECRET}")), 401, "unauthorised").await;
    refused(get("/coding/health").bearer_auth(SECRET).header(HOST, "evil.example"), 403, "bad_request").await;
    refused(get("/coding/health").bearer_auth(SECRET).header(ORIGIN, "http://localhost"), 403, "bad_request").await;
    refused(get("/coding/nowhere").bearer_auth(SECRET), 404, "bad_request").await;
    refused(post("/coding/health"), 405, "bad_request").await;
    refused(post("/coding/touch").body("{"), 400, "bad_request").await;
    refused(post("/coding/touch").body("{}"), 400, "bad_request").await;
    let shape = r#"{"session_id":"a b","generation":1,"kind":"capture"}"#;
    let message = refused(post("/coding/touch").body(shape), 400, "bad_request").await;
    assert!(message.contains("is not an id"), "{message}");
    refused(post("/coding/touch").body("x".repeat(9 * 1024 * 1024)), 413, "bad_request").await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_is_read_when_it_is_needed() {
    let runner = TestRunner::start().await;
    let secret = runner.home.path().join("secret");
    std::fs::write(&secret, "another\n").unwrap();
    let health = |token: &str| runner.request(Method::GET, "/coding/health").bearer_auth(token);
    refused(health(SECRET), 401, "unauthorised").await;
    assert_eq!(health("another").send().await.unwrap().status(), 200);
    for nothing in ["", "\n"] {
        std::fs::write(&secret, nothing).unwrap();
        refused(health(""), 401, "unauthorised").await;
    }
    std::fs::remove_file(&secret).unwrap();
    let message = refused(health("another"), 401, "unauthorised").await;
    assert!(message.contains("is not there or empty"), "{message}");
    std::fs::write(&secret, SECRET).unwrap();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_serves_one_owner_and_tells_another_nothing() {
    let runner = TestRunner::start().await;
    let start = |id: &str, owner: Value| json!({"session_id": id, "generation": 1, "engine": "sample", "cwd": "/", "args": ["idle"], "owner_id": owner});
    assert_eq!(runner.post("start", start("s1", json!("ann"))).await.0, 200);
    for (id, owner) in [("s1", json!("bob")), ("s2", json!("bob")), ("s2", Value::Null)] {
        let (status, answer) = runner.post("start", start(id, owner)).await;
        assert_eq!((status, answer["outcome"].as_str()), (409, Some("bad_request")), "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("another owner") && !message.contains("ann"), "{message}");
    }
    assert_eq!(runner.post("start", start("s2", json!("ann"))).await.0, 200);

    let as_bob = |verb: &'static str, id: &str| {
        let body = json!({"session_id": id, "generation": 1, "text": "x", "mode": "force", "reason": "ended_by_person",
                          "owner_id": "bob"});
        runner.post(verb, body)
    };
    for ended in [false, true] {
        for verb in ["messages", "end"] {
            let (status, other) = as_bob(verb, "s1").await;
            let (unknown_status, unknown) = as_bob(verb, "s9").await;
            assert_eq!((status, other["outcome"].as_str()), (404, Some("not_tracked")), "{other}");
            let renamed = other.to_string().replace("s1", "s9");
            assert_eq!((status, renamed), (unknown_status, unknown.to_string()), "{verb}, ended: {ended}");
        }
        if !ended {
            assert!(tracked(&runner.list().await, "s1").is_some(), "another owner's end ends nothing");
            assert_eq!(runner.force("s1", 1).await.0, 200);
        }
    }
    runner.force("s2", 1).await;
    assert_eq!(runner.post("start", start("s3", json!("bob"))).await.0, 200, "none of ann's is left");
    runner.stop().await;
}
