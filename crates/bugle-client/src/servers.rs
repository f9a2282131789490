//! The servers of a client, and which of them is used now.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use crate::error::Error;

/// Servers that share one store. One of them is used until it fails, then the next.
pub(crate) struct Servers {
    all: Vec<Server>,
    current: AtomicUsize,
}

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    index: usize,
    scheme: Scheme,
    authority: Authority,
    prefix: String,
}

impl Server {
    fn new(index: usize, url: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Setup(format!("server address {url:?}: {what}"));
        let parts = url.parse::<Uri>().map_err(|e| wrong(&e.to_string()))?.into_parts();
        let scheme = parts.scheme.filter(|s| *s == Scheme::HTTP || *s == Scheme::HTTPS);
        let scheme = scheme.ok_or_else(|| wrong("must begin with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| wrong("names no host"))?;
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(wrong("must not have a query"));
        }
        let prefix = path.path().trim_end_matches('/').to_owned();
        Ok(Self { index, scheme, authority, prefix })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// For errors: host and port.
    pub(crate) fn name(&self) -> String {
        self.authority.to_string()
    }

    /// The address of `path` (and its query) on this server.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri, Error> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path}", self.prefix))
            .build()
            .map_err(|e| Error::Setup(format!("path {path:?}: {e}")))
    }
}

impl Servers {
    pub(crate) fn new(urls: &[String]) -> Result<Self, Error> {
        let all: Vec<Server> =
            urls.iter().enumerate().map(|(index, url)| Server::new(index, url)).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(Error::Setup("a client needs the address of a server".into()));
        }
        Ok(Self { all, current: AtomicUsize::new(0) })
    }

    pub(crate) fn any_tls(&self) -> bool {
        self.all.iter().any(Server::is_tls)
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The one to use now.
    pub(crate) fn current(&self) -> &Server {
        &self.all[self.current.load(Ordering::Relaxed) % self.all.len()]
    }

    /// Leave a server that failed. Of all calls that saw it fail, one moves on; the others follow.
    pub(crate) fn leave(&self, failed: &Server) {
        let next = (failed.index + 1) % self.all.len();
        let _ = self.current.compare_exchange(failed.index, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_may_have_a_prefix() {
        let server = Server::new(0, "https://queue.example:8443/bugle/").unwrap();
        assert!(server.is_tls());
        assert_eq!(server.uri("/health?x=1").unwrap(), "https://queue.example:8443/bugle/health?x=1");
        assert_eq!(Server::new(0, "http://[::1]:6632").unwrap().uri("/a").unwrap(), "http://[::1]:6632/a");
        for wrong in ["", "localhost:6632", "ftp://x", "/x", "http://", "http://x/?q=1"] {
            let error = Server::new(0, wrong).unwrap_err().to_string();
            assert!(error.starts_with("server address "), "{error}");
        }
        assert!(Servers::new(&[]).is_err());
    }

    #[test]
    fn however_many_calls_see_a_server_fail_only_one_step_is_made() {
        let servers = Servers::new(&["http://a".into(), "http://b".into()]).unwrap();
        let failed = servers.current().clone();
        servers.leave(&failed);
        servers.leave(&failed);
        assert_eq!(servers.current().name(), "b");
        servers.leave(&servers.current().clone());
        assert_eq!(servers.current().name(), "a");
    }
}
