//! As much HTTP as it takes to ask Patroni how its cluster is, and a server whether it is well.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest time for one answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The body of a page.
pub(crate) async fn get(place: &str, path: &str) -> Result<String> {
    ask(place, &format!("GET {path} HTTP/1.0\r\nHost: {place}\r\n\r\n")).await
}

/// Send JSON; the body of the answer.
pub(crate) async fn post(place: &str, path: &str, body: &str) -> Result<String> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nHost: {place}\r\nContent-Type: application/json\r\n");
    ask(place, &format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")).await
}

async fn ask(place: &str, request: &str) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(place).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(LIMIT, asking).await.context("no answer in time")??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if !status.starts_with('2') {
        bail!("{place}: {status}");
    }
    Ok(body.to_owned())
}
