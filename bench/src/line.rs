//! A way to the server for one waiter: a connection of its own, or a stream of a shared one. Costs nearly nothing while waiting.

use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Request};

use crate::client::{Connection, Failure, Target};
use crate::h2c::{self, H2Connection};

/// Above this many waiters, connections of their own would run into the limit of descriptors of a process.
pub(crate) const MAX_HTTP1_WAITERS: usize = 15_000;

/// A request that is sent again and again, by many waiters.
#[derive(Clone)]
pub(crate) enum Prepared {
    Http1(Rc<[u8]>),
    H2(Rc<Request<()>>),
}

/// One waiter's way to the server.
pub(crate) enum Line {
    Http1(Box<Connection>),
    H2(Rc<H2Connection>),
}

impl Line {
    /// Sends a GET; the status, the body in `out`.
    pub(crate) async fn get(&mut self, request: &Prepared, out: &mut Vec<u8>) -> Result<u16, Failure> {
        match (self, request) {
            (Self::Http1(connection), Prepared::Http1(bytes)) => answer(connection, bytes, out).await,
            (Self::H2(connection), Prepared::H2(request)) => {
                connection.call(Request::clone(request), None, out).await
            }
            _ => Err(Failure::Protocol("request of another transport")),
        }
    }

    /// Sends a POST; the status, the body of the answer in `out`.
    pub(crate) async fn post(
        &mut self,
        target: &Target,
        path: &str,
        body: Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<u16, Failure> {
        match self {
            Self::Http1(connection) => {
                let mut post = target.post(path);
                post.begin().extend_from_slice(&body);
                post.finish();
                answer(connection, post.bytes(), out).await
            }
            Self::H2(connection) => {
                let request = h2c::request(target, Method::POST, path)
                    .map_err(|_| Failure::Protocol("request cannot be written"))?;
                connection.call(request, Some(Bytes::from(body)), out).await
            }
        }
    }
}

async fn answer(connection: &mut Connection, request: &[u8], out: &mut Vec<u8>) -> Result<u16, Failure> {
    let response = connection.call(request).await?;
    out.clear();
    out.extend_from_slice(response.body);
    Ok(response.status)
}

/// Hands out lines to one server.
pub(crate) struct Exchange {
    pub(crate) target: Target,
    /// Streams per connection; none without HTTP/2.
    streams: Option<usize>,
    current: Option<Rc<H2Connection>>,
    handed_out: usize,
}

impl Exchange {
    /// With HTTP/2, asks the server first how many streams it allows on a connection.
    pub(crate) async fn open(target: Target, streams: Option<usize>) -> Result<Self> {
        let streams = match streams {
            None => None,
            Some(asked) => Some(asked.min(stream_limit(&target).await?)),
        };
        Ok(Self { target, streams, current: None, handed_out: 0 })
    }

    /// Streams per connection really used.
    pub(crate) fn streams(&self) -> Option<usize> {
        self.streams
    }

    pub(crate) fn line(&mut self) -> Line {
        let Some(streams) = self.streams else {
            return Line::Http1(Box::new(self.target.waiting_connection()));
        };
        if self.handed_out.is_multiple_of(streams) {
            self.current = None;
        }
        self.handed_out += 1;
        let target = &self.target;
        Line::H2(Rc::clone(self.current.get_or_insert_with(|| H2Connection::new(target.clone()))))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Prepared> {
        Ok(match self.streams {
            None => Prepared::Http1(self.target.get(path).into()),
            Some(_) => Prepared::H2(Rc::new(h2c::request(&self.target, Method::GET, path)?)),
        })
    }
}

async fn stream_limit(target: &Target) -> Result<usize> {
    let connection = H2Connection::new(target.clone());
    let request = h2c::request(target, Method::GET, "/health")?;
    if let Err(failure) = connection.call(request, None, &mut Vec::new()).await {
        bail!("--h2: {} does not answer over HTTP/2: {}", target.address(), failure.kind());
    }
    let limit = connection.stream_limit().unwrap_or(0);
    ensure!(limit > 0, "--h2: the server allows no streams");
    Ok(limit)
}

/// The path of a waiting pop.
pub(crate) fn pop_path(queue: &str, group: &str, timeout_ms: u64, batch: usize, auto_ack: bool) -> String {
    let auto_ack = if auto_ack { "&autoAck=true" } else { "" };
    // `all` is asked for by name: servers differ in what they take as the default of a new group.
    format!(
        "/api/v1/pop/queue/{queue}?consumerGroup={group}&batch={batch}&wait=true&timeout={timeout_ms}\
         &subscriptionMode=all{auto_ack}"
    )
}
