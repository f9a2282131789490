//! One public key as PEM, with the family of algorithms it belongs to: what it may verify never depends on the token.

use aws_lc_rs::signature::{ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use jsonwebtoken::DecodingKey;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::AuthError;

/// Read a `PUBLIC KEY` block of an RSA (from 2048 bits) or Ed25519 key.
pub(crate) fn public_key(text: &str) -> Result<DecodingKey, AuthError> {
    let wrong = || {
        AuthError::new(
            "jwt-public-key is no PEM block PUBLIC KEY with an RSA (2048 bits or more) or Ed25519 key",
        )
    };
    // Environments that take no line ends carry them escaped.
    let text = text.replace("\\n", "\n");
    let key = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).map_err(|_| wrong())?;
    if ParsedPublicKey::new(&ED25519, key.as_ref()).is_ok() {
        return Ok(DecodingKey::from_ed_der(key.as_ref()));
    }
    ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.as_ref()).map_err(|_| wrong())?;
    Ok(DecodingKey::from_rsa_der(key.as_ref()))
}
