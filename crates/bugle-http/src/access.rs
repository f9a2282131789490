//! The access log (switchable, one line per request) and the audit log (always on, one line per action of weight).
//!
//! Both are written when the answer is sent or given up, from a record that is made only for requests that need one.
//! Only the path of a request is told: its query may carry what is not for logs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http::{Method, Request, StatusCode};

use crate::request_id::{Hex, RequestId, TraceIds};
use crate::watched::{Watch, watched};

/// What an action of weight was done to, where its path does not say. Handlers put it among the answer's extensions.
#[derive(Clone)]
pub(crate) struct AuditObject(pub(crate) String);

/// Who sent a request, filled in when it is known.
pub(crate) type Subject = Arc<OnceLock<Bytes>>;

/// What the logs will say of one request. Writes when dropped.
pub(crate) struct Record {
    access: bool,
    action: Option<&'static str>,
    pub(crate) subject: Subject,
    method: Method,
    path: Box<str>,
    id: RequestId,
    trace: Option<TraceIds>,
    peer: SocketAddr,
    begun: Instant,
    received: Arc<AtomicU64>,
    sent: u64,
    /// None: the client went away before there was an answer.
    status: Option<StatusCode>,
    object: Option<AuditObject>,
}

impl Record {
    /// Begin, and count what arrives if its length is not announced.
    /// `action` is for the audit log, `access` says whether the access log wants it too.
    pub(crate) fn begin(
        request: &mut Request<Body>,
        (id, trace): (&RequestId, Option<TraceIds>),
        peer: SocketAddr,
        action: Option<&'static str>,
        access: bool,
    ) -> Self {
        let received = Arc::new(AtomicU64::new(0));
        let body = request.body_mut();
        match body.size_hint().exact() {
            Some(len) => received.store(len, Ordering::Relaxed),
            None => *body = watched(std::mem::take(body), Counted(received.clone())),
        }
        Self {
            access,
            action,
            subject: Subject::default(),
            method: request.method().clone(),
            path: request.uri().path().into(),
            id: id.clone(),
            trace,
            peer,
            begun: Instant::now(),
            received,
            sent: 0,
            status: None,
            object: None,
        }
    }

    /// There is an answer. The lines are written now if its length is known, otherwise when it is sent.
    pub(crate) fn answered(mut self: Box<Self>, response: Response) -> Response {
        self.status = Some(response.status());
        self.object = response.extensions().get().cloned();
        match response.body().size_hint().exact() {
            Some(len) => {
                self.sent = len;
                response
            }
            None => response.map(|body| watched(body, self)),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let subject = self.subject.get().and_then(|subject| std::str::from_utf8(subject).ok()).unwrap_or("-");
        // 499 is what proxies write for a client that did not wait.
        let status = self.status.map_or(499, |status| status.as_u16());
        let (id, method, peer) = (&self.id, &self.method, self.peer);
        let hex = |bytes| tracing::field::display(Hex(bytes));
        let trace_id = self.trace.as_ref().map(|trace| hex(&trace.trace_id));
        let span_id = self.trace.as_ref().map(|trace| hex(&trace.span_id));
        if let Some(action) = self.action {
            let object = self.object.as_ref().map_or(&*self.path, |object| &object.0);
            let outcome = match status {
                200..=299 => "done",
                401 | 403 => "denied",
                499 => "unknown",
                _ => "failed",
            };
            tracing::info!(target: "bugle::audit", action, ?object, ?subject, outcome, status, request_id = %id, %peer, trace_id, span_id);
        }
        if self.access {
            // Thousandths are enough, and all that can be read.
            let ms = self.begun.elapsed().as_micros() as f64 / 1e3;
            let (bytes_in, bytes_out) = (self.received.load(Ordering::Relaxed), self.sent);
            let path = &*self.path;
            tracing::info!(target: "bugle::access", %method, path, status, ms, bytes_in, bytes_out, ?subject, request_id = %id, %peer, trace_id, span_id);
        }
    }
}

/// Counts a request's body while it is read.
struct Counted(Arc<AtomicU64>);

impl Watch for Counted {
    fn piece(&mut self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts an answer's body while it is sent.
impl Watch for Box<Record> {
    fn piece(&mut self, bytes: u64) {
        self.sent += bytes;
    }
}
