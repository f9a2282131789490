//! The gate over real sockets: credentials, roles, origins, hosts, key sets, TLS, logs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bugle_broker::{Broker, BrokerConfig};
use bugle_http::{
    ApiKeys, Gate, GateConfig, HttpConfig, JwksConfig, JwksSource, JwtConfig, ServeConfig, Tls, router,
};
use bugle_store::MemoryStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Answer, PATIENCE, Server};
use crate::logs::Kept;

const KEYS: &str = "ops:admin:admin-admin-admin\nshop:read-write:write-write-write\n\
    till:write-only:push-push-push-push\neye:read-only:read-read-read-read";

async fn start(config: GateConfig) -> (Server, Gate) {
    let broker = Broker::open(Arc::new(MemoryStore::new()), BrokerConfig::default()).await.unwrap();
    let gate = Gate::open(config).unwrap();
    let config = ServeConfig { gate: gate.clone(), ..ServeConfig::default() };
    (Server::start(router(broker, HttpConfig::default()), config).await, gate)
}

fn with_keys() -> GateConfig {
    GateConfig {
        api_keys: ApiKeys::parse(KEYS).unwrap(),
        public_paths: vec!["/".into(), "/health".into()],
        ..GateConfig::default()
    }
}

fn told(answer: &Answer) -> (u16, String) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status.as_u16(), body["error"].as_str().unwrap_or_default().to_owned())
}

const PUSH: &str = r#"{"items":[{"queue":"q","payload":1,"producerSub":"forged"}]}"#;

#[tokio::test]
async fn without_credentials_only_public_paths_answer() {
    let (server, _) = start(with_keys()).await;
    assert_eq!(server.send("GET", "/health", "").await.status, 200);
    assert_eq!(server.send("GET", "/", "").await.status, 200);
    for (method, path) in
        [("POST", "/api/v1/push"), ("GET", "/metrics"), ("GET", "/nowhere"), ("GET", "/health/")]
    {
        let answer = server.send(method, path, "{}").await;
        assert_eq!(told(&answer), (401, "Authentication required".into()), "{path}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(answer.headers["x-request-id"].len(), 16);
    }
    for header in
        [("x-api-key", "wrong"), ("authorization", "Bearer wrong"), ("authorization", "Basic d3Jvbmc=")]
    {
        let answer = server.send_with("GET", "/metrics", &[header], "").await;
        assert_eq!(told(&answer), (401, "Invalid API key".into()), "{header:?}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer error=\"invalid_token\"");
    }
}

#[tokio::test]
async fn keys_are_taken_from_either_header_and_roles_decide() {
    let (server, _) = start(with_keys()).await;
    let push = async |header| server.send_with("POST", "/api/v1/push", &[header], PUSH).await.status.as_u16();
    for header in [
        ("x-api-key", "push-push-push-push"),
        ("authorization", "Bearer push-push-push-push"),
        ("Authorization", "bEaReR push-push-push-push"),
        ("authorization", "push-push-push-push"),
    ] {
        assert_eq!(push(header).await, 201, "{header:?}");
    }
    for (method, path, allowed) in [
        (
            "POST",
            "/api/v1/push",
            ["admin-admin-admin", "write-write-write", "push-push-push-push"].as_slice(),
        ),
        ("GET", "/api/v1/pop/queue/none", &["admin-admin-admin", "write-write-write"]),
        ("HEAD", "/api/v1/pop/queue/none", &["admin-admin-admin", "write-write-write"]),
        ("GET", "/metrics", &["admin-admin-admin", "write-write-write", "read-read-read-read"]),
        ("DELETE", "/api/v1/resources/queues/none", &["admin-admin-admin"]),
        ("GET", "/api/v1/system/shared-state", &["admin-admin-admin"]),
    ] {
        for key in ["admin-admin-admin", "write-write-write", "push-push-push-push", "read-read-read-read"] {
            let answer = server.send_with(method, path, &[("x-api-key", key)], PUSH).await;
            assert_eq!(answer.status != 403, allowed.contains(&key), "{method} {path} {key}: {answer:?}");
            if answer.status == 403 && method != "HEAD" {
                assert_eq!(told(&answer).1, "Insufficient permissions");
            }
        }
    }
}

#[tokio::test]
async fn messages_carry_who_sent_them_whatever_they_say() {
    let (server, _) = start(with_keys()).await;
    let key = [("x-api-key", "write-write-write")];
    assert_eq!(server.send_with("POST", "/api/v1/push", &key, PUSH).await.status, 201);
    let bundle = r#"{"operations":[{"type":"push","items":[{"queue":"q","payload":2,"producerSub":"forged"}]},
        {"type":"push","queue":"q","payload":3,"producerSub":"forged"}]}"#;
    assert_eq!(server.send_with("POST", "/api/v1/transaction", &key, bundle).await.status, 200);
    let popped = server.send_with("GET", "/api/v1/pop/queue/q?batch=10", &key, "").await;
    let popped: Value = serde_json::from_slice(&popped.body).unwrap();
    let subs: Vec<&Value> =
        popped["messages"].as_array().unwrap().iter().map(|m| &m["producerSub"]).collect();
    assert_eq!(subs, ["shop"; 3]);
    let (open, _) = start(GateConfig::default()).await;
    assert_eq!(open.send("POST", "/api/v1/push", PUSH).await.status, 201);
    let popped: Value =
        serde_json::from_slice(&open.send("GET", "/api/v1/pop/queue/q", "").await.body).unwrap();
    assert_eq!(popped["messages"][0]["producerSub"], Value::Null);
}

#[tokio::test]
async fn replaced_keys_are_in_force_for_the_next_request() {
    let (server, gate) = start(with_keys()).await;
    let status =
        async |key| server.send_with("GET", "/metrics", &[("x-api-key", key)], "").await.status.as_u16();
    assert_eq!(status("read-read-read-read").await, 200);
    let api_keys = ApiKeys::parse("new:read-only:fresh-fresh-fresh").unwrap();
    gate.replace(GateConfig { api_keys, ..GateConfig::default() }).unwrap();
    assert_eq!((status("read-read-read-read").await, status("fresh-fresh-fresh").await), (401, 200));
    let bad = GateConfig { jwt: Some(JwtConfig::default()), ..GateConfig::default() };
    assert!(gate.replace(bad).is_err());
    assert_eq!(status("fresh-fresh-fresh").await, 200, "the old keys stay");
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing() {
    let (server, _) =
        start(GateConfig { cors_origins: vec!["https://app.example".into()], ..GateConfig::default() }).await;
    let own = format!("http://{}", server.address);
    let host = server.address.to_string();
    for (method, path, headers, refused) in [
        ("POST", "/api/v1/push", vec![("origin", "https://evil.example")], true),
        ("POST", "/api/v1/push", vec![("origin", "null")], true),
        ("GET", "/api/v1/pop/queue/q", vec![("origin", "https://evil.example")], true),
        ("GET", "/api/v1/pop/queue/q", vec![("sec-fetch-site", "cross-site")], true),
        ("POST", "/api/v1/push", vec![("sec-fetch-site", "same-site")], true),
        ("DELETE", "/api/v1/resources/queues/q", vec![("origin", "http://localhost:3000")], true),
        (
            "OPTIONS",
            "/api/v1/push",
            vec![("origin", "https://evil.example"), ("access-control-request-method", "POST")],
            true,
        ),
        ("POST", "/api/v1/push", vec![("origin", "http://test")], false),
        (
            "POST",
            "/api/v1/push",
            vec![("origin", "https://app.example"), ("sec-fetch-site", "cross-site")],
            false,
        ),
        ("POST", "/api/v1/push", vec![("sec-fetch-site", "same-origin")], false),
        ("POST", "/api/v1/push", vec![], false),
        ("GET", "/metrics", vec![("origin", "https://evil.example")], false),
    ] {
        let answer = server.send_with(method, path, &headers, PUSH).await;
        let expected = if refused { (403, "Origin not allowed") } else { (answer.status.as_u16(), "") };
        assert_eq!(told(&answer), (expected.0, expected.1.to_owned()), "{method} {path} {headers:?}");
        assert!(refused || answer.status.is_success());
        let shown = answer.headers.get("access-control-allow-origin").map(|v| v.to_str().unwrap());
        assert_eq!(
            shown,
            headers.contains(&("origin", "https://app.example")).then_some("https://app.example")
        );
    }
    let mut stream = server.connect().await;
    let request = format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: {host}\r\norigin: {own}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{PUSH}",
        PUSH.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "the server's own page: {answer}");
}

#[tokio::test]
async fn browsers_that_ask_first_are_answered_for_listed_origins_only() {
    let ask = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    let (server, _) =
        start(GateConfig { cors_origins: vec!["https://app.example".into()], ..with_keys() }).await;
    let answer = server.send_with("OPTIONS", "/api/v1/push", &ask, "").await;
    assert_eq!(answer.status, 204, "before any credentials");
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example");
    assert!(answer.headers["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    assert_eq!(answer.headers["vary"], "origin");
    let answer = server.send_with("GET", "/metrics", &ask[..1], "").await;
    assert_eq!(answer.status, 401);
    assert_eq!(
        answer.headers["access-control-allow-origin"], "https://app.example",
        "errors can be read too"
    );
    let (server, _) = start(GateConfig::default()).await;
    let answer = server.send_with("OPTIONS", "/api/v1/push", &ask, "").await;
    assert_eq!(answer.status, 403);
    assert!(!answer.headers.contains_key("access-control-allow-origin"), "off unless configured");
}

#[tokio::test]
async fn on_loopback_a_strange_host_is_refused() {
    let config =
        GateConfig { loopback: true, allowed_hosts: vec!["queue.test".into()], ..GateConfig::default() };
    let (server, _) = start(config).await;
    for (line, host, ok) in [
        ("GET /metrics", "host: localhost:6632\r\n", true),
        ("GET /metrics", "host: queue.test\r\n", true),
        ("GET /metrics", "host: [::1]\r\n", true),
        ("GET /metrics", "", true),
        ("GET /metrics", "host: evil.example\r\n", false),
        ("GET /health", "host: evil.example:6632\r\n", false),
        ("GET /metrics", "host: localhost\r\nhost: evil.example\r\n", false),
        ("GET http://evil.example/metrics", "host: localhost\r\n", false),
        ("GET http://localhost/metrics", "host: localhost\r\n", true),
    ] {
        let mut stream = server.connect().await;
        stream
            .write_all(format!("{line} HTTP/1.1\r\n{host}connection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.starts_with("HTTP/1.1 200"), ok, "{line} {host} {answer}");
        assert_eq!(answer.ends_with(r#"{"error":"Host not allowed"}"#), !ok, "{answer}");
    }
    // HTTP/2 has :authority instead.
    assert_eq!(told(&server.send_h2("GET", "/metrics").await), (403, "Host not allowed".into()));
}

/// Serves what it is told to, and counts.
#[derive(Clone, Default)]
struct Identity {
    sets: Arc<Mutex<VecDeque<String>>>,
    asked: Arc<Mutex<usize>>,
}

impl Identity {
    /// Serves `sets` one after the other, the last one for ever.
    async fn start(sets: &[String]) -> (Self, Server) {
        let identity = Self { sets: Arc::new(Mutex::new(sets.to_vec().into())), ..Self::default() };
        let served = identity.clone();
        let handler = get(async move || {
            *served.asked.lock().unwrap() += 1;
            let mut sets = served.sets.lock().unwrap();
            if sets.len() > 1 { sets.pop_front().unwrap() } else { sets[0].clone() }
        });
        let server = Server::start(Router::new().route("/keys", handler), ServeConfig::default()).await;
        (identity, server)
    }
}

fn set(keys: &[(&str, &Ed25519KeyPair)]) -> String {
    let key = |(kid, key): &(&str, &Ed25519KeyPair)| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": URL_SAFE_NO_PAD.encode(key.public_key().as_ref())});
    json!({"keys": keys.iter().map(key).collect::<Vec<_>>()}).to_string()
}

fn token(kid: &str, key: &Ed25519KeyPair, role: &str) -> String {
    let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 60;
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!(
        "{}.{}",
        part(json!({"alg": "EdDSA", "kid": kid})),
        part(json!({"sub": format!("sub-{kid}"), "role": role, "exp": exp}))
    );
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).as_ref()))
}

fn with_jwks(server: &Server) -> GateConfig {
    let source = JwksSource::parse(&format!("http://{}/keys", server.address)).unwrap();
    let jwks = JwksConfig { gap: Duration::from_secs(600), ..JwksConfig::new(source) };
    GateConfig { jwt: Some(JwtConfig { jwks: Some(jwks), ..JwtConfig::default() }), ..GateConfig::default() }
}

#[tokio::test]
async fn a_rotated_key_is_fetched_once_and_made_up_names_cost_nothing() {
    let (old, new) = (Ed25519KeyPair::generate().unwrap(), Ed25519KeyPair::generate().unwrap());
    let (identity, keys) =
        Identity::start(&[set(&[("old", &old)]), set(&[("old", &old), ("new", &new)])]).await;
    let (server, gate) = start(with_jwks(&keys)).await;
    let ask = async |token: String| {
        let header = format!("Bearer {token}");
        told(&server.send_with("GET", "/metrics", &[("authorization", &header)], "").await)
    };
    let (known, fresh) = (token("old", &old, "read-only"), token("new", &new, "read-only"));
    assert_eq!(ask(known.clone()).await.0, 200);
    assert_eq!(*identity.asked.lock().unwrap(), 1, "once at the start");
    assert_eq!(ask(fresh.clone()).await.0, 200);
    assert_eq!(*identity.asked.lock().unwrap(), 2, "once more for the unknown name");
    for name in ["a", "b", "c"] {
        assert_eq!(ask(token(name, &new, "admin")).await, (401, "Unknown signing key".into()));
    }
    assert_eq!(*identity.asked.lock().unwrap(), 2, "not again within the gap");
    assert_eq!(ask(token("old", &new, "admin")).await, (401, "Invalid token signature".into()));
    // The keys survive a reload while their source is away.
    keys.task.abort();
    gate.replace(with_jwks(&keys)).unwrap();
    assert_eq!((ask(known).await.0, ask(fresh).await.0), (200, 200));
}

#[tokio::test]
async fn a_key_set_that_is_away_at_the_start_is_fetched_when_it_is_needed() {
    let key = Ed25519KeyPair::generate().unwrap();
    let (_, keys) = Identity::start(&["no set".to_owned(), set(&[("k", &key)])]).await;
    let (server, _) = start(with_jwks(&keys)).await;
    let header = format!("Bearer {}", token("k", &key, "write-only"));
    let answer = server.send_with("POST", "/api/v1/push", &[("authorization", &header)], PUSH).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let answer = server.send_with("GET", "/metrics", &[("authorization", &header)], "").await;
    assert_eq!(told(&answer), (403, "Insufficient permissions".into()));
}

#[tokio::test]
async fn request_ids_come_back_on_every_answer() {
    let (server, _) = start(with_keys()).await;
    for (path, status) in [("/health", 200), ("/metrics", 401)] {
        let answer = server.send_with("GET", path, &[("x-request-id", "mine 1")], "").await;
        assert_eq!(
            (answer.status.as_u16(), answer.headers["x-request-id"].to_str().unwrap()),
            (status, "mine 1")
        );
        let answer = server.send_with("GET", path, &[("x-request-id", "tab\there")], "").await;
        assert_eq!(answer.headers["x-request-id"].len(), 16);
    }
    let router = Router::new().route("/panic", get(async || -> &'static str { panic!("on purpose") }));
    let server = Server::start(router, ServeConfig::default()).await;
    let answer = server.send_with("GET", "/panic", &[("x-request-id", "p")], "").await;
    assert_eq!((answer.status.as_u16(), answer.headers["x-request-id"].to_str().unwrap()), (500, "p"));
}

#[tokio::test]
async fn the_logs_tell_who_did_what_without_secrets() {
    let (kept, _guard) = Kept::everything("info");
    let (server, _) = start(GateConfig { access_log: true, ..with_keys() }).await;
    let admin = [("x-api-key", "admin-admin-admin"), ("x-request-id", "r1")];
    server.send_with("POST", "/api/v1/configure?secret=s3cret", &admin, r#"{"queue":"jobs"}"#).await;
    let eye = [("authorization", "Bearer read-read-read-read"), ("x-request-id", "r2")];
    server.send_with("DELETE", "/api/v1/resources/queues/jobs", &eye, "").await;
    server.send_with("GET", "/health", &[("x-request-id", "r3")], "").await;
    let lines = kept.lines();
    let line = |target: &str, id: &str| {
        let fits = |line: &&String| line.contains(target) && line.contains(&format!("request_id={id}"));
        lines.iter().find(fits).unwrap_or_else(|| panic!("no {target} {id} in {lines:#?}")).clone()
    };
    let has = |line: String, words: &[&str]| {
        words.iter().for_each(|word| assert!(line.contains(word), "{word}: {line}"))
    };
    has(
        line("bugle::audit", "r1"),
        &["queue.configure", "object=\"jobs\"", "subject=\"ops\"", "outcome=\"done\""],
    );
    has(
        line("bugle::audit", "r2"),
        &["queue.delete", "/api/v1/resources/queues/jobs", "denied", "status=403"],
    );
    has(
        line("bugle::access", "r1"),
        &[
            "method=POST",
            "path=\"/api/v1/configure\"",
            "status=200",
            "bytes_in=16",
            "subject=\"ops\"",
            "peer=127.0.0.1:",
        ],
    );
    has(line("bugle::access", "r3"), &["method=GET", "status=200", "subject=\"-\"", "bytes_in=0"]);
    assert!(!lines.iter().any(|line| line.contains("bugle::audit") && line.contains("r3")));
    for secret in ["s3cret", "admin-admin", "read-read"] {
        assert!(!lines.iter().any(|line| line.contains(secret)), "{secret} in {lines:#?}");
    }
}

fn pair() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

async fn secure(
    server: &Server,
    trusted: &str,
    alpn: &[&str],
) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, server.connect().await).await
}

async fn say_hello(stream: &mut TlsStream<tokio::net::TcpStream>) {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"hello") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0, "{seen:?}");
    }
}

#[tokio::test]
async fn tls_speaks_both_protocols_and_changes_its_certificate_under_open_connections() {
    let ((first, first_key), (second, second_key)) = (pair(), pair());
    let tls = Tls::from_pem(first.as_bytes(), first_key.as_bytes()).unwrap();
    let config = ServeConfig { tls: Some(tls.clone()), ..ServeConfig::default() };
    let server = Server::start(Router::new().route("/", get(async || "hello")), config).await;
    let mut open = secure(&server, &first, &["http/1.1"]).await.unwrap();
    say_hello(&mut open).await;
    tls.replace(second.as_bytes(), second_key.as_bytes()).unwrap();
    say_hello(&mut open).await;
    assert!(secure(&server, &first, &[]).await.is_err(), "new connections get the new certificate");
    say_hello(&mut secure(&server, &second, &[]).await.unwrap()).await;
    let stream = secure(&server, &second, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(crate::client::h2_over(stream, "https://localhost/").await.body, "hello");
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_handshake_is_closed() {
    let (certificate, key) = pair();
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let short = Duration::from_millis(100);
    let config = ServeConfig {
        tls: Some(tls),
        first_byte_timeout: short,
        header_timeout: short,
        ..ServeConfig::default()
    };
    let server = Server::start(Router::new().route("/", get(async || "hello")), config).await;
    for sent in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = server.connect().await;
        stream.write_all(sent).await.unwrap();
        let mut seen = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut seen)).await.expect("the server closes");
        assert!(!seen.starts_with(b"HTTP/1.1 200"));
    }
    // A finished handshake with nothing after it is closed as well, in both protocols.
    for alpn in [&["h2"][..], &["http/1.1"]] {
        let mut stream = secure(&server, &certificate, alpn).await.unwrap();
        let mut seen = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut seen)).await.expect("the server closes");
    }
}
