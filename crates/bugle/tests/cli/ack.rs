//! `bugle ack`.

on_both_engines! {
    fn a_message_is_settled_by_its_ids(on: On) {
        let server = on.start();
        server.push("q", "a", &["1", "2", "3"]);
        let pop = || server.json(&["pop", "q", "-g", "g", "--subscribe", "all"])[0].clone();
        let settle = |message: &serde_json::Value, more: &[&str]| {
            let id = |name: &str| message[name].as_str().unwrap().to_owned();
            let (partition, transaction, lease) = (id("partitionId"), id("transactionId"), id("leaseId"));
            let args = ["ack", &partition, &transaction, "-g", "g", "--lease", &lease];
            server.bugle(&args.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
        };
        let first = pop();
        assert_eq!(settle(&first, &[]).ok(), "taken\n");
        let second = pop();
        assert_eq!(second["data"], 2);
        assert_eq!(settle(&second, &["--status", "retry"]).ok(), "taken\n");
        let again = pop();
        assert_eq!(again["data"], 2, "given back");
        let dead = settle(&again, &["--status", "dlq", "--error", "no use"]).ok();
        assert_eq!(dead, "taken; it is a dead letter now\n");
        assert_eq!(pop()["data"], 3);
        let complaint = settle(&first, &["--status", "failed"]).fails(4);
        assert!(complaint.contains("turned down"), "{complaint}");
    }
}
