//! What a list says about an engine's processes.

use crate::support::runner::{TestRunner, tracked};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_tells_the_memory_and_processor_time_of_the_whole_tree() {
    let runner = TestRunner::start().await;
    let alone = runner.script("alone", "exec cat").await;
    let resident = |pid: i32| {
        let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<i64>().unwrap() * 4096
    };
    let one = runner.until_tracked("alone", "measured", |one| one["rss_bytes"].as_i64() > Some(0)).await;
    assert!((one["rss_bytes"].as_i64().unwrap() - resident(alone)).abs() < 1 << 20, "{one}");
    assert!(one["cpu_ms"].is_i64());

    // A child in a session of its own that is held by nobody, with memory and work of its own.
    let hog = "setsid sh -c 'x=$(head -c 30000000 /dev/zero | tr \"\\0\" x); i=0; while :; do i=$((i+1)); done' & exit_later() { :; }; cat";
    runner.script("tree", hog).await;
    let heavy = |one: &serde_json::Value| one["rss_bytes"].as_i64() > Some(25_000_000);
    let one = runner.until_tracked("tree", "large", heavy).await;
    let then = one["cpu_ms"].as_i64().unwrap();
    runner.until_tracked("tree", "at work", |one| one["cpu_ms"].as_i64() > Some(then + 50)).await;
    for id in ["alone", "tree"] {
        assert_eq!(tracked(&runner.list().await, id).unwrap()["containment"], "subreaper");
    }
    let ended = runner.force("tree", 1).await.1;
    assert!(ended["freed_bytes"].as_i64() > Some(25_000_000), "{ended}");
    assert_eq!(ended["containment"], "subreaper", "{ended}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_child_that_is_gone_still_counts() {
    let runner = TestRunner::start().await;
    runner.script("s1", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo done; cat").await;
    let mut events = runner.listen("s1", "cursor=1-0").await;
    assert_eq!(events.line().await, "done");
    let cpu = tracked(&runner.list().await, "s1").unwrap()["cpu_ms"].as_i64().unwrap();
    assert!(cpu >= 50, "{cpu} ms");
    runner.stop().await;
}
