//! Our client as a producer: retries, lost answers, refusals, buffers.

use std::time::{Duration, Instant};

use bugle_client::{
    BufferOptions, Cause, Client, ClientBuilder, Enforced, Error, NewMessage, PushStatus, QueueOptions,
    RetryPolicy,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{AnswerEater, PATIENCE, Server, WireCutter, ids, until_true};

const MS: Duration = Duration::from_millis(1);

/// Tries often, for longer than any restart takes.
pub(crate) fn patient(url: impl Into<String>) -> ClientBuilder {
    Client::builder(url).retry(RetryPolicy::new(1000, MS, 50 * MS))
}

pub(crate) fn url(server: &Server) -> String {
    format!("http://{}", server.address())
}

pub(crate) fn message(queue: &str, partition: &str, n: usize) -> NewMessage {
    NewMessage::json(queue, &json!({ "n": n })).unwrap().partition(partition)
}

/// The numbers in a queue, by partition and in order, as a group sees them that has not read before.
pub(crate) async fn numbers(server: &Server, queue: &str, group: &str) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(popped) =
        server.pop(&format!("/queue/{queue}?consumerGroup={group}&batch=1000&autoAck=true")).await
    {
        all.extend(popped["messages"].as_array().unwrap().iter().map(|m| m["data"]["n"].as_u64().unwrap()));
    }
    all
}

on_every_engine! {
    async fn messages_are_pushed_with_ids_and_stored_as_they_are(on: On) {
        let server = on.start().await;
        let client = Client::new(url(&server)).unwrap();
        let raw = NewMessage::raw("a queue/ü", r#"{"a": 1.0, "a":2}"#).unwrap();
        let message = raw.clone().partition("p p").transaction_id("t1").trace_id(uuid::Uuid::now_v7());
        let pushed = client.push(message.clone()).await.unwrap();
        assert_eq!((pushed.status, pushed.transaction_id.as_str()), (PushStatus::Queued, "t1"));
        let again = client.push_all(&[message, raw.clone().partition("p p")]).await.unwrap();
        assert_eq!((again[0].status, again[0].message_id), (PushStatus::Duplicate, pushed.message_id));
        assert_eq!((again[1].status, again[1].transaction_id.as_str()), (PushStatus::Queued, raw.id()));
        let batch = client.pop("a queue/ü").partition("p p").batch(10).send().await.unwrap();
        assert_eq!(batch.messages.len(), 2);
        let first = &batch.messages[0];
        assert_eq!((first.payload(), first.offset), (r#"{"a": 1.0, "a":2}"#, Some(0)));
        assert_eq!(first.trace_id, None, "only transactions keep it");
        assert_eq!((first.queue.as_str(), first.partition.as_str()), ("a queue/ü", "p p"));
        assert!(client.push_all(&[]).await.unwrap().is_empty());
    }

    async fn a_push_whose_answer_is_lost_is_stored_once_and_answered_as_a_duplicate(on: On) {
        let server = on.start().await;
        let eater = AnswerEater::before(server.address()).await;
        let client = patient(eater.url()).build().unwrap();
        assert_eq!(client.push(message("q", "p", 0)).await.unwrap().status, PushStatus::Queued);
        eater.eat(3);
        assert_eq!(client.push(message("q", "p", 1)).await.unwrap().status, PushStatus::Duplicate);
        assert!(eater.is_full());
        assert_eq!(numbers(&server, "q", "check").await, [0, 1]);
    }

    async fn when_no_answer_comes_the_outcome_is_called_unknown(on: On) {
        let server = on.start().await;
        let eater = AnswerEater::before(server.address()).await;
        let client = Client::builder(eater.url()).retry(RetryPolicy::new(2, MS, MS)).build().unwrap();
        eater.eat(2);
        let lost = client.push(message("q", "p", 1)).await.unwrap_err();
        assert!(matches!(lost, Error::OutcomeUnknown { attempts: 2, cause: Cause::Broken { .. }, .. }), "{lost:?}");
        // Nothing that is not idempotent is sent twice.
        eater.eat(1);
        let lost = client.admin().replay(uuid::Uuid::now_v7()).await.unwrap_err();
        assert!(matches!(lost, Error::OutcomeUnknown { attempts: 1, .. }), "{lost:?}");
        let none = Client::builder(url(&server)).retry(RetryPolicy::new(3, MS, MS));
        server.kill();
        let none = none.build().unwrap().push(message("q", "p", 1)).await.unwrap_err();
        assert!(matches!(none, Error::Unavailable { attempts: 3, cause: Cause::Connect { .. }, .. }), "{none:?}");
    }

    async fn a_refusal_is_told_at_once_with_its_field(on: On) {
        let server = on.start().await;
        let refused = patient(url(&server)).build().unwrap().push(message("q", &"x".repeat(256), 1)).await;
        let Err(Error::Refused { status: 400, message, .. }) = refused else { panic!("{refused:?}") };
        assert!(message.contains("items[0].partition"), "{message}");
    }

    async fn a_push_waits_while_the_server_says_it_is_busy(on: On) {
        let server = on.start().await;
        let client = patient(url(&server)).build().unwrap();
        let options = QueueOptions::default().max_size(2).enforce(vec![Enforced::MaxSize]);
        client.admin().configure("q", &options).await.unwrap();
        client.push_all(&[message("q", "p", 0), message("q", "p", 1)]).await.unwrap();
        let impatient = Client::builder(url(&server)).retry(RetryPolicy::never()).build().unwrap();
        let busy = impatient.push(message("q", "p", 2)).await.unwrap_err();
        let Error::Unavailable { cause: Cause::Status { status: 429, retry_after: Some(pause), .. }, .. } = busy else {
            panic!("{busy:?}")
        };
        assert!(pause >= Duration::from_secs(1));
        let pushing = tokio::spawn({
            let client = client.clone();
            async move { client.push(message("q", "p", 2)).await }
        });
        let refused = "bugle_requests_refused_total{verb=\"push\"}";
        server.until("it was refused too", |m| m.get(refused) == 2.0).await;
        let asked_to_wait = Instant::now();
        let popped = server.pop_some("/queue/q?batch=10").await;
        server.ack_all(&popped, "completed").await;
        let pushed = timeout(PATIENCE, pushing).await.expect("there is room").unwrap().unwrap();
        assert_eq!(pushed.status, PushStatus::Queued);
        // It came back when it was told to and not before; half a second is for the look at the numbers.
        assert!(asked_to_wait.elapsed() > pause / 2, "{:?}", asked_to_wait.elapsed());
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10").await), [pushed.transaction_id.as_str()]);
    }

    async fn a_full_buffer_makes_its_producer_wait_and_drops_nothing(on: On) {
        let server = on.start().await;
        let (wire, through) = WireCutter::before(&url(&server)).await;
        let client = Client::builder(through).retry(RetryPolicy::never()).build().unwrap();
        let options = BufferOptions::default().hold(4, 1 << 20).batch(2, 1 << 20, MS);
        let buffer = client.buffer(options);
        buffer.push(message("q", "p", 0)).await.unwrap();
        buffer.flush().await.unwrap();
        assert!(buffer.is_empty());
        wire.cut();
        for n in 1..5 {
            buffer.push(message("q", "p", n)).await.unwrap();
        }
        assert_eq!(buffer.len(), 4);
        let mut fifth = Box::pin(buffer.push(message("q", "p", 5)));
        assert!(timeout(200 * MS, &mut fifth).await.is_err(), "there is no room while the server is away");
        wire.mend();
        timeout(PATIENCE, fifth).await.expect("there is room again").unwrap();
        for n in 6..100 {
            buffer.push(message("q", "p", n)).await.unwrap();
        }
        buffer.close(PATIENCE).await.unwrap();
        assert_eq!(numbers(&server, "q", "check").await, (0..100).collect::<Vec<_>>());
    }

    async fn what_a_buffer_cannot_send_comes_back_to_its_owner(on: On) {
        let server = on.start().await;
        let client = patient(url(&server)).build().unwrap();
        let buffer = client.buffer(BufferOptions::default().batch(100, 1 << 20, Duration::from_secs(60)));
        for n in 0..20 {
            let partition = if n % 7 == 3 { "x".repeat(256) } else { "p".to_owned() };
            buffer.push(message("q", &partition, n)).await.unwrap();
        }
        // Three of twenty are wrong, and the others do not suffer for it.
        let refused = buffer.flush().await.unwrap_err();
        let wrong: Vec<Value> =
            refused.refused.iter().map(|r| serde_json::from_str(r.message.payload()).unwrap()).collect();
        assert_eq!(wrong, [json!({"n": 3}), json!({"n": 10}), json!({"n": 17})]);
        assert!(matches!(&*refused.refused[0].error, Error::Refused { status: 400, .. }) && refused.unsent.is_empty());
        buffer.flush().await.unwrap();
        assert_eq!(numbers(&server, "q", "check").await.len(), 17);
        // What is wrong is told by the next push too, which gives its own message back.
        buffer.push(message("q", &"x".repeat(256), 20)).await.unwrap();
        until_true("the buffer was told", async || buffer.push(message("q", "p", 21)).await.is_err()).await;
        let _ = buffer.flush().await;
        server.kill();
        for n in 30..33 {
            buffer.push(message("q", "p", n)).await.unwrap();
        }
        let unsent = buffer.close(300 * MS).await.unwrap_err().unsent;
        let unsent: Vec<Value> = unsent.iter().map(|m| serde_json::from_str(m.payload()).unwrap()).collect();
        assert_eq!(unsent, [json!({"n": 30}), json!({"n": 31}), json!({"n": 32})]);
    }
}
