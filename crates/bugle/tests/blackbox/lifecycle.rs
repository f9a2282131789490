//! Start, stop, crash.

use tokio::time::timeout;

use crate::common::{PATIENCE, ids};

on_every_engine! {
    async fn a_stopping_server_answers_waiters_and_exits_cleanly(on: On) {
        let server = on.start().await;
        let client = server.client();
        let waiter = tokio::spawn(async move { client.get("/api/v1/pop/queue/q?wait=true&timeout=60000").await });
        server.until_waiting(1).await;
        let status = server.terminate().await;
        assert_eq!(timeout(PATIENCE, waiter).await.expect("answered").unwrap().status, 204);
        assert!(status.success(), "{status}");
    }

    async fn readiness_ends_before_the_server_stops_accepting(on: On) {
        let server = on.start_with(&["--drain-delay=60s"]).await;
        assert_eq!(server.get("/health/ready").await.status, 200);
        server.ask_to_end();
        let not_ready = async { while server.get("/health/ready").await.status != 503 {} };
        timeout(PATIENCE, not_ready).await.expect("not ready any more");
        assert_eq!(server.get("/health/live").await.status, 200);
        server.push_ids("q", "p", &["t"]).await;
        assert!(server.terminate().await.success(), "a second signal ends the delay");
    }

    async fn messages_survive_a_crash_and_a_restart(on: On) {
        let server = on.start().await;
        server.configure(serde_json::json!({"queue": "q", "options": {"leaseTime": 1}})).await;
        let all: Vec<String> = (0..50).map(|n| format!("t{n}")).collect();
        for id in &all {
            server.push_ids("q", "p", &[id]).await;
        }
        let popped = server.pop_some("/queue/q?batch=10").await;
        server.ack_all(&popped, "completed").await;
        server.kill();

        let server = on.start().await;
        assert_eq!(server.push_ids("q", "p", &["t7", "t49"]).await[1]["status"], "duplicate", "ids are remembered");
        let rest = server.pop_some("/queue/q?batch=100&wait=true&timeout=20000").await;
        assert_eq!(ids(&rest), all[10..], "nothing lost, nothing again, in order");
        server.ack_all(&rest, "completed").await;
        assert!(server.terminate().await.success());

        let server = on.start().await;
        assert_eq!(server.pop("/queue/q?batch=100").await, None);
        assert_eq!(server.configure(serde_json::json!({"queue": "q"})).await["options"]["leaseTime"], 1);
    }

    async fn health_tells_of_the_store(on: On) {
        let server = on.start().await;
        let health = server.get("/health").await.expect(200);
        assert_eq!((&health["status"], &health["database"], &health["server"]), (&"healthy".into(), &"connected".into(), &"bugle".into()));
        let engine = if on.data_dir().is_some() { "embedded" } else { "postgres" };
        assert_eq!((&health["store"]["engine"], &health["store"]["connected"]), (&engine.into(), &true.into()));
        assert_eq!(server.get("/").await.expect(200)["server"], "bugle");
    }
}
