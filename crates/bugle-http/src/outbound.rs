//! Connections that the server makes itself, to fetch a key set or to reach a collector: HTTP/1.1, in clear or by TLS with what
//! the machine trusts. No redirects, no proxies; the caller bounds the time.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A connection to a server; dropping it closes it.
pub(crate) struct Line {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

impl Line {
    /// Connect to the server of `uri`.
    pub(crate) async fn to(uri: &Uri) -> Result<Self, Failed> {
        let host = uri.host().ok_or("the address names no host")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let stream = TcpStream::connect((bare, port)).await?;
        stream.set_nodelay(true)?;
        if !tls {
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            return Ok(Self { sender, _driver: driven(connection) });
        }
        let name = ServerName::try_from(bare.to_owned())?;
        let connector = TlsConnector::from(tokio::task::spawn_blocking(client).await??);
        let (sender, connection) = handshake(TokioIo::new(connector.connect(name, stream).await?)).await?;
        Ok(Self { sender, _driver: driven(connection) })
    }
}

fn driven(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        // Whoever waits for an answer is told of the error too.
        let _ = connection.await;
    }))
}

/// A request for `uri` as a server wants it from everybody.
pub(crate) fn request(method: http::Method, uri: &Uri) -> http::request::Builder {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::USER_AGENT, concat!("bugle/", env!("CARGO_PKG_VERSION")))
}

/// Trusts what the machine trusts. Built per connection: these are rare, and the machine's trust may have changed.
fn client() -> Result<Arc<ClientConfig>, Failed> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
