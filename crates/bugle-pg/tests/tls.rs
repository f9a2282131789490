//! The `sslmode` words against a real server whose certificate names `localhost` only.

use std::path::{Path, PathBuf};
use std::process::Command;

use bugle_pg::{Config, Pool, PoolOptions, testdb};

fn openssl(dir: &Path, args: &str) {
    let made = Command::new("openssl").args(args.split(' ')).current_dir(dir).output().expect("run openssl");
    assert!(made.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&made.stderr));
}

/// An authority, a certificate of it for `localhost`, and a second authority that signed nothing.
fn certificates() -> PathBuf {
    let dir = std::env::temp_dir().join(testdb::fresh_schema());
    std::fs::create_dir_all(&dir).expect("create a directory");
    let ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for ca in ["ca", "other"] {
        openssl(&dir, &format!("req -x509 {ec} -keyout {ca}.key -out {ca}.pem -days 2 -subj /CN={ca}"));
    }
    openssl(&dir, &format!("req {ec} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(dir.join("ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .expect("write");
    openssl(
        &dir,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile ext",
    );
    dir
}

/// Whether the connection was made, and if so whether it is encrypted.
async fn connect(address: &str) -> Result<bool, String> {
    let pool = Pool::new(Config::parse(address).map_err(|e| e.to_string())?, PoolOptions::default());
    let schema = bugle_pg::Schema::new("unused").expect("a name");
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let encrypted = bugle_pg::Statement::new(&schema, sql, &[]);
    let mut conn = pool.get().await.map_err(|e| e.to_string())?;
    let rows = conn.query(&encrypted, &[]).await.map_err(|e| e.to_string())?;
    Ok(rows[0].get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_promises_what_it_says() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("no openssl here: not tested");
        return;
    }
    let dir = certificates();
    let plain = testdb::tls_server(&dir.join("server.pem"), &dir.join("server.key")).await;
    let address = |host: &str, words: &str| {
        let bare = plain.split('?').next().expect("an address").replace("127.0.0.1", host);
        format!("{bare}?{words}")
    };
    let (ca, other) = (dir.join("ca.pem"), dir.join("other.pem"));
    let full = |file: &Path| format!("sslmode=verify-full&sslrootcert={}", file.display());
    let chain = |file: &Path| format!("sslmode=verify-ca&sslrootcert={}", file.display());

    assert_eq!(connect(&address("localhost", "sslmode=disable")).await, Ok(false));
    assert_eq!(connect(&address("localhost", "sslmode=prefer")).await, Ok(true));
    assert_eq!(connect(&address("localhost", "sslmode=require")).await, Ok(true));
    assert_eq!(connect(&address("localhost", &full(&ca))).await, Ok(true));
    assert_eq!(connect(&address("127.0.0.1", &chain(&ca))).await, Ok(true));

    let wrong_name = connect(&address("127.0.0.1", &full(&ca))).await.expect_err("another name");
    assert!(wrong_name.contains("certificate"), "{wrong_name}");
    let wrong_authority =
        connect(&address("localhost", &chain(&other))).await.expect_err("another authority");
    assert!(wrong_authority.contains("certificate"), "{wrong_authority}");
    std::fs::remove_dir_all(dir).expect("remove the directory");
}
