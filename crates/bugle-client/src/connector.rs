//! Connections: plain or TLS, by the address of the server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::error::Error;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: Option<TlsConnector>,
    timeout: Duration,
}

impl Connector {
    pub(crate) fn new(tls: Option<ClientConfig>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        Self { tcp, tls: tls.map(|config| TlsConnector::from(Arc::new(config))), timeout }
    }
}

/// What a client believes of certificates. `authorities` are PEM; without any, the machine's own are trusted.
pub(crate) fn tls(authorities: &[Vec<u8>], http2: bool) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    for pem in authorities {
        let setup = |what: String| Error::Setup(format!("certificate authority: {what}"));
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(|e| setup(e.to_string()))?).map_err(|e| setup(e.to_string()))?;
        }
        if roots.len() == before {
            return Err(setup("no certificate in it".to_owned()));
        }
    }
    if authorities.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    // Named, not taken from the process: two providers in one binary would be a panic at the first handshake.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Setup(format!("TLS: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(config)
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Failed>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone().filter(|_| uri.scheme_str() == Some("https"));
        let name = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let (connecting, timeout) = (self.tcp.call(uri), self.timeout);
        Box::pin(async move {
            let tcp: TokioIo<TcpStream> = connecting.await?;
            let Some(tls) = tls else { return Ok(Stream::Plain(tcp)) };
            let handshake = tls.connect(ServerName::try_from(name)?, tcp.into_inner());
            let stream = tokio::time::timeout(timeout, handshake).await??;
            Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
        })
    }
}

/// An open connection.
pub(crate) enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(tcp) => tcp.connected(),
            Self::Tls(tls) => {
                let h2 = tls.inner().get_ref().1.alpn_protocol() == Some(b"h2");
                if h2 { Connected::new().negotiated_h2() } else { Connected::new() }
            }
        }
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(context, into),
            Self::Tls(tls) => Pin::new(tls).poll_read(context, into),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(context, pieces),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(context, pieces),
        }
    }
}
