//! `bugle trace`.

use serde_json::json;

on_both_engines! {
    fn a_message_and_its_events_are_shown(on: On) {
        let server = on.start();
        server.push("q", "a", &["{\"order\":7}"]);
        let message = server.json(&["pop", "q", "-g", "g", "--subscribe", "all", "--ack"])[0].clone();
        let (partition, id) = (message["partitionId"].as_str().unwrap(), message["transactionId"].as_str().unwrap());
        let event = json!({"transactionId": id, "partitionId": partition, "data": {"step": 1}, "eventType": "seen",
            "traceNames": ["order-7"]});
        server.post(&["api", "v1", "traces"], &event);
        let shown = server.bugle(&["trace", partition, id]).ok();
        assert!(shown.contains("g: consumed") && shown.contains("{\"order\":7}") && shown.contains("seen"), "{shown}");
        assert_eq!(server.json(&["trace", partition, id])["events"]["traces"][0]["data"]["step"], 1);
        assert!(server.bugle(&["trace", "--name", "order-7"]).ok().contains(id));
        assert!(server.bugle(&["trace", "--names"]).ok().contains("order-7"));
        server.bugle(&["trace", partition, "nobody"]).fails(3);
        server.bugle(&["trace"]).fails(2);
    }
}
