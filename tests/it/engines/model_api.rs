//! The model's API that the other tests here rest on: it does what it is told.

use serde_json::{Value, json};

use crate::support::model_api::ModelApi;

async fn asked(api: &ModelApi, path: &str, body: &Value) -> (u16, String) {
    // Whoever comes first in this process installs it.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(format!("{}{path}", api.base_url)).json(body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

fn anthropic(texts: &[&str]) -> Value {
    let messages: Vec<Value> = texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
    json!({"model": "m", "stream": true, "tools": [{"name": "Bash"}], "messages": messages})
}

fn openai(texts: &[&str]) -> Value {
    let message = |text: &&str| json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
    json!({"model": "m", "stream": true, "input": texts.iter().map(message).collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_directive_is_obeyed_on_both_apis() {
    let api = ModelApi::start().await;
    let said: [(&[&str], &str); 4] = [
        (&["@say well"], "well"),
        (&["@say a", "@say b", "@recall"], "recalled: a | b"),
        (&["@bg 1500"], "sleep 1.500"),
        (&["nothing"], "noted"),
    ];
    for (texts, expected) in said {
        for (path, body) in [("/v1/messages", anthropic(texts)), ("/v1/responses", openai(texts))] {
            let (status, answer) = asked(&api, path, &body).await;
            assert!(status == 200 && answer.contains(expected), "{path}: {answer}");
        }
    }
    assert_eq!(asked(&api, "/v1/messages", &anthropic(&["@err 529"])).await.0, 529);
    assert_eq!(asked(&api, "/v1/responses", &openai(&["@err"])).await.0, 400);
    assert_eq!(api.asked().len(), 10);
}
