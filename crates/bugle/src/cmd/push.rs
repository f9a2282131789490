//! `bugle push`: messages from an argument, a file or standard input.
//!
//! A thread reads what there is and hands over its lines, so that a slow input is pushed as it comes and a large one in full
//! batches. At most two readings are under way: memory does not grow with the input.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use bugle_client::{Client, Error, NewMessage, PushStatus, Pushed};
use clap::Args;
use serde_json::json;
use tokio::sync::mpsc::{self, Receiver};

use crate::connection::ConnectionArgs;
use crate::ending::End;
use crate::output::OutputArgs;
use crate::progress::Progress;

/// Bytes that are read at once.
const READ: usize = 256 << 10;
/// Longest line; a server takes no larger request by default.
const LONGEST_LINE: usize = 32 << 20;
/// Bytes of payload in one request.
const REQUEST: usize = 4 << 20;

/// Arguments of `bugle push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The queue; made by its first message
    queue: String,
    /// The message, a JSON document
    payload: Option<String>,
    /// File with one JSON document per line; - is standard input, as is neither PAYLOAD nor --file
    #[arg(long, short, value_name = "FILE", conflicts_with = "payload")]
    file: Option<PathBuf>,
    /// Partition: messages of one are delivered in order [default: Default]
    #[arg(long, short, value_name = "NAME")]
    partition: Option<String>,
    /// Transaction id; for several lines, what their ids begin with
    #[arg(long, short, value_name = "ID")]
    transaction_id: Option<String>,
    /// W3C trace context that the messages belong to, as 00-<trace>-<span>-<flags>
    #[arg(long, value_name = "CONTEXT")]
    traceparent: Option<String>,
    /// Messages per request
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Leave out lines that are no JSON, and count them
    #[arg(long)]
    skip_bad: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A line and its number from 1, and where it ends.
struct Line {
    number: u64,
    text: String,
    end: u64,
}

/// What one reading after the other brings.
type Lines = Receiver<Result<Vec<Line>>>;

/// What became of the messages.
#[derive(Default)]
struct Counts {
    queued: u64,
    duplicate: u64,
    buffered: u64,
    failed: u64,
    bad: u64,
    /// Why the first failed one failed.
    error: Option<String>,
}

impl Counts {
    fn take(&mut self, pushed: &[Pushed]) {
        for one in pushed {
            match one.status {
                PushStatus::Queued => self.queued += 1,
                PushStatus::Duplicate => self.duplicate += 1,
                PushStatus::Buffered => self.buffered += 1,
                _ => {
                    self.failed += 1;
                    self.error = self.error.take().or_else(|| one.error.clone());
                }
            }
        }
    }

    fn all(&self) -> u64 {
        self.queued + self.duplicate + self.buffered + self.failed
    }

    /// `2 queued, 1 duplicate`.
    fn spelled(&self) -> String {
        let named = [
            (self.duplicate, "duplicate"),
            (self.buffered, "buffered for maintenance"),
            (self.failed, "failed"),
            (self.bad, "no JSON"),
        ];
        let rest = named.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!(", {n} {name}"));
        format!("{} queued{}", self.queued, rest.collect::<String>())
    }
}

/// `bugle push`.
pub(crate) async fn run(args: PushArgs) -> Result<()> {
    let client = args.connection.client()?;
    let mut counts = Counts::default();
    let done = match &args.payload {
        Some(payload) => single(&client, &args, payload, &mut counts).await,
        None => lines(&client, &args, &mut counts).await,
    };
    // What was stored is told whatever came after it.
    let Counts { queued, duplicate, buffered, failed, bad, .. } = counts;
    let told =
        json!({"queued": queued, "duplicate": duplicate, "buffered": buffered, "failed": failed, "bad": bad});
    if done.is_ok() || counts.all() > 0 {
        args.output.one(&told, &format!("{}\n", counts.spelled()))?;
    }
    done?;
    ensure!(
        failed == 0,
        "{failed} messages failed: {}",
        counts.error.as_deref().unwrap_or("no reason given")
    );
    Ok(())
}

fn message(args: &PushArgs, payload: &str, id: Option<String>) -> Result<NewMessage, Error> {
    let mut message = NewMessage::raw(&args.queue, payload)?;
    if let Some(partition) = &args.partition {
        message = message.partition(partition);
    }
    if let Some(traceparent) = &args.traceparent {
        message = message.traceparent(traceparent);
    }
    Ok(id.into_iter().fold(message, NewMessage::transaction_id))
}

async fn single(client: &Client, args: &PushArgs, payload: &str, counts: &mut Counts) -> Result<()> {
    let message = message(args, payload, args.transaction_id.clone()).map_err(|error| {
        let hint = "a text needs quotes of its own, as in '\"hello\"'";
        End::Usage(format!("PAYLOAD is no JSON: {error}; {hint}"))
    })?;
    counts.take(&client.push_all(&[message]).await?);
    Ok(())
}

async fn lines(client: &Client, args: &PushArgs, counts: &mut Counts) -> Result<()> {
    let (mut lines, whole) = open(args)?;
    let mut progress = Progress::new("pushing");
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while let Some(read) = lines.recv().await {
        for line in read? {
            let id = args.transaction_id.as_ref().map(|id| format!("{id}:{}", line.number));
            match message(args, &line.text, id) {
                Ok(message) => batch.push(message),
                Err(_) if args.skip_bad => counts.bad += 1,
                Err(error) => {
                    send(client, &mut batch, counts).await?;
                    bail!(
                        "line {} is no JSON: {error}. The lines before it are pushed; mend it and go on from there, \
                         or say --skip-bad",
                        line.number
                    );
                }
            }
            bytes += line.text.len();
            if batch.len() >= args.batch as usize || bytes >= REQUEST {
                send(client, &mut batch, counts).await?;
                bytes = 0;
                progress.at(counts.all(), whole.map(|whole| (line.end, whole)));
            }
        }
        send(client, &mut batch, counts).await?;
        bytes = 0;
        progress.at(counts.all(), None);
    }
    Ok(())
}

async fn send(client: &Client, batch: &mut Vec<NewMessage>, counts: &mut Counts) -> Result<()> {
    let pushed = client.push_all(batch).await.with_context(|| format!("after {} messages", counts.all()))?;
    batch.clear();
    counts.take(&pushed);
    Ok(())
}

/// The lines to come, and how many bytes they have in all, where that is known.
fn open(args: &PushArgs) -> Result<(Lines, Option<u64>)> {
    let (input, whole): (Box<dyn Read + Send>, _) = match &args.file {
        Some(path) if path.as_os_str() != "-" => {
            let shown = || path.display().to_string();
            let file = File::open(path).with_context(shown)?;
            let length = file.metadata().with_context(shown)?.len();
            (Box::new(file), Some(length))
        }
        _ => (Box::new(io::stdin()), None),
    };
    let (send, lines) = mpsc::channel(2);
    std::thread::spawn(move || {
        let mut reader = Reader { input, rest: Vec::new(), lines: 0, at: 0 };
        loop {
            let some = reader.next();
            let more = matches!(&some, Ok(Some(_)));
            if let Some(some) = some.transpose()
                && send.blocking_send(some).is_err()
            {
                return;
            }
            if !more {
                return;
            }
        }
    });
    Ok((lines, whole))
}

/// Cuts what there is into lines.
struct Reader {
    input: Box<dyn Read + Send>,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
    /// Lines before here, and bytes.
    lines: u64,
    at: u64,
}

impl Reader {
    /// What one reading brought; none at the end.
    fn next(&mut self) -> Result<Option<Vec<Line>>> {
        let before = self.rest.len();
        self.rest.resize(before + READ, 0);
        let read = loop {
            match self.input.read(&mut self.rest[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.context("reading the input")?,
            }
        };
        self.rest.truncate(before + read);
        if read == 0 {
            let last = std::mem::take(&mut self.rest);
            let line = self.line(&last)?;
            return Ok((!last.is_empty()).then(|| line.into_iter().collect()));
        }
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            ensure!(self.rest.len() <= LONGEST_LINE, "line {} is longer than 32 MiB", self.lines + 1);
            return Ok(Some(Vec::new()));
        };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        let mut lines = Vec::new();
        for text in whole[..end].split(|byte| *byte == b'\n') {
            lines.extend(self.line(text)?);
        }
        Ok(Some(lines))
    }

    /// A line; empty ones are counted and left out.
    fn line(&mut self, bytes: &[u8]) -> Result<Option<Line>> {
        self.lines += 1;
        self.at += bytes.len() as u64 + 1;
        let number = self.lines;
        let text = std::str::from_utf8(bytes).with_context(|| format!("line {number} is no UTF-8"))?.trim();
        Ok((!text.is_empty()).then(|| Line { number, text: text.to_owned(), end: self.at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that comes in pieces.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn read(pieces: &[&'static [u8]]) -> Vec<Vec<(u64, String)>> {
        let input = Box::new(Pieces(pieces.to_vec()));
        let mut reader = Reader { input, rest: Vec::new(), lines: 0, at: 0 };
        let mut all = Vec::new();
        while let Some(lines) = reader.next().unwrap() {
            all.push(lines.into_iter().map(|line| (line.number, line.text)).collect());
        }
        all
    }

    #[test]
    fn lines_are_whole_however_the_input_comes() {
        assert_eq!(
            read(&[b"1\n2", b"2\n\n", b"3"]),
            [vec![(1, "1".into())], vec![(2, "22".into())], vec![], vec![(4, "3".into())]]
        );
        assert_eq!(read(&[b"{}\r\n"]), [vec![(1, "{}".to_owned())]]);
        assert!(read(&[]).is_empty());
    }

    #[test]
    fn counts_name_what_there_was() {
        let counts = Counts { queued: 2, duplicate: 1, ..Counts::default() };
        assert_eq!((counts.spelled(), counts.all()), ("2 queued, 1 duplicate".into(), 3));
    }
}
