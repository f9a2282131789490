//! The server's certificate and key, which can be exchanged while connections are open.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// Encrypts connections. Copies share one certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// From a certificate chain and its private key, both as PEM.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = Arc::new(Current(RwLock::new(certified(certificate, key, &provider)?)));
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current, provider })
    }

    /// Give new connections another certificate. Open ones keep theirs; on an error the old one stays.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let certified = certified(certificate, key, &self.provider)?;
        *self.current.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = certified;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

fn certified(
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|_| TlsError("the certificate is no PEM".into()))?;
    if chain.is_empty() {
        return Err(TlsError("there is no certificate in the PEM".into()));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| TlsError("there is no private key in the PEM".into()))?;
    let certified = CertifiedKey::from_der(chain, key, provider);
    certified.map(Arc::new).map_err(|error| TlsError(format!("certificate and key cannot be used: {error}")))
}

/// A connection of which the first bytes were read already, and are read again from here.
pub(crate) struct Replayed<I> {
    seen: &'static [u8],
    io: I,
}

impl<I> Replayed<I> {
    pub(crate) fn new(seen: &'static [u8], io: I) -> Self {
        Self { seen, io }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Replayed<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, into);
        }
        let (now, later) = self.seen.split_at(self.seen.len().min(into.remaining()));
        into.put_slice(now);
        self.seen = later;
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Replayed<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_bad_exchange_leaves_the_old_certificate() {
        let ((first, first_key), (second, second_key)) = (pair(), pair());
        let tls = Tls::from_pem(first.as_bytes(), first_key.as_bytes()).unwrap();
        let shown = |tls: &Tls| tls.current.0.read().unwrap().cert[0].to_vec();
        let before = shown(&tls);
        for (certificate, key) in [
            (&*second, &*first_key),
            ("", &*second_key),
            (&*second, ""),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &*second_key),
        ] {
            let error = tls.replace(certificate.as_bytes(), key.as_bytes()).unwrap_err().to_string();
            assert!(!error.contains("BEGIN"), "{error}");
            assert_eq!(shown(&tls), before);
        }
        tls.replace(second.as_bytes(), second_key.as_bytes()).unwrap();
        assert_ne!(shown(&tls), before);
    }
}
