//! After any traffic, what is listed equals what is found by walking everything through other routes.

use serde_json::{Value, json};

use crate::common::{Client, Server};

const QUEUES: [&str; 3] = ["x", "y", "z"];
const PARTITIONS: [&str; 4] = ["a", "b", "c", "d"];
const GROUPS: [&str; 4] = ["__QUEUE_MODE__", "all", "new", "other"];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// One step of traffic; `z` is never read anonymously, so that it is judged by its groups.
async fn step(server: &Server, dice: &mut Dice, n: usize) {
    let (queue, partition, group) = (dice.pick(&QUEUES), dice.pick(&PARTITIONS), dice.pick(&GROUPS));
    let group = if queue == "z" && group == GROUPS[0] { "all" } else { group };
    match dice.below(20) {
        0..8 => {
            let ids: Vec<String> = (0..=dice.below(4)).map(|i| format!("{n}-{i}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            server.push_ids(queue, partition, &ids).await;
        }
        8..17 => read(server, dice, queue, group).await,
        17 => {
            let to = if dice.below(2) == 0 { json!({"toEnd": true}) } else { json!({"toBeginning": true}) };
            // Anonymous consumers stay where they are: who has given up on a message and comes back to it counts twice.
            let path = format!("/api/v1/consumer-groups/other/queues/{queue}/seek");
            let answer = server.post(&path, to).await;
            assert!(matches!(answer.status, 200 | 404), "{:?}", answer.body);
        }
        18 => {
            server
                .send("DELETE", &format!("/api/v1/consumer-groups/{}", dice.pick(&GROUPS[1..])), "")
                .await
                .expect(200);
        }
        _ => {
            if dice.below(4) == 0 {
                server.send("DELETE", &format!("/api/v1/resources/queues/{queue}"), "").await.expect(200);
            }
        }
    }
}

async fn read(server: &Server, dice: &mut Dice, queue: &str, group: &str) {
    let named = if group == GROUPS[0] { String::new() } else { format!("&consumerGroup={group}") };
    let mode = if group == "new" { "&subscriptionMode=new" } else { "" };
    let (batch, partitions) = (1 + dice.below(5), 1 + dice.below(3));
    let auto = if dice.below(3) == 0 { "&autoAck=true" } else { "" };
    let path = format!("/queue/{queue}?batch={batch}&partitions={partitions}{named}{mode}{auto}");
    let Some(popped) = server.pop(&path).await else { return };
    if auto.is_empty() {
        match dice.below(5) {
            0 => (), // Held until the end.
            1 => drop(server.ack_all(&popped, "failed").await),
            2 => drop(server.ack_all(&popped, "dlq").await),
            3 => {
                let first = &popped["messages"][0];
                let ack = json!({"transactionId": first["transactionId"], "partitionId": first["partitionId"], "leaseId": first["leaseId"], "consumerGroup": group});
                server.post("/api/v1/ack", ack).await.expect(200);
            }
            _ => drop(server.ack_all(&popped, "completed").await),
        }
    }
}

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| row[key].as_u64().unwrap()).sum()
}

/// Every partition of a queue as one group finds it; `None` = it has not met the queue.
async fn walked(client: &Client, queue: &str, group: &str) -> Option<Vec<Value>> {
    let answer = client.get(&format!("/api/v1/consumer-groups/{group}")).await.expect(200);
    answer.get(queue).map(|found| found["partitions"].as_array().unwrap().clone())
}

/// Messages of a queue with this status.
async fn with_status(client: &Client, queue: &str, status: &str) -> u64 {
    let path = format!("/api/v1/messages?queue={queue}&limit=1000&status={status}");
    let answer = client.get(&path).await.expect(200);
    assert_eq!(answer["truncated"], false);
    answer["messages"].as_array().unwrap().len() as u64
}

async fn check_groups(client: &Client, queue: &str, listed: &[Value]) -> u64 {
    let mut slowest = 0;
    for group in GROUPS {
        let row = listed.iter().find(|row| row["queueName"] == *queue && row["name"] == *group);
        let Some(partitions) = walked(client, queue, group).await else {
            assert!(row.is_none(), "{row:?}");
            continue;
        };
        let row = row.unwrap_or_else(|| panic!("{group} on {queue} is not listed"));
        let late = partitions.iter().filter(|p| p["offsetLag"] != 0).count() as u64;
        let lag = sum(&partitions, "offsetLag");
        let found = json!([row["totalLag"], row["partitionsWithLag"], row["totalConsumed"]]);
        assert_eq!(
            found,
            json!([lag, late, sum(&partitions, "totalConsumed")]),
            "{group} on {queue}: {partitions:?}"
        );
        let depth =
            client.get(&format!("/api/v1/resources/queues/{queue}/depth?group={group}")).await.expect(200);
        assert_eq!((&depth["pending"], &depth["partitionsPending"]), (&json!(lag), &json!(late)));
        if group != GROUPS[0] {
            slowest = slowest.max(lag);
        }
    }
    slowest
}

async fn check(client: &Client) {
    let groups = client.get("/api/v1/consumer-groups").await.expect(200);
    let list = client.get("/api/v1/resources/queues").await.expect(200);
    let mut kept = 0;
    for row in list["queues"].as_array().unwrap() {
        let queue = row["name"].as_str().unwrap();
        let slowest = check_groups(client, queue, groups.as_array().unwrap()).await;
        let messages = client.get(&format!("/api/v1/messages?queue={queue}&limit=1000")).await.expect(200);
        assert_eq!(
            row["messages"]["total"],
            messages["messages"].as_array().unwrap().len() as u64,
            "{queue}"
        );
        kept += row["messages"]["total"].as_u64().unwrap();
        let detail = client.get(&format!("/api/v1/resources/queues/{queue}")).await.expect(200);
        let stats: Vec<Value> =
            detail["partitions"].as_array().unwrap().iter().map(|p| p["stats"].clone()).collect();
        for (key, total) in detail["totals"].as_object().unwrap() {
            assert_eq!(sum(&stats, key), total.as_u64().unwrap(), "{key} of {queue}: {detail}");
        }
        let dead = client.get(&format!("/api/v1/dlq?queue={queue}")).await.expect(200);
        assert_eq!(detail["totals"]["deadLetter"], dead["total"], "{queue}");
        let (pending, processing) = (&detail["totals"]["pending"], &detail["totals"]["processing"]);
        let has_cursor = |r: &Value| r["queueName"] == *queue && r["members"] != 0;
        let readers: Vec<&Value> = groups.as_array().unwrap().iter().filter(|r| has_cursor(r)).collect();
        if readers.is_empty() {
            assert_eq!(*pending, row["messages"]["total"], "{queue}: nobody has read");
        } else if readers.iter().any(|r| r["name"] == GROUPS[0]) {
            assert_eq!(*pending, with_status(client, queue, "pending").await, "{queue}");
            assert_eq!(*processing, with_status(client, queue, "processing").await, "{queue}");
        } else {
            assert_eq!(pending.as_u64().unwrap() + processing.as_u64().unwrap(), slowest, "{queue}");
        }
    }
    let overview = client.get("/api/v1/resources/overview").await.expect(200);
    assert_eq!(overview["messages"]["total"], kept);
    assert_eq!(overview["queues"], list["queues"].as_array().unwrap().len());
    assert_eq!(overview["partitions"], sum(list["queues"].as_array().unwrap(), "partitions"));
}

on_every_engine! {
    async fn after_any_traffic_lists_equal_what_is_found_by_walking(on: On) {
        let server = on.start().await;
        for queue in QUEUES {
            server.configure(json!({"queue": queue, "options": {"retryLimit": 1}})).await;
        }
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for n in 0..300 {
            step(&server, &mut dice, n).await;
            if n % 25 == 24 {
                check(&server).await;
            }
        }
    }
}
