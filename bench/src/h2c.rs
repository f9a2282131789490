//! HTTP/2 without TLS: many waiting requests as streams of one connection, because descriptors run out long before memory.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Method, Request};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::client::{Failure, Target};

/// Answers of the waiting commands hold a few messages; more is a fault.
const MAX_RESPONSE: usize = 64 << 20;

/// One connection shared by many waiters; made at the first call and made again after it broke.
pub(crate) struct H2Connection {
    target: Target,
    live: RefCell<Option<Live>>,
    /// All waiters find a broken connection at the same time, and only one of them may make the new one.
    connecting: Mutex<()>,
}

struct Live {
    sender: SendRequest<Bytes>,
    driver: AbortHandle,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl H2Connection {
    pub(crate) fn new(target: Target) -> Rc<Self> {
        Rc::new(Self { target, live: RefCell::new(None), connecting: Mutex::new(()) })
    }

    /// Sends a request and reads the answer into `out`; the status.
    pub(crate) async fn call(
        &self,
        request: Request<()>,
        body: Option<Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<u16, Failure> {
        let limit = self.target.timeout();
        match tokio::time::timeout(limit, self.exchange(request, body, out)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Timeout),
        }
    }

    /// How many streams the server allows on the connection; known once something has been answered.
    pub(crate) fn stream_limit(&self) -> Option<usize> {
        self.live.borrow().as_ref().map(|live| live.sender.current_max_send_streams())
    }

    async fn exchange(
        &self,
        request: Request<()>,
        body: Option<Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<u16, Failure> {
        out.clear();
        let response = self.send(request, body).await?.await.map_err(|e| self.failed(&e))?;
        let status = response.status().as_u16();
        let mut stream = response.into_body();
        while let Some(piece) = stream.data().await {
            let piece = piece.map_err(|e| self.failed(&e))?;
            if out.len() + piece.len() > MAX_RESPONSE {
                return Err(Failure::Protocol("protocol: answer too large"));
            }
            out.extend_from_slice(&piece);
            stream.flow_control().release_capacity(piece.len()).map_err(|e| self.failed(&e))?;
        }
        Ok(status)
    }

    async fn send(&self, request: Request<()>, body: Option<Bytes>) -> Result<ResponseFuture, Failure> {
        let sender = self.sender().await?;
        let mut sender = sender.ready().await.map_err(|e| self.failed(&e))?;
        let (response, mut stream) =
            sender.send_request(request, body.is_none()).map_err(|e| self.failed(&e))?;
        if let Some(body) = body {
            stream.send_data(body, true).map_err(|e| self.failed(&e))?;
        }
        Ok(response)
    }

    async fn sender(&self) -> Result<SendRequest<Bytes>, Failure> {
        let _alone = self.connecting.lock().await;
        if let Some(live) = self.live.borrow().as_ref().filter(|live| !live.driver.is_finished()) {
            return Ok(live.sender.clone());
        }
        let stream = TcpStream::connect(self.target.address()).await.map_err(|_| Failure::Connect)?;
        stream.set_nodelay(true).map_err(|_| Failure::Connect)?;
        let (sender, connection) =
            Builder::new().enable_push(false).handshake(stream).await.map_err(|_| Failure::Connect)?;
        let driver = tokio::task::spawn_local(async move {
            // Why it ended reaches every request that was under way on it.
            let _ = connection.await;
        });
        *self.live.borrow_mut() = Some(Live { sender: sender.clone(), driver: driver.abort_handle() });
        Ok(sender)
    }

    /// A stream that was reset leaves the connection alone; anything else ends it for everybody.
    fn failed(&self, error: &h2::Error) -> Failure {
        if error.is_reset() {
            return Failure::Protocol("h2 stream reset");
        }
        Failure::Io
    }
}

/// The request for a path of the target.
pub(crate) fn request(target: &Target, method: Method, path: &str) -> Result<Request<()>, http::Error> {
    let mut request = Request::builder().method(method).uri(target.absolute(path));
    if let Some(authorization) = target.authorization() {
        request = request.header(http::header::AUTHORIZATION, authorization);
    }
    request.body(())
}
