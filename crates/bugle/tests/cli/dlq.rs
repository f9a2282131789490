//! `bugle dlq`.

on_both_engines! {
    fn dead_letters_are_listed_shown_and_sent_back(on: On) {
        let server = on.start();
        server.push("q", "a", &["{\"n\": 1.0}", "2", "3"]);
        let args = ["consume", "q", "-e", "echo broken >&2; exit 65", "-n", "3"];
        server.bugle(&args).ok();
        let letters = server.json(&["dlq", "list", "q"]);
        let letters = letters["messages"].as_array().unwrap();
        assert_eq!(letters.len(), 3);
        let first = letters.iter().find(|letter| letter["data"]["n"].is_number()).unwrap();
        let id = first["id"].as_str().unwrap();
        let shown = server.bugle(&["dlq", "show", id]).ok();
        assert!(shown.contains("exit status: 65: broken") && shown.ends_with("{\"n\": 1.0}\n"), "{shown}");
        let whole = server.json(&["dlq", "show", id]);
        assert_eq!((&whole["id"], &whole["data"]), (&first["id"], &first["data"]));
        assert_eq!(server.bugle(&["dlq", "redrive", "--id", id]).ok(), "sent back to q/a\n");
        let counted = server.bugle(&["dlq", "redrive", "q", "--dry-run"]).ok();
        assert_eq!(counted, "2 dead letters match; 2 would be sent back\n");
        let complaint = server.bugle(&["dlq", "redrive", "q"]).fails(2);
        assert!(complaint.contains("--yes"), "{complaint}");
        let sent = server.bugle(&["dlq", "redrive", "q", "--into", "other", "--yes"]).ok();
        assert_eq!(sent, "2 sent back, 0 left out\n");
        let mut moved = server.payloads("other", "g");
        moved.sort_unstable();
        assert_eq!(moved, ["2", "3"]);
        server.bugle(&["dlq", "redrive", "q", "--yes"]).fails(6);
        server.bugle(&["dlq", "show", "00000000-0000-0000-0000-000000000000"]).fails(3);
    }
}
