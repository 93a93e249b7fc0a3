//! Looking at what became of deliveries.

use crate::api::{Ask, Host, ME, make_token};
use crate::support::receiver::{Mood, Receiver};

#[tokio::test]
async fn who_sees_everything_sees_what_was_delivered_and_what_waits() {
    let receiver = Receiver::start().await;
    let host = Host::with(|config| receiver.enrol(config)).await;
    host.world.sweep().await;
    host.world.session("a", 0, |_| ()).await;
    host.world.sweep().await;
    receiver.set(Mood::Says(503));
    host.world.session("b", 0, |_| ()).await;
    host.world.sweep().await;

    let all = host.get("/v1/deliveries").await.ok();
    let of = |list: &serde_json::Value| -> Vec<(String, String)> {
        let text = |item: &serde_json::Value, key: &str| item[key].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(|item| (text(item, "session_id"), text(item, "status"))).collect()
    };
    let pair = |session: &str, status: &str| (session.to_owned(), status.to_owned());
    assert_eq!(of(&all), [pair("b", "pending"), pair("a", "delivered")]);
    let item = &all["items"][0];
    assert_eq!((&item["webhook"], &item["attempts"]), (&"boss".into(), &1.into()));
    assert_eq!(item["last_error"], "the receiver answered 503");

    let first = host.get("/v1/deliveries?limit=1").await.ok();
    let second = host.get(&format!("/v1/deliveries?after={}", first["next"].as_str().unwrap())).await.ok();
    assert_eq!((of(&second), &second["next"]), (vec![pair("a", "delivered")], &serde_json::Value::Null));
    assert_eq!(of(&host.get("/v1/deliveries?status=delivered").await.ok()), [pair("a", "delivered")]);
    assert_eq!(host.get("/v1/deliveries?status=lost").await.code(), "bad_query");

    let reader = make_token(&host.world, ME, "read,use,reap").await;
    assert_eq!(host.ask(Ask::new("GET", "/v1/deliveries").token(&reader)).await.code(), "scope");
}
