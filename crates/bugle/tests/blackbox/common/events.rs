//! A stream of server-sent events.

use std::collections::VecDeque;

use http::{HeaderMap, HeaderName};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Client, PATIENCE, contract};

/// Somebody who listens.
pub(crate) struct Events {
    stream: TcpStream,
    text: String,
    came: VecDeque<(String, Value)>,
}

impl Events {
    /// Begin to listen to these topics.
    pub(crate) async fn listen(client: &Client, topics: &str) -> Self {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        let request = format!("GET /api/v1/events?topics={topics} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut events = Self { stream, text: String::new(), came: VecDeque::new() };
        while !events.text.contains("\r\n\r\n") {
            events.read().await;
        }
        let (head, rest) = events.text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let header =
            |(name, value): (&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        contract::check("GET", "/api/v1/events", 200, &headers.map(header).collect::<HeaderMap>(), b"");
        events.text = rest.to_owned();
        events
    }

    /// The next event, whatever it is.
    pub(crate) async fn any(&mut self) -> (String, Value) {
        loop {
            self.split();
            if let Some(event) = self.came.pop_front() {
                return event;
            }
            self.read().await;
        }
    }

    /// The next event of a topic.
    pub(crate) async fn next(&mut self, topic: &str) -> Value {
        self.until(topic, |_| true).await
    }

    /// The next event of a topic that fits.
    pub(crate) async fn until(&mut self, topic: &str, fits: impl Fn(&Value) -> bool) -> Value {
        timeout(PATIENCE, async {
            loop {
                let (name, event) = self.any().await;
                if name == topic && fits(&event) {
                    return event;
                }
            }
        })
        .await
        .expect("it is told")
    }

    async fn read(&mut self) {
        let mut bytes = vec![0; 65_536];
        let count =
            timeout(PATIENCE, self.stream.read(&mut bytes)).await.expect("something is told").unwrap();
        assert!(count > 0, "the stream ended");
        self.text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }

    /// Take out the events that are whole.
    fn split(&mut self) {
        // An event is one piece of the body, so its lines are whole once the empty one behind them is there.
        while let Some(start) = self.text.find("event: ") {
            let Some(end) = self.text[start..].find("\n\n") else { return };
            let event = &self.text[start..start + end];
            let (name, data) = event.split_once("\ndata: ").expect("data");
            let name = name.trim_start_matches("event: ").to_owned();
            self.came.push_back((name, serde_json::from_str(data).unwrap()));
            self.text.drain(..start + end);
        }
    }
}
