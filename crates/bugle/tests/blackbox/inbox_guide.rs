//! The guide to the inbox is true: its statements and programs run as they stand there, in a database of their own with the
//! default schema.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bugle_pg::testdb;
use serde_json::json;
use tokio_postgres::NoTls;

use crate::common::On;
use crate::guides::{read, told};

/// The program in Rust, as the guide has it.
#[rustfmt::skip]
#[expect(unreachable_pub, reason = "a reader's program may be a library")]
mod program {
use tokio_postgres::{Client, Error, types::Type};

/// Store an order and tell whoever ships, both or neither.
pub async fn place_order(client: &mut Client, order: i64, customer: &str) -> Result<String, Error> {
    let transaction = client.transaction().await?;
    transaction
        .execute("INSERT INTO shop_orders VALUES ($1, $2, 7)", &[&order, &customer])
        .await?;
    let payload = format!("{{\"order\": {order}}}");
    let push = "SELECT bugle.push('orders', $1, $2)";
    let rows = transaction
        .query_typed(push, &[(&customer, Type::TEXT), (&payload, Type::TEXT)])
        .await?;
    transaction.commit().await?;
    Ok(rows[0].get(0))
}
}

const GUIDE: &str = "docs/inbox.md";

/// The blocks of a language in a document, in order.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let fences = document.split("\n```").skip(1).step_by(2);
    let of = |block: &str| block.strip_prefix(language)?.strip_prefix('\n').map(str::to_owned);
    fences.filter_map(of).collect()
}

/// Run a program that is given to an interpreter as its input.
async fn interpret(interpreter: &[&str], program: &str, server: &str, dir: &Path) -> Output {
    let mut command = Command::new(interpreter[0]);
    command.args(&interpreter[1..]).env("BUGLE_SERVER", server).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap_or_else(|error| panic!("{interpreter:?}: {error}"));
    running.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    tokio::task::spawn_blocking(move || running.wait_with_output().unwrap()).await.unwrap()
}

/// A database of its own on the test's server; its address.
async fn database() -> String {
    let (server, name) = (testdb::server().await, testdb::fresh_schema());
    let output = Command::new("psql").args(["-qc", &format!("CREATE DATABASE {name}"), &server]).output();
    told(&output.unwrap());
    let (place, options) = server.split_once('?').map_or((&*server, ""), |(place, options)| (place, options));
    let place = place.rsplit_once('/').unwrap().0;
    format!("{place}/{name}?{options}")
}

/// Run a block of statements by the database's own program.
fn run(address: &str, sql: &str) -> String {
    let run = ["-X", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", sql, address];
    told(&Command::new("psql").args(run).output().unwrap())
}

/// An interpreter that has the driver: the system's, or one of an environment made for it.
fn python() -> PathBuf {
    let has = |python: &Path| {
        Command::new(python).args(["-c", "import psycopg"]).output().is_ok_and(|o| o.status.success())
    };
    let system = PathBuf::from("python3");
    if has(&system) {
        return system;
    }
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inbox-guide-python");
    let python = environment.join("bin/python");
    if !has(&python) {
        told(&Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).output().unwrap());
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "psycopg[binary]==3.2.3"];
        told(&Command::new(&python).args(pip).output().unwrap());
    }
    python
}

#[tokio::test]
async fn programs_of_the_guide_push() {
    let (address, guide) = (database().await, read(GUIDE));
    let on = On::on_schema(&address, "bugle");
    let server = on.start().await;
    let statements = blocks(&guide, "sql");
    let [first, named, role, off] = &statements[..] else { panic!("four blocks of SQL") };
    assert_eq!(run(&address, first).trim().len(), 36, "the transaction id");
    assert_eq!(run(&address, named).trim(), "order-1-paid");

    let [program] = &blocks(&guide, "python")[..] else { panic!("one program in Python") };
    // It reads the address of the database, not that of the server, which the others are given.
    let program = program.replace("os.environ[\"DATABASE_URL\"]", &format!("\"{address}\""));
    let python = python();
    let output = interpret(&[python.to_str().unwrap(), "-"], &program, "", on.dir()).await;
    assert_eq!(told(&output), "order-2\n");

    let here = include_str!("inbox_guide.rs");
    let [program] = &blocks(&guide, "rust")[..] else { panic!("one program in Rust") };
    assert!(here.contains(program.trim_end()), "the guide and this file differ");
    let (mut client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    let id = program::place_order(&mut client, 3, "customer-9").await.unwrap();
    let twice = program::place_order(&mut client, 3, "customer-9").await;
    assert!(twice.is_err(), "the order is there already, and so nothing is pushed");

    let wanted = [
        (
            "customer-7",
            vec![json!({"order": 1, "total": 12.50}), json!({"order": 1, "total": 12.50, "paid": true})],
        ),
        ("customer-8", vec![json!({"order": 2})]),
        ("customer-9", vec![json!({"order": 3})]),
    ];
    for (customer, wanted) in wanted {
        for data in wanted {
            let rest = format!("/queue/orders/partition/{customer}?wait=true&autoAck=true");
            let message = server.pop_some(&rest).await["messages"][0].clone();
            assert_eq!(message["data"], data);
            assert!(customer != "customer-9" || message["transactionId"] == json!(id));
        }
        assert_eq!(server.pop(&format!("/queue/orders/partition/{customer}")).await, None);
    }
    // Roles are shared by all databases of the server, so this one gets a name that nobody else has.
    let shop = testdb::fresh_schema();
    let named = |block: &str| {
        block.replace("shop SET", &format!("{shop} SET")).replace("TO shop", &format!("TO {shop}"))
    };
    run(&address, &named(role).replace("ROLE shop", &format!("ROLE {shop}")));
    run(&address, &format!("SET ROLE {shop}; SELECT bugle.push('orders', 'x', '1')"));
    run(&address, &named(off));
    run(&address, &format!("DROP OWNED BY {shop}; DROP ROLE {shop}"));
}
