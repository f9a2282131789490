//! The body of a pop answer, spelled piece by piece while it is sent, so that a large answer is never in memory twice.
//!
//! Small answers are one piece with a length; large ones stream. A large payload is handed on as the buffer it came
//! in, without copying it into a piece.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bugle_broker::{PopAnswer, PopTarget, Popped, PoppedLane};
use bugle_store::{Group, LeaseId};
use bugle_wire::{AutopilotTerms, LaneLabel, PopHead, PopMessage, TraceHeaders, write_pop_end};
use bytes::Bytes;
use hyper::body::Frame;

/// A piece is sent when it has this many bytes.
const PIECE: usize = 256 << 10;
/// Payloads of this size are pieces of their own.
const LARGE: usize = 64 << 10;
/// Room for what stands around one payload.
const AROUND: usize = 512;

/// Spells an answer.
pub(crate) struct Pieces {
    lanes: Vec<PoppedLane>,
    lease: Option<LeaseId>,
    group: Group,
    lane: usize,
    message: usize,
    label: LaneLabel,
    /// The first message is still to come.
    first: bool,
    /// Written but not sent.
    out: Vec<u8>,
    /// A large payload that goes next; its message is open.
    large: Option<Bytes>,
    open: bool,
    done: bool,
}

impl Pieces {
    /// Begin with the head. `target` and `group` are the request's.
    pub(crate) fn new(answer: PopAnswer, target: &PopTarget, group: Group) -> Self {
        let expected: usize = answer
            .lanes
            .iter()
            .flat_map(|lane| &lane.messages)
            .map(|m| m.message.payload.len() + m.message.transaction_id.len() + AROUND)
            .sum();
        let mut out = Vec::with_capacity((expected + AROUND).min(PIECE + LARGE));
        head(&answer, target, &group).write(&mut out);
        Self {
            lanes: answer.lanes,
            lease: answer.lease_id,
            group,
            lane: 0,
            message: 0,
            label: LaneLabel::default(),
            first: true,
            out,
            large: None,
            open: false,
            done: false,
        }
    }

    /// The body: one piece if it is small, otherwise a stream.
    pub(crate) fn into_body(mut self) -> Body {
        let first = self.next().unwrap_or_default();
        if self.done { Body::from(first) } else { Body::new(Streamed { first: Some(first), rest: self }) }
    }

    /// Go to the next message, over lanes that have none left. Spells the lane's label on the way in.
    fn seek(&mut self) -> Option<Popped> {
        loop {
            let lane = self.lanes.get(self.lane)?;
            if let Some(message) = lane.messages.get(self.message) {
                if self.message == 0 {
                    self.label = LaneLabel::new(
                        &lane.queue,
                        &lane.partition,
                        lane.lane.0,
                        self.lease,
                        &self.group,
                        lane.delivery_attempt,
                    );
                }
                return Some(message.clone());
            }
            self.lane += 1;
            self.message = 0;
        }
    }

    fn send(&mut self) -> Option<Bytes> {
        let fresh = if self.done { Vec::new() } else { Vec::with_capacity(PIECE + LARGE) };
        Some(std::mem::replace(&mut self.out, fresh).into())
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(payload) = self.large.take() {
            return Some(payload);
        }
        if self.done {
            return None;
        }
        loop {
            if std::mem::take(&mut self.open) {
                PopMessage::write_after_payload(&mut self.out, &self.label);
                self.message += 1;
            }
            if self.out.len() >= PIECE {
                return self.send();
            }
            let Some(popped) = self.seek() else {
                write_pop_end(&mut self.out);
                self.done = true;
                return self.send();
            };
            describe(&popped).write_before_payload(&mut self.out, std::mem::take(&mut self.first));
            self.open = true;
            let payload = popped.message.payload;
            if payload.len() >= LARGE {
                self.large = Some(payload);
                return self.send();
            }
            self.out.extend_from_slice(&payload);
        }
    }
}

fn head<'a>(answer: &'a PopAnswer, target: &'a PopTarget, group: &'a str) -> PopHead<'a> {
    let first = answer.lanes.first();
    let (queue, asked): (&str, Option<&Arc<str>>) = match target {
        PopTarget::Lane { queue, partition } => (queue, Some(partition)),
        PopTarget::Queue { queue } => (queue, None),
        PopTarget::Filter { .. } => ("", None),
    };
    PopHead {
        queue,
        partition: first.map(|lane| &lane.partition).or(asked).map(|name| &**name),
        partition_id: first.map(|lane| lane.lane.0),
        lease_id: answer.lease_id,
        lease_expires_at: answer.lease_expires_at.map(|at| at.0),
        consumer_group: group,
        partitions_claimed: answer.lanes.len(),
        conflation: answer.conflation,
        conflation_conflict: answer.conflation_conflict,
        autopilot: answer.autopilot.map(|terms| AutopilotTerms {
            partitions: terms.partitions,
            batch: terms.batch,
            wait_ms: terms.wait_ms,
        }),
    }
}

fn describe(popped: &Popped) -> PopMessage<'_> {
    PopMessage {
        id: popped.message.id,
        transaction_id: popped.message.transaction(),
        trace_id: popped.message.trace_id,
        producer_sub: popped.message.producer(),
        created_at: popped.created_at.0,
        offset: popped.offset,
        trace: popped
            .message
            .context
            .as_deref()
            .map(|context| TraceHeaders { parent: context, state: context.state_text() }),
    }
}

struct Streamed {
    first: Option<Bytes>,
    rest: Pieces,
}

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.first.take().or_else(|| self.rest.next());
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.done && self.rest.large.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::HttpBody;
    use bugle_store::{LaneId, Message, Timestamp};
    use http_body_util::BodyExt;
    use serde_json::Value;
    use uuid::Uuid;

    fn lane(name: &str, payloads: &[String]) -> PoppedLane {
        let messages = payloads.iter().enumerate().map(|(i, payload)| Popped {
            offset: i as u64,
            created_at: Timestamp(1),
            message: Message {
                id: Uuid::from_u128(i as u128),
                transaction_id: Bytes::from(format!("{name}-{i}")),
                trace_id: None,
                producer_sub: None,
                context: None,
                encrypted: false,
                payload: Bytes::from(payload.clone()),
            },
        });
        PoppedLane {
            queue: "q".into(),
            partition: name.into(),
            lane: LaneId(Uuid::nil()),
            delivery_attempt: 1,
            messages: messages.collect(),
        }
    }

    async fn whole(answer: PopAnswer) -> (bool, Value) {
        let body = Pieces::new(answer, &PopTarget::Queue { queue: "q".into() }, "g".into()).into_body();
        let one_piece = body.size_hint().exact().is_some();
        let bytes = body.collect().await.unwrap().to_bytes();
        (one_piece, serde_json::from_slice(&bytes).unwrap())
    }

    fn shown(answer: &Value) -> Vec<(String, usize)> {
        let messages = answer["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|m| (m["transactionId"].as_str().unwrap().to_owned(), m["data"].as_str().unwrap().len()))
            .collect()
    }

    #[tokio::test]
    async fn a_small_answer_is_one_piece_with_a_length() {
        let lanes = vec![lane("a", &["\"x\"".into()]), lane("empty", &[]), lane("b", &["\"yy\"".into()])];
        let (one_piece, answer) = whole(PopAnswer { lanes, ..PopAnswer::default() }).await;
        assert!(one_piece);
        assert_eq!(shown(&answer), [("a-0".to_owned(), 1), ("b-0".to_owned(), 2)]);
        assert_eq!(answer["messages"][1]["partition"], "b");
        assert_eq!(answer["partition"], "a");
        assert_eq!(answer["leaseId"], "");
    }

    #[tokio::test]
    async fn large_answers_stream_and_lose_nothing() {
        for (count, size) in [(2000, 500), (3, LARGE), (5, LARGE - 3), (1, PIECE * 3), (2, LARGE - 2)] {
            let payloads = vec![format!("\"{}\"", "x".repeat(size)); count];
            let lanes = vec![lane("a", &payloads), lane("b", &payloads)];
            let (one_piece, answer) = whole(PopAnswer { lanes, ..PopAnswer::default() }).await;
            assert_eq!(one_piece, count * size * 2 < PIECE && size + 2 < LARGE, "{count} x {size}");
            let expected: Vec<_> =
                ["a", "b"].iter().flat_map(|n| (0..count).map(move |i| (format!("{n}-{i}"), size))).collect();
            assert_eq!(shown(&answer), expected);
        }
    }
}
