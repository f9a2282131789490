//! `bugle groups` and `bugle group`.

on_both_engines! {
    fn a_group_is_listed_described_moved_and_forgotten(on: On) {
        let server = on.start();
        server.push("q", "a", &["1", "2", "3"]);
        server.bugle(&["pop", "q", "-g", "g", "--subscribe", "all", "-b", "2", "--ack"]).ok();
        let listed = server.bugle(&["groups", "--queue", "q"]).ok();
        let line: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!((line[0], line[1], line[3]), ("g", "q", "1"), "{listed}");
        let described = server.json(&["group", "describe", "g"]);
        assert_eq!(described["q"]["partitions"][0]["offsetLag"], 1);
        let table = server.bugle(&["group", "describe", "g"]).ok();
        assert!(table.lines().nth(1).unwrap().split_whitespace().take(4).eq(["q", "a", "2", "1"]), "{table}");
        let moved = server.bugle(&["group", "seek", "g", "q", "--to", "beginning", "--yes"]).ok();
        assert_eq!(moved, "moved in 1 partitions\n");
        assert_eq!(server.payloads("q", "g"), ["1", "2", "3"]);
        server.bugle(&["group", "seek", "g", "q", "--to", "1h", "-p", "a", "--yes"]).ok();
        server.bugle(&["group", "seek", "g", "q", "--to", "end", "--yes"]).ok();
        assert!(server.payloads("q", "g").is_empty());
        assert_eq!(server.bugle(&["group", "delete", "g", "--yes"]).ok(), "g forgotten\n");
        server.bugle(&["group", "describe", "g"]).fails(3);
        server.bugle(&["group", "delete", "g", "--yes"]).fails(3);
        server.bugle(&["groups", "--queue", "nowhere"]).fails(3);
    }
}
