//! Leases: renewal, and what an invalid one is good for.

use serde_json::{Value, json};

use crate::common::ids;

on_every_engine! {
    async fn a_live_lease_is_extended(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        let popped = server.pop_some("/queue/q?leaseSeconds=30").await;
        let lease = popped["leaseId"].as_str().unwrap();
        let path = format!("/api/v1/lease/{lease}/extend");
        let extended = server.post(&path, json!({"seconds": 3000})).await.expect(200);
        assert_eq!((&extended["success"], &extended["leaseId"], &extended["error"]), (&json!(true), &json!(lease), &Value::Null));
        let end = extended["newExpiresAt"].as_str().unwrap();
        assert!(end > popped["leaseExpiresAt"].as_str().unwrap(), "{extended}");
        assert_eq!((&extended["expiresAt"], &extended["lease_expires_at"]), (&json!(end), &json!(end)));
        let shorter = server.send("POST", &path, "").await.expect(200);
        assert_eq!((&shorter["success"], &shorter["newExpiresAt"]), (&json!(true), &json!(end)), "never shortened");
    }

    async fn an_unknown_lease_is_told_in_the_body(on: On) {
        let server = on.start().await;
        for lease in ["018f0000-0000-7000-8000-000000000001", "garbage"] {
            let answer = server.post(&format!("/api/v1/lease/{lease}/extend"), json!({})).await.expect(200);
            assert_eq!((&answer["success"], &answer["error"], &answer["newExpiresAt"]), (&json!(false), &json!("Lease not found"), &Value::Null));
        }
    }

    async fn an_ended_lease_gives_its_messages_back(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        let first = server.pop_some("/queue/q?leaseSeconds=1").await;
        let second = server.pop_some("/queue/q?wait=true&timeout=20000").await;
        assert_eq!(ids(&second), ["t"]);
        assert_ne!(first["leaseId"], second["leaseId"]);
        assert_eq!(second["messages"][0]["deliveryAttempt"], 2);
        let stale = server.ack_all(&first, "completed").await;
        assert_eq!((&stale[0]["success"], &stale[0]["leaseReleased"]), (&json!(false), &json!(false)));
        assert!(stale[0]["error"].as_str().unwrap().to_lowercase().contains("invalid or expired lease"), "{stale}");
        assert_eq!(server.ack_all(&second, "completed").await[0]["success"], true);
    }
}
