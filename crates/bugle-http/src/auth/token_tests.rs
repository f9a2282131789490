//! Tokens of every kind, made by hand: those that must pass and the many more that must not.

use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair};
use aws_lc_rs::{hmac, rand::SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;
use crate::auth::jwks::JwksSource;
use crate::auth::roles::Level;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn rsa() -> &'static RsaKeyPair {
    static KEY: OnceLock<RsaKeyPair> = OnceLock::new();
    KEY.get_or_init(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
}

fn ed() -> &'static Ed25519KeyPair {
    static KEY: OnceLock<Ed25519KeyPair> = OnceLock::new();
    KEY.get_or_init(|| Ed25519KeyPair::generate().unwrap())
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

fn rsa_pem() -> String {
    pem(AsDer::<PublicKeyX509Der<'_>>::as_der(rsa().public_key()).unwrap().as_ref())
}

fn ed_pem() -> String {
    pem(AsDer::<PublicKeyX509Der<'_>>::as_der(ed().public_key()).unwrap().as_ref())
}

/// A token made by hand, so that nothing of what checks it also made it.
fn token(header: Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn hmac_with(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |message| hmac::sign(&key, message).as_ref().to_vec()
}

fn rsa_sign(how: &'static dyn RsaEncoding) -> impl Fn(&[u8]) -> Vec<u8> {
    move |message| {
        let mut out = vec![0; rsa().public_modulus_len()];
        rsa().sign(how, &SystemRandom::new(), message, &mut out).unwrap();
        out
    }
}

fn ed_sign(message: &[u8]) -> Vec<u8> {
    ed().sign(message).as_ref().to_vec()
}

fn hs256(claims: &Value) -> String {
    token(json!({"alg": "HS256"}), claims, hmac_with(SECRET))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn good() -> Value {
    json!({"sub": "me", "role": "read-write", "exp": now() + 60})
}

/// `good()` with some claims changed.
fn with(changes: Value) -> Value {
    let mut claims = good();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn secret() -> JwtConfig {
    JwtConfig { secret: Some(SECRET.to_vec()), ..JwtConfig::default() }
}

fn with_pem(pem: String) -> JwtConfig {
    JwtConfig { public_key: Some(pem), ..JwtConfig::default() }
}

async fn verify(config: JwtConfig, token: &str) -> Result<Caller, &'static str> {
    Tokens::open(config, None).unwrap().verify(token).await.map_err(|Denied(reason)| reason)
}

#[tokio::test]
async fn every_algorithm_verifies_its_own_signatures() {
    let claims = good();
    let rs = |alg: &str, how| token(json!({"alg": alg, "kid": "any"}), &claims, rsa_sign(how));
    for (config, token) in [
        (secret(), hs256(&claims)),
        (with_pem(rsa_pem()), rs("RS256", &signature::RSA_PKCS1_SHA256)),
        (with_pem(rsa_pem()), rs("RS384", &signature::RSA_PKCS1_SHA384)),
        (with_pem(rsa_pem()), rs("RS512", &signature::RSA_PKCS1_SHA512)),
        (with_pem(rsa_pem().replace('\n', "\\n")), rs("RS256", &signature::RSA_PKCS1_SHA256)),
        (with_pem(ed_pem()), token(json!({"alg": "EdDSA", "typ": "JWT"}), &claims, ed_sign)),
    ] {
        let caller = verify(config.clone(), &token).await.unwrap();
        assert_eq!(caller.subject.as_deref(), Some(&b"me"[..]));
        assert!(caller.permissions.allow(Level::ReadWrite) && !caller.permissions.allow(Level::Admin));
        // The same with one bit of the signature turned, and with other claims under it.
        let (message, signed) = token.rsplit_once('.').unwrap();
        let mut bytes = URL_SAFE_NO_PAD.decode(signed).unwrap();
        bytes[5] ^= 1;
        let forged = format!("{message}.{}", URL_SAFE_NO_PAD.encode(bytes));
        assert_eq!(verify(config.clone(), &forged).await, Err("Invalid token signature"));
        let header = message.split_once('.').unwrap().0;
        let swapped = URL_SAFE_NO_PAD.encode(with(json!({"role": "admin"})).to_string());
        assert_eq!(
            verify(config, &format!("{header}.{swapped}.{signed}")).await,
            Err("Invalid token signature")
        );
    }
}

#[tokio::test]
async fn a_public_key_is_never_a_secret_and_none_is_no_algorithm() {
    let claims = with(json!({"role": "admin"}));
    for pem in [rsa_pem(), ed_pem()] {
        // The classic: the public key, which everybody has, used as the secret of an HMAC.
        let confused = token(json!({"alg": "HS256"}), &claims, hmac_with(pem.as_bytes()));
        for algorithm in [JwtAlgorithm::Auto, JwtAlgorithm::Rs256, JwtAlgorithm::EdDsa] {
            let config = JwtConfig { algorithm, ..with_pem(pem.clone()) };
            let Ok(tokens) = Tokens::open(config, None) else { continue };
            assert_eq!(tokens.verify(&confused).await, Err(Denied("Token algorithm is not accepted")));
        }
    }
    for alg in ["none", "None", "NONE", "", "HS1"] {
        let unsigned = token(json!({"alg": alg}), &claims, |_| Vec::new());
        assert_eq!(verify(secret(), &unsigned).await, Err("Invalid token"), "{alg}");
    }
    for alg in ["HS384", "HS512", "ES256", "PS256"] {
        let other = token(json!({"alg": alg}), &claims, hmac_with(SECRET));
        assert_eq!(verify(secret(), &other).await, Err("Token algorithm is not accepted"), "{alg}");
    }
    let critical = token(json!({"alg": "HS256", "crit": ["b64"], "b64": false}), &claims, hmac_with(SECRET));
    assert_eq!(verify(secret(), &critical).await, Err("Token needs extensions that are not known here"));
    // A key that the token brings along counts for nothing.
    let x = URL_SAFE_NO_PAD.encode(ed().public_key().as_ref());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x});
    let own = token(json!({"alg": "EdDSA", "jwk": jwk}), &claims, ed_sign);
    assert_eq!(verify(secret(), &own).await, Err("Unknown signing key"));
}

#[tokio::test]
async fn a_pinned_algorithm_is_the_only_one() {
    let both = JwtConfig { secret: Some(SECRET.to_vec()), ..with_pem(ed_pem()) };
    let (hmac, ed) = (hs256(&good()), token(json!({"alg": "EdDSA"}), &good(), ed_sign));
    for (algorithm, hmac_ok, ed_ok) in [
        (JwtAlgorithm::Auto, true, true),
        (JwtAlgorithm::Hs256, true, false),
        (JwtAlgorithm::EdDsa, false, true),
    ] {
        let config = JwtConfig { algorithm, ..both.clone() };
        assert_eq!(verify(config.clone(), &hmac).await.is_ok(), hmac_ok, "{algorithm:?}");
        assert_eq!(verify(config, &ed).await.is_ok(), ed_ok, "{algorithm:?}");
    }
}

#[tokio::test]
async fn settings_without_a_fitting_key_are_refused() {
    for (config, word) in [
        (JwtConfig::default(), "a secret"),
        (JwtConfig { secret: Some(Vec::new()), ..JwtConfig::default() }, "a secret"),
        (JwtConfig { algorithm: JwtAlgorithm::Hs256, ..with_pem(rsa_pem()) }, "jwt-secret"),
        (JwtConfig { algorithm: JwtAlgorithm::Rs256, ..with_pem(ed_pem()) }, "RSA"),
        (JwtConfig { algorithm: JwtAlgorithm::EdDsa, ..secret() }, "Ed25519"),
        (with_pem("nonsense".into()), "jwt-public-key"),
    ] {
        let error = Tokens::open(config, None).err().expect("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[tokio::test]
async fn times_are_kept_within_the_skew() {
    let now = now();
    let skewed = JwtConfig { clock_skew: Duration::from_secs(30), ..secret() };
    for (changes, wanted) in [
        (json!({"exp": now - 20}), Ok(())),
        (json!({"exp": now - 40}), Err("Token has expired")),
        (json!({"exp": 0}), Err("Token has expired")),
        (json!({"exp": -1}), Err("Token has expired")),
        (json!({"exp": now as f64 + 0.5}), Ok(())),
        (json!({"exp": null}), Err("Token has no expiry")),
        (json!({"exp": "soon"}), Err("Invalid token")),
        (json!({"nbf": now + 20}), Ok(())),
        (json!({"nbf": now + 45}), Err("Token is not valid yet")),
        (json!({"nbf": []}), Err("Invalid token")),
        (json!({"iat": now + 20}), Ok(())),
        (json!({"iat": now + 45}), Err("Token was issued in the future")),
    ] {
        let seen = verify(skewed.clone(), &hs256(&with(changes.clone()))).await.map(|_| ());
        assert_eq!(seen, wanted, "{changes}");
    }
    let forever = JwtConfig { require_expiry: false, ..skewed };
    assert!(verify(forever, &hs256(&with(json!({"exp": null})))).await.is_ok());
}

#[tokio::test]
async fn issuer_and_audience_must_be_those_asked_for() {
    let asked = JwtConfig { issuer: Some("us".into()), audience: Some("queue".into()), ..secret() };
    for (changes, wanted) in [
        (json!({"iss": "us", "aud": "queue"}), Ok(())),
        (json!({"iss": "us", "aud": ["other", "queue"]}), Ok(())),
        (json!({"iss": "them", "aud": "queue"}), Err("Invalid token issuer")),
        (json!({"aud": "queue"}), Err("Invalid token issuer")),
        (json!({"iss": ["us"], "aud": "queue"}), Err("Invalid token issuer")),
        (json!({"iss": "us", "aud": "other"}), Err("Invalid token audience")),
        (json!({"iss": "us", "aud": []}), Err("Invalid token audience")),
        (json!({"iss": "us"}), Err("Invalid token audience")),
    ] {
        let seen = verify(asked.clone(), &hs256(&with(changes.clone()))).await.map(|_| ());
        assert_eq!(seen, wanted, "{changes}");
    }
    assert!(verify(secret(), &hs256(&with(json!({"iss": "x", "aud": "y"})))).await.is_ok(), "not asked for");
}

#[tokio::test]
async fn roles_are_read_from_both_claims_under_their_names() {
    let names = vec![("boss".to_owned(), Role::Admin), ("reader".to_owned(), Role::ReadOnly)];
    let own = RoleNames { claim: "rank".into(), list_claim: "realm.roles".into(), names };
    let config = JwtConfig { roles: own, ..secret() };
    for (changes, level) in [
        (json!({"rank": "boss"}), Some(Level::Admin)),
        (json!({"realm": {"roles": ["x", 5, "boss"]}}), Some(Level::Admin)),
        (json!({"realm.roles": ["reader"]}), Some(Level::ReadOnly)),
        (json!({"role": "admin", "rank": "admin"}), None),
        (json!({"rank": ["boss"]}), None),
    ] {
        let caller = verify(config.clone(), &hs256(&with(changes.clone()))).await.unwrap();
        match level {
            Some(level) => assert!(caller.permissions.allow(level), "{changes}"),
            None => assert_eq!(caller.permissions, Permissions::default(), "{changes}"),
        }
    }
    let union = with(json!({"role": "read-only", "roles": ["write-only"]}));
    let caller = verify(secret(), &hs256(&union)).await.unwrap();
    assert!(caller.permissions.allow(Level::Push) && caller.permissions.allow(Level::ReadOnly));
    assert!(!caller.permissions.allow(Level::ReadWrite));
}

#[tokio::test]
async fn subjects_that_are_unfit_for_messages_are_refused() {
    for (sub, wanted) in [
        (json!(null), Ok(None)),
        (json!(""), Ok(None)),
        (json!("é"), Ok(Some("é"))),
        (json!(5), Err("Invalid token subject")),
        (json!("a\nb"), Err("Invalid token subject")),
        (json!("x".repeat(256)), Err("Invalid token subject")),
    ] {
        let seen = verify(secret(), &hs256(&with(json!({"sub": sub})))).await.map(|caller| caller.subject);
        assert_eq!(seen, wanted.map(|sub| sub.map(|sub| Bytes::from_static(sub.as_bytes()))), "{sub}");
    }
}

#[tokio::test]
async fn nonsense_is_no_token() {
    let four = format!("{}.x", hs256(&good()));
    for text in ["", ".", "..", "a.b", "a.b.c", "é.é.é", &*four, &"x".repeat(5000)] {
        assert_eq!(verify(secret(), text).await, Err("Invalid token"), "{text}");
    }
    assert_eq!(verify(secret(), &"x".repeat(MAX_TOKEN + 1)).await, Err("Token is too long"));
    let list = token(json!({"alg": "HS256"}), &json!(["exp"]), hmac_with(SECRET));
    assert_eq!(verify(secret(), &list).await, Err("Invalid token"));
}

#[tokio::test]
async fn a_key_set_gives_keys_by_name_and_the_first_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jwks.json");
    let big = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (n, e) = (rsa().public_key().modulus(), rsa().public_key().exponent());
    let set = json!({"keys": [
        {"kty": "RSA", "kid": "r", "n": big(n.big_endian_without_leading_zero()), "e": big(e.big_endian_without_leading_zero())},
        {"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": big(ed().public_key().as_ref())},
    ]});
    std::fs::write(&path, set.to_string()).unwrap();
    let config = JwtConfig { jwks: Some(JwksConfig::new(JwksSource::File(path))), ..JwtConfig::default() };
    let rs = |header: Value| token(header, &good(), rsa_sign(&signature::RSA_PKCS1_SHA256));
    let ed = |header: Value| token(header, &good(), ed_sign);
    for (token, ok) in [
        (rs(json!({"alg": "RS256", "kid": "r"})), true),
        (rs(json!({"alg": "RS256"})), true),
        (ed(json!({"alg": "EdDSA", "kid": "e"})), true),
        (ed(json!({"alg": "EdDSA"})), true),
        (rs(json!({"alg": "RS256", "kid": "e"})), false),
        (ed(json!({"alg": "EdDSA", "kid": "x"})), false),
        (hs256(&good()), false),
    ] {
        assert_eq!(verify(config.clone(), &token).await.is_ok(), ok, "{token}");
    }
}

#[test]
fn settings_are_shown_without_the_secret() {
    let shown = format!("{:?}", JwtConfig { public_key: Some("PEMPEM".into()), ..secret() });
    assert!(
        !shown.contains("0123456789") && !shown.contains("48, 49, 50") && !shown.contains("PEMPEM"),
        "{shown}"
    );
}
