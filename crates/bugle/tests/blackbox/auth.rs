//! Credentials, roles, TLS and reloading, as an operator sees them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::{On, command, contract, until_true};

const SECRET: &str = "a-secret-of-thirty-two-bytes-or-more";
const KEYS: &str = "ops:admin:admin-admin-admin\neye:read-only:read-read-read-read\n";

fn token(role: &str) -> String {
    let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"sub": format!("user-{role}"), "role": role, "exp": exp});
    let message = format!("{}.{}", part(json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()).as_ref()))
}

async fn over<I>(
    io: I,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, HeaderMap, Bytes)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    connection.abort();
    contract::check(method, path, parts.status.as_u16(), &parts.headers, &body);
    (parts.status.as_u16(), parts.headers, body)
}

async fn ask(at: SocketAddr, method: &str, path: &str, bearer: &str, body: &str) -> (u16, Value) {
    let io = TcpStream::connect(at).await.unwrap();
    let credentials = format!("Bearer {bearer}");
    let headers: &[(&str, &str)] = if bearer.is_empty() { &[] } else { &[("authorization", &credentials)] };
    let (status, _, body) = over(io, method, path, headers, body).await;
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Method, path, body, and which of admin, read-write, write-only and read-only may.
const ROUTES: &[(&str, &str, &str, [bool; 4])] = &[
    ("POST", "/api/v1/push", r#"{"items":[{"queue":"q","payload":1}]}"#, [true, true, true, false]),
    ("GET", "/api/v1/pop/queue/q", "", [true, true, false, false]),
    ("GET", "/api/v1/pop/queue/q/partition/p", "", [true, true, false, false]),
    ("GET", "/api/v1/pop?namespace=n", "", [true, true, false, false]),
    ("POST", "/api/v1/ack", "{}", [true, true, false, false]),
    ("POST", "/api/v1/ack/batch", "{}", [true, true, false, false]),
    ("POST", "/api/v1/lease/x/extend", "{}", [true, true, false, false]),
    ("POST", "/api/v1/transaction", "{}", [true, true, false, false]),
    ("POST", "/api/v1/configure", r#"{"queue":"q"}"#, [true, true, false, false]),
    ("GET", "/api/v1/system/shared-state", "", [true, false, false, false]),
    ("POST", "/api/v1/system/maintenance", "{}", [true, false, false, false]),
    ("GET", "/api/v1/resources/queues", "", [true, true, false, true]),
    ("GET", "/api/v1/messages", "", [true, true, false, true]),
    ("GET", "/api/v1/dlq", "", [true, true, false, true]),
    ("POST", "/api/v1/dlq/redrive", "{}", [true, true, false, false]),
    ("DELETE", "/api/v1/messages/p/t", "", [true, true, false, false]),
    ("GET", "/api/v1/traces/names", "", [true, true, false, true]),
    ("POST", "/api/v1/traces", "{}", [true, true, false, false]),
    ("GET", "/api/v1/consumer-groups", "", [true, true, false, true]),
    ("POST", "/api/v1/consumer-groups/g/queues/q/seek", "{}", [true, true, false, false]),
    ("DELETE", "/api/v1/consumer-groups/g", "", [true, false, false, false]),
    ("DELETE", "/api/v1/resources/queues/none", "", [true, false, false, false]),
    ("GET", "/metrics", "", [true; 4]),
    ("GET", "/metrics/prometheus", "", [true; 4]),
    ("GET", "/health", "", [true; 4]),
    ("GET", "/health/ready", "", [true; 4]),
    ("GET", "/", "", [true; 4]),
];

on_every_engine! {
    async fn roles_decide_on_every_route(on: On) {
        let server = on.start_with(&[&format!("--jwt-secret={SECRET}")]).await;
        let at = server.address();
        let tokens = ["admin", "read-write", "write-only", "read-only"].map(token);
        for (method, path, body, allowed) in ROUTES {
            for (token, allowed) in tokens.iter().zip(allowed) {
                let (status, answer) = ask(at, method, path, token, body).await;
                assert_eq!(status != 403, *allowed, "{method} {path}: {status} {answer}");
                assert!(status != 401, "{method} {path}: {answer}");
                if status == 403 {
                    assert_eq!(answer, json!({"error": "Insufficient permissions"}));
                }
            }
            let public = *allowed == [true; 4];
            let (status, answer) = ask(at, method, path, "", body).await;
            assert_eq!(status == 401, !public, "{method} {path}: {status}");
            assert!(public || answer == json!({"error": "Authentication required"}), "{answer}");
        }
        let (status, answer) = ask(at, "GET", "/api/v1/dlq", &token("nobody"), "").await;
        assert_eq!((status, &answer["error"]), (403, &json!("Insufficient permissions")));
    }

    async fn messages_carry_the_subject_of_their_sender(on: On) {
        let server = on.start_with(&[&format!("--jwt-secret={SECRET}"), "--api-keys=shop:read-write:shop-shop-shop-shop"]).await;
        let at = server.address();
        let push = r#"{"items":[{"queue":"q","payload":1,"producerSub":"forged"}]}"#;
        assert_eq!(ask(at, "POST", "/api/v1/push", &token("write-only"), push).await.0, 201);
        let bundle = r#"{"operations":[{"type":"push","queue":"q","payload":2,"producerSub":"forged"}]}"#;
        assert_eq!(ask(at, "POST", "/api/v1/transaction", "shop-shop-shop-shop", bundle).await.1["success"], true);
        let (_, popped) = ask(at, "GET", "/api/v1/pop/queue/q?batch=5", &token("admin"), "").await;
        let subs: Vec<&Value> = popped["messages"].as_array().unwrap().iter().map(|m| &m["producerSub"]).collect();
        assert_eq!(subs, ["user-write-only", "shop"]);
    }
}

#[tokio::test]
async fn with_credentials_the_network_may_be_listened_to() {
    let on = On::embedded();
    let server = on.start_with(&["--listen=0.0.0.0:0", "--api-keys=ops:admin:admin-admin-admin"]).await;
    let at = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    assert_eq!(ask(at, "GET", "/api/v1/system/shared-state", "", "").await.0, 401);
    assert_eq!(ask(at, "GET", "/api/v1/system/shared-state", "admin-admin-admin", "").await.0, 200);
}

#[tokio::test]
async fn a_web_page_cannot_use_a_developers_server() {
    let on = On::embedded();
    let server = on.start().await;
    let push = r#"{"items":[{"queue":"q","payload":1}]}"#;
    let send = async |host: &str, origin: Option<&str>| {
        let io = TcpStream::connect(server.address()).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::post("/api/v1/push").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let answer = sender.send_request(request.body(Full::new(Bytes::from(push))).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body: Value =
            serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
        (status, body["error"].as_str().unwrap_or_default().to_owned())
    };
    let own = server.address().to_string();
    assert_eq!(send(&own, Some("https://evil.example")).await, (403, "Origin not allowed".into()));
    assert_eq!(
        send("evil.example:6632", Some("http://evil.example:6632")).await,
        (403, "Host not allowed".into())
    );
    assert!(server.pop("/queue/q").await.is_none(), "nothing was stored");
    assert_eq!(send(&own, Some(&format!("http://{own}"))).await.0, 201);
    assert_eq!(send(&own, None).await.0, 201);
}

fn pair(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.pem()
}

async fn secure(at: SocketAddr, trusted: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(at).await?).await
}

#[tokio::test]
async fn a_hang_up_exchanges_certificate_and_keys_and_keeps_connections() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let first = pair(dir.path());
    std::fs::write(file("keys"), KEYS).unwrap();
    let on = On::embedded();
    let flag = |name: &str, path: &str| format!("--{name}={}", file(path).display());
    let flags = [flag("tls-cert", "cert.pem"), flag("tls-key", "key.pem"), flag("api-keys-file", "keys")];
    let server = on.start_with(&flags).await;
    let at = server.address();
    let get = async |trusted: &str, key: &str| {
        let io = secure(at, trusted).await.ok()?;
        Some(over(io, "GET", "/api/v1/system/shared-state", &[("x-api-key", key)], "").await.0)
    };
    assert_eq!(get(&first, "admin-admin-admin").await, Some(200));

    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(secure(at, &first).await.unwrap())).await.unwrap();
    tokio::spawn(connection);
    let mut on_the_open_line = async |key: &str| {
        let request =
            Request::get("/api/v1/system/shared-state").header("host", "localhost").header("x-api-key", key);
        let answer = sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        answer.into_body().collect().await.unwrap();
        status
    };
    assert_eq!(on_the_open_line("admin-admin-admin").await, 200);

    let second = pair(dir.path());
    std::fs::write(file("keys"), "new:admin:fresh-fresh-fresh").unwrap();
    server.hang_up();
    until_true("the new key works with the new certificate", async || {
        get(&second, "fresh-fresh-fresh").await == Some(200)
    })
    .await;
    assert_eq!(get(&first, "fresh-fresh-fresh").await, None, "the old certificate is gone");
    assert_eq!(get(&second, "admin-admin-admin").await, Some(401), "the old key is gone");
    assert_eq!(on_the_open_line("fresh-fresh-fresh").await, 200, "the open connection lives on");

    // A bad certificate stays behind while the rest goes on.
    std::fs::write(file("key.pem"), "nonsense").unwrap();
    std::fs::write(file("keys"), "third:admin:third-third-third").unwrap();
    server.hang_up();
    until_true("the third key works", async || get(&second, "third-third-third").await == Some(200)).await;
    assert!(server.terminate().await.success());
}

#[tokio::test]
async fn logs_and_printed_settings_have_no_secrets_and_the_level_changes_by_a_hang_up() {
    let dir = tempfile::tempdir().unwrap();
    let (log, config) = (dir.path().join("log"), dir.path().join("bugle.toml"));
    let settings = |level: &str| {
        format!(
            "log-level = '{level}'\njwt-secret = '{SECRET}'\napi-keys = 'ops:admin:admin-admin-admin'\nlisten = '127.0.0.1:0'\naccess-log = true\n"
        )
    };
    std::fs::write(&config, settings("trace")).unwrap();
    let shown =
        command(dir.path()).args(["serve", "--print-config", "--config"]).arg(&config).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("jwt-secret = \"<redacted>\"") && shown.contains("api-keys = \"<redacted>\""),
        "{shown}"
    );

    let mut process = command(dir.path())
        .args(["serve", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    let at: SocketAddr = greeting.trim().rsplit_once('/').unwrap().1.parse().unwrap();
    let token = token("admin");
    assert_eq!(ask(at, "POST", "/api/v1/configure", &token, r#"{"queue":"q"}"#).await.0, 200);
    assert_eq!(ask(at, "POST", "/api/v1/configure", "admin-admin-admin", r#"{"queue":"q"}"#).await.0, 200);
    let read = || std::fs::read_to_string(&log).unwrap();

    // Bad settings change nothing, and say so.
    std::fs::write(&config, settings("trace").replace("ops:admin:", "ops:nonsense:")).unwrap();
    kill_process(Pid::from_child(&process), Signal::HUP).unwrap();
    until_true("the reload failed", async || read().contains("reload failed")).await;
    assert_eq!(ask(at, "POST", "/api/v1/configure", "admin-admin-admin", r#"{"queue":"q"}"#).await.0, 200);

    std::fs::write(&config, settings("error")).unwrap();
    kill_process(Pid::from_child(&process), Signal::HUP).unwrap();
    // The level is error from here on: the only sign is that requests leave no debug lines any more.
    until_true("no debug lines are written", async || {
        let before = read().matches("DEBUG").count() + read().matches("TRACE").count();
        assert_eq!(ask(at, "GET", "/api/v1/pop/queue/q", &token, "").await.0, 204);
        read().matches("DEBUG").count() + read().matches("TRACE").count() == before
    })
    .await;
    assert_eq!(ask(at, "DELETE", "/api/v1/resources/queues/q", &token, "").await.0, 200);
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert!(process.wait().unwrap().success());
    let text = read();
    for word in ["queue.configure", "user-admin", "\"ops\"", "bugle::access", "queue.delete"] {
        assert!(text.contains(word), "no {word} in the log");
    }
    for secret in [SECRET, "admin-admin-admin", &token] {
        assert!(!text.contains(secret) && !shown.contains(secret), "a secret is told");
    }
}

/// Answers every connection with `body`, by TLS.
async fn document_server(dir: &Path, body: String) -> SocketAddr {
    let certificate = CertificateDer::from_pem_file(dir.join("cert.pem")).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") && stream.read_buf(&mut seen).await.unwrap_or(0) > 0 {}
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    at
}

#[tokio::test]
async fn a_key_set_is_fetched_by_tls_from_those_the_machine_trusts() {
    let dir = tempfile::tempdir().unwrap();
    pair(dir.path());
    let key = Ed25519KeyPair::generate().unwrap();
    let x = URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
    let documents = document_server(dir.path(), set.to_string()).await;
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"sub": "me", "role": "admin", "exp": 32_503_680_000_u64});
    let message = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": "k"})), part(claims));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).as_ref()));
    for (trusted, wanted) in [(true, 200), (false, 401)] {
        let data = tempfile::tempdir().unwrap();
        let nothing = data.path().join("nothing.pem");
        std::fs::write(&nothing, "").unwrap();
        let roots = if trusted { dir.path().join("cert.pem") } else { nothing };
        let mut process = command(data.path())
            .args(["serve", "--listen=127.0.0.1:0", "--log-level=off"])
            .arg(format!("--jwt-jwks=https://localhost:{}/keys", documents.port()))
            .env("SSL_CERT_FILE", roots)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let at: SocketAddr = greeting.trim().rsplit_once('/').unwrap().1.parse().unwrap();
        let (status, answer) = ask(at, "GET", "/api/v1/system/shared-state", &token, "").await;
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(status, wanted, "{answer}");
    }
}

#[tokio::test]
async fn the_old_names_of_token_settings_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = command(dir.path())
        .args(["serve", "--listen=127.0.0.1:0", "--log-level=error"])
        .envs([
            ("JWT_ENABLED", "true"),
            ("JWT_SECRET", SECRET),
            ("JWT_ROLE_ADMIN", "read-only-not"),
            ("JWT_SKIP_PATHS", "/health"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    let at: SocketAddr = greeting.trim().rsplit_once('/').unwrap().1.parse().unwrap();
    let statuses = [
        ask(at, "GET", "/health", "", "").await.0,
        ask(at, "GET", "/metrics", "", "").await.0,
        ask(at, "GET", "/metrics", &token("read-write"), "").await.0,
        ask(at, "GET", "/metrics", &token("admin"), "").await.0,
    ];
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(statuses, [200, 401, 200, 403]);
}
