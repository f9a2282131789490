//! Fetches one small document by HTTP or HTTPS: a key set. No redirects, no proxies, bounded in size; the caller bounds
//! the time.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Most bytes of a document.
pub(crate) const MAX_BYTES: usize = 1 << 20;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The document at `uri`.
pub(crate) async fn fetch(uri: &Uri) -> Result<Bytes, Failed> {
    let host = uri.host().ok_or("the address names no host")?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let stream = TcpStream::connect((bare, port)).await?;
    if !tls {
        return get(TokioIo::new(stream), uri).await;
    }
    let name = ServerName::try_from(bare.to_owned())?;
    let connector = TlsConnector::from(tokio::task::spawn_blocking(client).await??);
    get(TokioIo::new(connector.connect(name, stream).await?), uri).await
}

/// Trusts what the machine trusts. Built per fetch: fetches are rare, and the machine's trust may have changed.
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

async fn get(io: impl Read + Write + Unpin + Send + 'static, uri: &Uri) -> Result<Bytes, Failed> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("bugle/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("answered {}", response.status()).into());
        }
        Ok(Limited::new(response.into_body(), MAX_BYTES).collect().await?.to_bytes())
    };
    // Driven here, not spawned: dropping this future drops the connection.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = answer.as_mut() => answer,
        ended = connection.as_mut() => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.into()),
        },
    }
}
