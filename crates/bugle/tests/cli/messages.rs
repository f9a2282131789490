//! `bugle messages`.

on_both_engines! {
    fn messages_are_listed_without_being_consumed(on: On) {
        let server = on.start();
        server.push("q", "a", &["{\"n\": 1.0}", "2"]);
        server.push("q", "b", &["3"]);
        let listed = server.bugle(&["messages", "q", "-o", "ndjson"]).ok();
        assert_eq!(listed.lines().count(), 3);
        assert!(listed.contains("\"data\":{\"n\": 1.0}"), "as it is stored: {listed}");
        let table = server.bugle(&["messages", "q", "-p", "b", "--status", "pending"]).ok();
        assert!(table.lines().count() == 2 && table.contains(" pending "), "{table}");
        assert_eq!(server.json(&["messages", "q", "-n", "2"])["messages"].as_array().unwrap().len(), 2);
        assert_eq!(server.payloads("q", "g").len(), 3);
        assert_eq!(server.bugle(&["messages", "q", "--to", "2001-01-01T00:00:00Z", "--from", "beginning", "-o", "ndjson"]).ok(), "");
    }
}
