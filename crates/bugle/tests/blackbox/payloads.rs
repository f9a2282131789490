//! Payloads come out as they went in, byte for byte.

on_every_engine! {
    async fn payloads_are_returned_byte_for_byte(on: On) {
        let server = on.start().await;
        let payloads = [
            r#"{"b":1,"a":2,"b":3}"#,
            "1.0",
            "1e400",
            "-0",
            "-0.0e-0",
            "123456789012345678901234567890.5",
            r#""\u0000\u001f\ud83d\ude00\/é""#,
            r#""\ud800""#,
            r#"{ "spaced" :  [ 1 ,	2 ] }"#,
            "null",
            "true",
            "[]",
            r#"{"data":{"payload":"nested names"},"leaseId":"x"}"#,
        ];
        let items: Vec<_> =
            payloads.iter().map(|payload| format!(r#"{{"queue":"q","payload": {payload} }}"#)).collect();
        let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
        assert_eq!(server.send("POST", "/api/v1/push", body).await.status, 201);
        let answer = server.get("/api/v1/pop/queue/q?batch=100").await;
        assert_eq!(answer.status, 200);
        let text = std::str::from_utf8(&answer.body).unwrap();
        // The payload is the one part that is not spelled by the server: what stands around it is known.
        let seen: Vec<_> = text
            .split(r#","data":"#)
            .skip(1)
            .map(|rest| rest.split_once(r#","queue":"q","partition":"#).unwrap().0)
            .collect();
        assert_eq!(seen, payloads);
    }

    async fn a_payload_of_the_deepest_nesting_passes(on: On) {
        let server = on.start().await;
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        let body = format!(r#"{{"items":[{{"queue":"q","payload":{deep}}}]}}"#);
        assert_eq!(server.send("POST", "/api/v1/push", body).await.status, 201);
        let answer = server.get("/api/v1/pop/queue/q").await;
        assert!(std::str::from_utf8(&answer.body).unwrap().contains(&deep));
    }

    async fn a_large_payload_passes(on: On) {
        let server = on.start().await;
        let large = "é".repeat(1 << 20);
        let body = format!(r#"{{"items":[{{"queue":"q","payload":"{large}"}}]}}"#);
        assert_eq!(server.send("POST", "/api/v1/push", body).await.status, 201);
        assert_eq!(server.pop_some("/queue/q").await["messages"][0]["data"], large);
    }
}
