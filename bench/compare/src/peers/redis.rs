//! Redis Streams with `appendfsync always`: the log is synced before the answers of a turn of the event loop are sent.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::{Lab, Process, free_port, output};
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};

const GROUP: &str = "g";

pub(crate) async fn start(lab: &Lab) -> Result<Running> {
    let port = free_port()?;
    let data = lab.directory.join(format!("redis-{port}"));
    std::fs::create_dir(&data).context("create a directory for Redis")?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--dir"]).arg(&data);
    let mut process = Process::start(&mut command, &lab.directory, "redis")?;
    process.listening(port).await?;
    let told = output(Command::new("redis-server").arg("--version"))?;
    let version = told.split_whitespace().find_map(|w| w.strip_prefix("v=")).unwrap_or(&told).to_owned();
    let settings = "appendonly yes, appendfsync always, no snapshots; one stream; pipelined XADD, XREADGROUP COUNT n, XACK";
    Ok(Running {
        facts: Facts { version, settings: settings.to_owned() },
        pids: vec![process.pid()],
        driver: Driver::Clients(Box::new(Redis { port, stream: String::new(), count: 0 })),
        processes: vec![process],
    })
}

struct Redis {
    port: u16,
    stream: String,
    count: u64,
}

#[async_trait(?Send)]
impl Clients for Redis {
    async fn fresh(&mut self) -> Result<()> {
        let mut line = Line::connect(self.port).await?;
        if !self.stream.is_empty() {
            line.call(&[b"DEL", self.stream.as_bytes()]).await?;
        }
        self.count += 1;
        self.stream = format!("s{}", self.count);
        let create: [&[u8]; 6] =
            [b"XGROUP", b"CREATE", self.stream.as_bytes(), GROUP.as_bytes(), b"0", b"MKSTREAM"];
        line.call(&create).await?;
        Ok(())
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        Ok(Box::new(Sender { line: Line::connect(self.port).await?, stream: self.stream.clone() }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        let name = format!("c{:016x}", fastrand::u64(..));
        Ok(Box::new(Receiver { line: Line::connect(self.port).await?, stream: self.stream.clone(), name }))
    }
}

struct Sender {
    line: Line,
    stream: String,
}

#[async_trait(?Send)]
impl Producer for Sender {
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        for payload in payloads {
            self.line.write(&[b"XADD", self.stream.as_bytes(), b"*", b"d", payload]);
        }
        self.line.send().await?;
        for _ in payloads {
            self.line.reply().await?;
        }
        Ok(())
    }
}

struct Receiver {
    line: Line,
    stream: String,
    name: String,
}

#[async_trait(?Send)]
impl Consumer for Receiver {
    async fn take(&mut self, batch: usize, show: &mut dyn for<'p> FnMut(&'p [u8])) -> Result<usize> {
        let count = batch.to_string();
        let (group, name, stream) = (GROUP.as_bytes(), self.name.as_bytes(), self.stream.as_bytes());
        let read: [&[u8]; 9] =
            [b"XREADGROUP", b"GROUP", group, name, b"COUNT", count.as_bytes(), b"STREAMS", stream, b">"];
        let reply = self.line.call(&read).await?;
        let Reply::Array(mut streams) = reply else { return Ok(0) };
        // One stream: its name, then its entries.
        let Some(Reply::Array(mut named)) = streams.pop() else { return Ok(0) };
        let Some(Reply::Array(entries)) = named.pop() else { bail!("XREADGROUP: no entries") };
        let mut ack: Vec<Vec<u8>> = vec![b"XACK".to_vec(), self.stream.clone().into_bytes(), GROUP.into()];
        for entry in entries {
            let Reply::Array(parts) = entry else { bail!("XREADGROUP: not an entry") };
            let [Reply::Bulk(id), Reply::Array(fields)] = &parts[..] else {
                bail!("XREADGROUP: not an entry")
            };
            let Some(Reply::Bulk(payload)) = fields.get(1) else { bail!("XREADGROUP: no payload") };
            show(payload);
            ack.push(id.clone());
        }
        let taken = ack.len() - 3;
        let words: Vec<&[u8]> = ack.iter().map(Vec::as_slice).collect();
        let acked = self.line.call(&words).await?;
        ensure!(acked == Reply::Number(taken as i64), "XACK of {taken}: {acked:?}");
        Ok(taken)
    }
}

/// One connection that speaks Redis's protocol.
struct Line {
    stream: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    at: usize,
}

#[derive(Debug, PartialEq)]
enum Reply {
    Text(String),
    Number(i64),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Nil,
}

impl Line {
    async fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.context("connect to Redis")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, output: Vec::new(), input: Vec::new(), at: 0 })
    }

    fn write(&mut self, words: &[&[u8]]) {
        self.output.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.output.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.output.extend_from_slice(word);
            self.output.extend_from_slice(b"\r\n");
        }
    }

    async fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    async fn call(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.write(words);
        self.send().await?;
        self.reply().await
    }

    /// The next reply; an error of the server is an error here.
    async fn reply(&mut self) -> Result<Reply> {
        loop {
            let mut at = self.at;
            if let Some(reply) = parse(&self.input, &mut at)? {
                self.at = at;
                if self.at == self.input.len() {
                    self.input.clear();
                    self.at = 0;
                }
                return Ok(reply);
            }
            self.input.reserve(64 << 10);
            ensure!(self.stream.read_buf(&mut self.input).await? > 0, "Redis has hung up");
        }
    }
}

/// Reads one reply; none if it is not complete yet.
fn parse(input: &[u8], at: &mut usize) -> Result<Option<Reply>> {
    let Some(end) = input[*at..].windows(2).position(|w| w == b"\r\n").map(|p| *at + p) else {
        return Ok(None);
    };
    let Some((kind, rest)) = input[*at..end].split_first() else { bail!("an empty reply") };
    let text = std::str::from_utf8(rest)?;
    *at = end + 2;
    Ok(Some(match kind {
        b'+' => Reply::Text(text.to_owned()),
        b'-' => bail!("Redis: {text}"),
        b':' => Reply::Number(text.parse()?),
        b'$' => {
            let Ok(length) = usize::try_from(text.parse::<i64>()?) else { return Ok(Some(Reply::Nil)) };
            let Some(bytes) = input.get(*at..*at + length + 2) else { return Ok(None) };
            *at += length + 2;
            Reply::Bulk(bytes[..length].to_vec())
        }
        b'*' => {
            let Ok(length) = usize::try_from(text.parse::<i64>()?) else { return Ok(Some(Reply::Nil)) };
            let mut items = Vec::with_capacity(length.min(1024));
            for _ in 0..length {
                let Some(item) = parse(input, at)? else { return Ok(None) };
                items.push(item);
            }
            Reply::Array(items)
        }
        other => bail!("Redis: unknown reply {:?}", char::from(*other)),
    }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn replies_of_every_kind_are_read_and_incomplete_ones_wait() {
        let text = b"*4\r\n$2\r\nab\r\n:7\r\n*-1\r\n+OK\r\n";
        let mut at = 0;
        let whole = parse(text, &mut at).unwrap().unwrap();
        let items =
            vec![Reply::Bulk(b"ab".to_vec()), Reply::Number(7), Reply::Nil, Reply::Text("OK".to_owned())];
        assert_eq!((whole, at), (Reply::Array(items), text.len()));
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut], &mut 0).unwrap(), None, "cut at {cut}");
        }
        assert!(parse(b"-ERR no\r\n", &mut 0).unwrap_err().to_string().contains("ERR no"));
    }
}
