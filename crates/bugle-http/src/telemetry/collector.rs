//! The collector, as one signal is sent to it: one connection, kept open, every request bounded in time.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, Uri};
use http_body_util::{BodyExt, Full, Limited};
use tokio::time::timeout;

use crate::outbound::{Failed, Line, request};

/// Most bytes of an answer; nothing of it is needed.
const MAX_ANSWER: usize = 64 << 10;

/// See the module.
pub(crate) struct Collector {
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
    line: Option<Line>,
}

/// Why something was not taken.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// The same may be taken later.
    pub(crate) passing: bool,
}

impl Refusal {
    fn passing(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), passing: true }
    }
}

impl Collector {
    pub(crate) fn new(uri: Uri, headers: Vec<(HeaderName, HeaderValue)>, timeout: Duration) -> Self {
        Self { uri, headers, timeout, line: None }
    }

    /// Send one request, and wait until it is taken.
    pub(crate) async fn send(&mut self, body: Bytes) -> Result<(), Refusal> {
        // Taken out meanwhile: a request that is given up leaves no connection behind.
        let line = self.line.take();
        let asked = timeout(self.timeout, self.ask(line, body)).await;
        let (line, status) = match asked {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => return Err(Refusal::passing(error)),
            Err(_) => return Err(Refusal::passing("no answer in time")),
        };
        self.line = line;
        match status {
            200..=299 => Ok(()),
            429 | 502..=504 => Err(Refusal::passing(format!("answered {status}"))),
            _ => Err(Refusal { reason: format!("answered {status}"), passing: false }),
        }
    }

    async fn ask(&self, line: Option<Line>, body: Bytes) -> Result<(Option<Line>, u16), Failed> {
        let mut line = match line.filter(|line| !line.sender.is_closed()) {
            Some(line) => line,
            None => Line::to(&self.uri).await?,
        };
        let mut request = request(Method::POST, &self.uri).header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        line.sender.ready().await?;
        let response = line.sender.send_request(request.body(Full::new(body))?).await?;
        let status = response.status().as_u16();
        let read = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        Ok((read.is_ok().then_some(line), status))
    }
}
