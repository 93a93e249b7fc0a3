//! Every refusal, the framework's own included, is JSON that says who refuses.

use reqwest::Method;
use reqwest::header::{HOST, ORIGIN};
use serde_json::{Value, json};

use crate::support::runner::{SECRET, TestRunner, ended, tracked};

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
async fn a_runner_serves_many_owners_and_tells_each_nothing_of_the_others() {
    let runner = TestRunner::start().await;
    let start = |id: &str, owner: &str, conversation: Value| {
        json!({"session_id": id, "generation": 2, "engine": "sample", "cwd": "/", "args": ["idle"], "owner_id": owner,
               "engine_session_id": conversation})
    };
    for (id, owner) in [("s1", "ann"), ("s2", "bob")] {
        assert_eq!(runner.post("start", start(id, owner, Value::Null)).await.0, 200);
    }
    let known = runner.until_tracked("s1", "known", |one| one["engine_session_id"].is_string()).await;
    let conversation = known["engine_session_id"].clone();
    for ended in [false, true] {
        let taken = [start("s1", "bob", Value::Null), start("s3", "bob", conversation.clone())];
        for body in taken {
            let (status, answer) = runner.post("start", body).await;
            assert_eq!((status, answer["outcome"].as_str()), (404, Some("not_tracked")), "{answer}");
        }
        each_verb_is_answered_like_an_unknown_id(&runner, &conversation).await;
        if !ended {
            let (status, answer) = runner.post("start", start("s4", "ann", conversation.clone())).await;
            assert_eq!((status, answer["outcome"].as_str()), (409, Some("in_use")), "one process for one conversation");
            assert!(tracked(&runner.list().await, "s1").is_some(), "another owner's end ends nothing");
            assert_eq!(runner.force("s1", 2).await.0, 200);
        }
    }
    let list = runner.get("/coding/sessions?owner_id=bob").await;
    assert!(!list.to_string().contains("s1") && !list.to_string().contains(conversation.as_str().unwrap()), "{list}");
    assert_eq!(list["complete"], false, "a list for one owner reconciles nothing");
    assert_eq!((list["tracked"].as_array().map(Vec::len), list["ended"].as_array().map(Vec::len)), (Some(1), Some(0)));
    runner.stop().await;
}

/// Asks as bob for ann's session and for one that never was: the answers differ in nothing but the id.
async fn each_verb_is_answered_like_an_unknown_id(runner: &TestRunner, conversation: &Value) {
    for verb in ["messages", "end", "interrupt", "clear", "touch"] {
        let ask = |id: &'static str| {
            let body = json!({"session_id": id, "generation": 2, "text": "x", "mode": "force", "kind": "capture",
                              "reason": "ended_by_person", "owner_id": "bob"});
            runner.post(verb, body)
        };
        let ((status, foreign), (unknown_status, unknown)) = (ask("s1").await, ask("s9").await);
        assert_eq!((status, foreign["outcome"].as_str()), (404, Some("not_tracked")), "{verb}: {foreign}");
        assert_eq!((status, foreign.to_string().replace("s1", "s9")), (unknown_status, unknown.to_string()), "{verb}");
    }
    let list = async || {
        let list = runner.get("/coding/sessions?owner_id=bob").await;
        list["tracked"].as_array().unwrap().iter().chain(list["ended"].as_array().unwrap()).cloned().collect::<Vec<_>>()
    };
    assert!(list().await.iter().all(|one| one["session_id"] == "s2"), "a list tells of no other");
    let conversation = conversation.as_str().unwrap();
    for (path, foreign, unknown) in
        [("find?engine_session_id=", conversation, "s9"), ("events?session_id=", "s1", "s9")]
    {
        let foreign = runner.get(&format!("/coding/{path}{foreign}&owner_id=bob")).await;
        let unknown = runner.get(&format!("/coding/{path}{unknown}&owner_id=bob")).await;
        assert_eq!(foreign["outcome"], "not_tracked");
        assert_eq!(foreign.to_string().replace("s1", "s9"), unknown.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_claims_another_owners_conversation_is_not_believed() {
    let runner = TestRunner::start_with(|settings| {
        let sh = settings.engines.get_mut("sh").unwrap();
        sh.resume.clone_from(&sh.command);
    })
    .await;
    let script = r#"echo '{"type":"session","engine_session_id":"c-1"}'; echo '{"type":"turn_started"}'; exec cat"#;
    let start = async |id: &str, owner: &str, generation: i64, conversation: Value| {
        let body = json!({"session_id": id, "generation": generation, "engine": "sh", "cwd": "/", "args": [script],
                          "owner_id": owner, "engine_session_id": conversation});
        let (status, answer) = runner.post("start", body).await;
        assert_eq!(status, 200, "{answer}");
        runner.until_tracked(id, "heard", |one| one["generating"] == true).await["engine_session_id"].clone()
    };
    let find = async |owner: &str| runner.get(&format!("/coding/find?engine_session_id=c-1&owner_id={owner}")).await;
    assert_eq!(start("a1", "ann", 1, Value::Null).await, "c-1");
    assert_eq!(start("b1", "bob", 1, Value::Null).await, Value::Null, "a living engine of ann's holds it");
    let troubles = runner.get("/coding/health").await["troubles"].to_string();
    assert!(troubles.contains("session b1") && troubles.contains("another owner's"), "{troubles}");
    assert_eq!(runner.force("b1", 1).await.0, 200);
    assert_eq!(ended(&runner.list().await, "b1").unwrap()["engine_session_id"], Value::Null, "nor in its record");

    assert_eq!(runner.force("a1", 1).await.0, 200);
    assert_eq!(start("b1", "bob", 2, Value::Null).await, Value::Null, "an engine of ann's held it when it ended");
    assert_eq!(
        (&find("bob").await["outcome"], &find("ann").await["session_id"]),
        (&json!("not_tracked"), &json!("a1"))
    );
    assert_eq!(start("a1", "ann", 2, json!("c-1")).await, "c-1", "ann takes it up again");
    assert_eq!(start("a2", "ann", 1, Value::Null).await, "c-1", "one owner's engines may share it");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_there_before_there_were_owners_is_the_configured_ones() {
    let runner = TestRunner::start().await;
    for id in ["s1", "s2"] {
        runner.sample(id, &["idle"]).await;
        runner.until_tracked(id, "known", |one| one["engine_session_id"].is_string()).await;
    }
    let conversation = tracked(&runner.list().await, "s1").unwrap()["engine_session_id"].as_str().unwrap().to_owned();
    runner.force("s1", 1).await;
    let runner = runner
        .again_with(|settings| {
            settings.owner = Some("me".to_owned());
            let sample = settings.engines.get_mut("sample").unwrap();
            sample.resume.clone_from(&sample.command);
        })
        .await;
    let touch = |owner: &str| {
        runner.post("touch", json!({"session_id": "s2", "generation": 1, "kind": "capture", "owner_id": owner}))
    };
    assert_eq!((touch("me").await.0, touch("bob").await.0), (200, 404));
    let find = async |owner: &str| {
        runner.get(&format!("/coding/find?engine_session_id={conversation}&owner_id={owner}")).await
    };
    assert_eq!((&find("me").await["session_id"], &find("bob").await["outcome"]), (&json!("s1"), &json!("not_tracked")));
    let record = std::fs::read_to_string(runner.state().join("ended/s1.1.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&record).unwrap()["owner_id"], "me", "for good");
    let resume = |id: &str, owner: &str| {
        let body = json!({"session_id": id, "generation": 2, "engine": "sample", "cwd": "/", "args": ["idle"],
                          "owner_id": owner, "engine_session_id": conversation});
        runner.post("start", body)
    };
    assert_eq!(resume("s9", "bob").await.0, 404);
    let (status, answer) = resume("s1", "me").await;
    assert_eq!(status, 200, "resuming it still works: {answer}");
    runner.stop().await;
}
