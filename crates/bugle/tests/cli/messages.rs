//! `bugle messages`.

on_both_engines! {
    fn messages_are_listed_without_being_consumed(on: On) {
        let server = on.start();
        server.push("q", "a", &["{\"n\": 1.0}", "2"]);
        server.push("q", "b", &["3"]);
        let listed = server.bugle(&["messages", "q", "-o", "ndjson"]).ok();
        assert_eq!(listed.lines().count(), 3);
        assert!(listed.contains("\"data\":{\"n\": 1.0}"), "as it is stored: {listed}");
        let exact = "{\"z\":12345678901234567890.123456789,\"a\":[1.0,1e400]}";
        server.push("exact", "x", &[exact]);
        let message = server.bugle(&["messages", "exact", "-o", "json"]).ok();
        let message: serde_json::Value = serde_json::from_str(&message.replace("1e400", "0")).unwrap();
        let name = |at: &str| message["messages"][0][at].as_str().unwrap().to_owned();
        let (lane, id) = (name("partitionId"), name("transactionId"));
        for shown in [&["messages", "exact"][..], &["tail", "exact"], &["trace", &lane, &id], &["pop", "exact", "-g", "g", "--subscribe", "all"]] {
            let table = server.bugle(shown).ok();
            assert!(table.contains(exact), "{shown:?} shows it as it is stored: {table}");
        }
        let table = server.bugle(&["messages", "q", "-p", "b", "--status", "pending"]).ok();
        assert!(table.lines().count() == 2 && table.contains(" pending "), "{table}");
        assert_eq!(server.json(&["messages", "q", "-n", "2"])["messages"].as_array().unwrap().len(), 2);
        assert_eq!(server.payloads("q", "g").len(), 3);
        assert_eq!(server.bugle(&["messages", "q", "--to", "2001-01-01T00:00:00Z", "--from", "beginning", "-o", "ndjson"]).ok(), "");
    }
}
