//! A backup of a server, read as it comes: it may be larger than memory.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::client::Client;
use crate::error::{Cause, Error};
use crate::transport::Call;

/// A backup on its way, a tar archive.
#[derive(Debug)]
pub struct Backup {
    client: Client,
    server: String,
    body: Incoming,
}

impl Client {
    /// Take a backup of what a server keeps in files: with everything that was answered before, as of one moment. `spool_only`
    /// leaves out all but the spool, which is all there is where messages are kept in PostgreSQL.
    ///
    /// Asked for once, at one server, which is not the next one after a failure: another server has other files.
    pub async fn backup(&self, spool_only: bool) -> Result<Backup, Error> {
        let path = if spool_only { "/api/v1/system/backup?spool=only" } else { "/api/v1/system/backup" };
        let transport = &self.transport;
        let server = transport.servers.current();
        let opened = timeout(transport.timeout, transport.open(&Call::start(path), server)).await;
        let late = || Cause::Timeout { server: server.name(), after: transport.timeout };
        let opened = opened.unwrap_or_else(|_| Err(late()));
        let (_, body) = opened.map_err(|cause| cause.into_error(1, false))?;
        Ok(Backup { client: self.clone(), server: server.name(), body })
    }
}

impl Backup {
    /// The next bytes of the archive; `None` = that was all, and it is whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let after = self.client.transport.timeout;
        loop {
            let cause = match timeout(after, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => continue,
                },
                Ok(Some(Err(e))) => Cause::Broken { server: self.server.clone(), source: e.into() },
                Err(_) => Cause::Timeout { server: self.server.clone(), after },
            };
            return Err(cause.into_error(1, false));
        }
    }
}
