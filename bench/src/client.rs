//! The smallest HTTP/1.1 client that serves: one keep-alive connection, one request in flight, no allocation per call.
//!
//! A general client spends more on a request than some servers do; here that would be measured as the server's.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room kept in front of a body for the head, so that both leave in one write.
const HEAD_ROOM: usize = 1024;
/// No answer of the protocol is larger; more is a fault, not something to hold in memory.
const MAX_RESPONSE: usize = 256 << 20;

/// The server under test.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    address: String,
    base: String,
    authorization: String,
    timeout: Duration,
}

impl Target {
    pub(crate) fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self> {
        let rest = url.strip_prefix("http://").context("--url must begin with http://")?;
        let (host, base) =
            rest.split_once('/').map_or((rest, ""), |(host, base)| (host, base.trim_end_matches('/')));
        ensure!(!host.is_empty(), "--url names no host");
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:80") };
        let base = if base.is_empty() { String::new() } else { format!("/{base}") };
        let authorization = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
        let target = Self { address, base, authorization, timeout };
        ensure!(
            target.head("POST", "/api/v1/ack/batch").len() < HEAD_ROOM / 2,
            "--url or --token is too long"
        );
        Ok(target)
    }

    fn head(&self, method: &str, path: &str) -> String {
        let Self { address, base, authorization, .. } = self;
        format!("{method} {base}{path} HTTP/1.1\r\nHost: {address}\r\n{authorization}")
    }

    /// A whole GET request.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        let mut request = self.head("GET", path).into_bytes();
        request.extend_from_slice(b"\r\n");
        request
    }

    /// A POST request whose body is filled in again and again.
    pub(crate) fn post(&self, path: &str) -> Post {
        let head = self.head("POST", path) + "Content-Type: application/json\r\nContent-Length: ";
        Post { head: head.into_bytes(), buffer: vec![0; HEAD_ROOM], start: HEAD_ROOM }
    }

    pub(crate) fn connection(&self) -> Connection {
        self.connection_with(64 << 10, 16 << 10)
    }

    /// A connection that holds next to nothing while it waits: thousands of them stand open at once.
    pub(crate) fn waiting_connection(&self) -> Connection {
        self.connection_with(0, 1 << 10)
    }

    fn connection_with(&self, capacity: usize, read_ahead: usize) -> Connection {
        Connection {
            target: self.clone(),
            stream: None,
            input: Vec::with_capacity(capacity),
            read_ahead,
            decoded: Vec::new(),
        }
    }

    /// Host and port to connect to.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The whole URL of a path, for transports that send it in parts.
    pub(crate) fn absolute(&self, path: &str) -> String {
        format!("http://{}{}{path}", self.address, self.base)
    }

    /// The value of the authorization header, if there is one.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.strip_prefix("Authorization: ").map(str::trim_end)
    }

    /// How long a request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// A reusable POST request: the body is written first, the head is then put right before it.
pub(crate) struct Post {
    head: Vec<u8>,
    buffer: Vec<u8>,
    start: usize,
}

impl Post {
    /// Empties the body and returns the buffer to append the new one to.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.buffer.truncate(HEAD_ROOM);
        self.start = HEAD_ROOM;
        &mut self.buffer
    }

    /// The buffer, to go on with a body that has been begun.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Completes the head for the body now in the buffer.
    pub(crate) fn finish(&mut self) {
        let mut number = itoa::Buffer::new();
        let length = number.format(self.buffer.len() - HEAD_ROOM).as_bytes();
        self.start = HEAD_ROOM - self.head.len() - length.len() - 4;
        let (head, rest) = self.buffer[self.start..HEAD_ROOM].split_at_mut(self.head.len());
        head.copy_from_slice(&self.head);
        rest[..length.len()].copy_from_slice(length);
        rest[length.len()..].copy_from_slice(b"\r\n\r\n");
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    Timeout,
    Io,
    Protocol(&'static str),
}

impl Failure {
    /// The name under which the report counts it.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Io => "io",
            Self::Protocol(what) => what,
        }
    }
}

/// An answer; the body lives in the connection's buffer until the next call.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// One connection, made at the first call and made again after a failure.
pub(crate) struct Connection {
    target: Target,
    stream: Option<TcpStream>,
    input: Vec<u8>,
    /// Room for one read.
    read_ahead: usize,
    decoded: Vec<u8>,
}

enum Framing {
    Length(usize),
    Chunked,
}

impl Connection {
    /// Sends a complete request and reads its answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<Response<'_>, Failure> {
        let limit = self.target.timeout;
        let outcome = match tokio::time::timeout(limit, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Timeout),
        };
        match outcome {
            Ok((status, Some((start, end)))) => Ok(Response { status, body: &self.input[start..end] }),
            Ok((status, None)) => Ok(Response { status, body: &self.decoded }),
            Err(failure) => {
                self.stream = None;
                Err(failure)
            }
        }
    }

    /// The status and where the body is: a range of `input`, or `decoded`.
    async fn exchange(&mut self, request: &[u8]) -> Result<(u16, Option<(usize, usize)>), Failure> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.target.address).await.map_err(|_| Failure::Connect)?;
            stream.set_nodelay(true).map_err(|_| Failure::Connect)?;
            self.stream = Some(stream);
        }
        self.input.clear();
        let stream = self.stream.as_mut().ok_or(Failure::Connect)?;
        stream.write_all(request).await.map_err(|_| Failure::Io)?;
        let start = self.read_head().await?;
        let head = parse_head(&self.input[..start])?;
        let body = match head.framing {
            Framing::Length(length) => {
                if length > MAX_RESPONSE {
                    return Err(Failure::Protocol("protocol: answer too large"));
                }
                self.fill_to(start + length).await?;
                Some((start, start + length))
            }
            Framing::Chunked => {
                self.read_chunks(start).await?;
                None
            }
        };
        if head.close {
            self.stream = None;
        }
        Ok((head.status, body))
    }

    /// Reads until the blank line and returns where the body begins.
    async fn read_head(&mut self) -> Result<usize, Failure> {
        let mut searched = 0usize;
        loop {
            let from = searched.saturating_sub(3);
            if let Some(at) = self.input[from..].windows(4).position(|w| w == b"\r\n\r\n") {
                return Ok(from + at + 4);
            }
            searched = self.input.len();
            if searched > 64 << 10 {
                return Err(Failure::Protocol("protocol: head too large"));
            }
            self.fill_to(searched + 1).await?;
        }
    }

    /// Reads until at least `length` bytes are there.
    async fn fill_to(&mut self, length: usize) -> Result<(), Failure> {
        let stream = self.stream.as_mut().ok_or(Failure::Io)?;
        while self.input.len() < length {
            self.input.reserve((length - self.input.len()).max(self.read_ahead));
            if stream.read_buf(&mut self.input).await.map_err(|_| Failure::Io)? == 0 {
                return Err(Failure::Io);
            }
        }
        Ok(())
    }

    /// Reads a chunked body into `decoded`.
    async fn read_chunks(&mut self, start: usize) -> Result<(), Failure> {
        const BAD: Failure = Failure::Protocol("protocol: bad chunk");
        self.decoded.clear();
        let mut at = start;
        loop {
            let end = self.line_end(at).await?;
            let line = self.input[at..end].split(|b| *b == b';').next().unwrap_or_default();
            let size = std::str::from_utf8(line).map_err(|_| BAD)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| BAD)?;
            at = end + 2;
            if size == 0 {
                break;
            }
            if size > MAX_RESPONSE - self.decoded.len() {
                return Err(Failure::Protocol("protocol: answer too large"));
            }
            self.fill_to(at + size + 2).await?;
            self.decoded.extend_from_slice(&self.input[at..at + size]);
            at += size + 2;
        }
        loop {
            let end = self.line_end(at).await?;
            let blank = end == at;
            at = end + 2;
            if blank {
                return Ok(());
            }
        }
    }

    async fn line_end(&mut self, from: usize) -> Result<usize, Failure> {
        loop {
            if let Some(at) = self.input[from..].windows(2).position(|w| w == b"\r\n") {
                return Ok(from + at);
            }
            if self.input.len() - from > 8 << 10 {
                return Err(Failure::Protocol("protocol: bad chunk"));
            }
            self.fill_to(self.input.len() + 1).await?;
        }
    }
}

struct Head {
    status: u16,
    framing: Framing,
    close: bool,
}

fn parse_head(bytes: &[u8]) -> Result<Head, Failure> {
    const BAD: Failure = Failure::Protocol("protocol: bad head");
    let text = std::str::from_utf8(bytes).map_err(|_| BAD)?;
    let mut lines = text.split("\r\n");
    let line = lines.next().and_then(|l| l.strip_prefix("HTTP/1.")).ok_or(BAD)?;
    let status: u16 = line.get(2..5).and_then(|s| s.parse().ok()).ok_or(BAD)?;
    let (mut length, mut chunked, mut close) = (None, false, false);
    for (name, value) in lines.filter_map(|l| l.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse().map_err(|_| BAD)?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            close = value.eq_ignore_ascii_case("close");
        }
    }
    let framing = match (length, chunked) {
        _ if matches!(status, 204 | 304) => Framing::Length(0),
        (_, true) => Framing::Chunked,
        (Some(length), false) => Framing::Length(length),
        (None, false) => return Err(Failure::Protocol("protocol: no body length")),
    };
    Ok(Head { status, framing, close })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn a_post_is_head_and_body_in_one_piece() {
        let target = Target::new("http://h:1/base/", Some("t"), Duration::from_secs(1)).unwrap();
        let mut post = target.post("/x");
        for body in ["first body, longer", "2"] {
            post.begin().extend_from_slice(body.as_bytes());
            post.finish();
            let expected = format!(
                "POST /base/x HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer t\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            assert_eq!(String::from_utf8_lossy(post.bytes()), expected);
        }
    }

    /// Serves the given answers, one per request, in pieces of `piece` bytes.
    async fn serve(answers: Vec<&'static str>, piece: usize) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut scratch = [0u8; 4096];
            for answer in answers {
                assert!(stream.read(&mut scratch).await.unwrap() > 0);
                for part in answer.as_bytes().chunks(piece) {
                    stream.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        Target::new(&url, None, Duration::from_secs(10)).unwrap()
    }

    #[tokio::test]
    async fn answers_of_every_framing_are_read_on_one_connection() {
        let answers = vec![
            "HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello",
            "HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        ];
        for piece in [1, 7, 4096] {
            let target = serve(answers.clone(), piece).await;
            let mut connection = target.connection();
            let request = target.get("/");
            for (status, body) in [(201, "hello"), (204, ""), (200, "abc0123456789"), (503, "")] {
                let response = connection.call(&request).await.unwrap();
                assert_eq!((response.status, response.body), (status, body.as_bytes()));
            }
            assert_eq!(connection.call(&request).await.unwrap_err(), Failure::Io, "the server has hung up");
        }
    }

    #[tokio::test]
    async fn a_refused_connection_and_a_silent_server_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = Target::new(&url, None, Duration::from_millis(50)).unwrap();
        let mut connection = target.connection();
        assert_eq!(connection.call(b"GET / HTTP/1.1\r\n\r\n").await.unwrap_err(), Failure::Timeout);
        drop(listener);
        assert_eq!(connection.call(b"GET / HTTP/1.1\r\n\r\n").await.unwrap_err(), Failure::Connect);
    }
}
