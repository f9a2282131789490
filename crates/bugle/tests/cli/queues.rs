//! `bugle queues`.

on_both_engines! {
    fn queues_are_listed_in_every_format(on: On) {
        let server = on.start();
        server.push("one", "a", &["1", "2"]);
        server.push("two", "b", &["3"]);
        let table = server.bugle(&["queues"]).ok();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["QUEUE", "PARTITIONS", "MESSAGES", "PENDING", "PROCESSING", "DEAD", "CREATED"]);
        assert!(lines.iter().any(|line| line[..4] == ["one", "1", "2", "2"]), "{table}");
        let names = |text: &str| {
            let mut names: Vec<String> = text
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].to_string())
                .collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&server.bugle(&["queues", "-o", "ndjson"]).ok()), ["\"one\"", "\"two\""]);
        assert_eq!(names(&server.bugle(&["queues", "tw", "-o", "ndjson"]).ok()), ["\"two\""]);
        assert_eq!(server.json(&["queues"])["queues"].as_array().unwrap().len(), 2);
    }
}
