//! The floor of anything behind HTTP: the same requests, read to their end and answered by the same words.
//!
//! It is this program started once more, so that its cost can be told from the generator's. The server is hyper on a
//! runtime with a thread per core, as in Bugle.

use std::convert::Infallible;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpListener;

use crate::lab::Lab;
use crate::peer::{Driver, Facts, Measured, Running, Shape, Whole, Window};
use crate::peers::bugle::Bugle;

/// A server that has not greeted by then does not start at all.
const START_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn start(_lab: &Lab) -> Result<Running> {
    let settings = "hyper, HTTP/1.1, tokio with a thread per core; reads the whole body and answers as many `queued` as the batch has";
    Ok(Running {
        facts: Facts { version: "hyper 1.12.0".to_owned(), settings: settings.to_owned() },
        pids: Vec::new(),
        driver: Driver::Whole(Box::new(Constant)),
        processes: Vec::new(),
    })
}

/// A server per window: the words of its answer depend on the size of the batch.
struct Constant;

#[async_trait::async_trait(?Send)]
impl Whole for Constant {
    async fn push(&mut self, shape: Shape, window: Window) -> Result<Measured> {
        let program = std::env::current_exe().context("where is this program?")?;
        let mut command = tokio::process::Command::from(Command::new(program));
        command.args(["constant", "--items", &shape.batch.to_string()]).kill_on_drop(true);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start the server")?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = tokio::io::BufReader::new(output).lines();
        let greeting =
            tokio::time::timeout(START_LIMIT, lines.next_line()).await.context("no greeting")??;
        let url = greeting.context("the server ended")?;
        let pid = child.id().context("the server ended")?;
        let mut target = Bugle { url, pids: vec![pid], place: None, constant: true };
        let measured = target.push(shape, window).await;
        child.kill().await.context("end the server")?;
        measured
    }

    async fn pop(&mut self, _: Shape, _: Window, _: u64) -> Result<Measured> {
        anyhow::bail!("a floor only takes in")
    }

    fn consumes(&self) -> bool {
        false
    }
}

/// Serves until it is killed.
pub(crate) fn serve(items: usize) -> Result<()> {
    ensure!(items > 0, "--items must be at least 1");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
        let answer = answer(items);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answer = answer.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| reply(request, answer.clone()));
                // A client that goes away is no fault of the server.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

async fn reply(request: Request<Incoming>, answer: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    // What cannot be read is answered as well; the generator counts what it gets.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(answer));
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// An answer to a push of so many messages, as long as a real one.
fn answer(items: usize) -> Bytes {
    let uuid = "00000000-0000-7000-8000-000000000000";
    let item = format!(
        "{{\"index\":0,\"transaction_id\":\"{uuid}\",\"status\":\"queued\",\"message_id\":\"{uuid}\",\
         \"partition_id\":\"{uuid}\",\"trace_id\":null,\"queueName\":\"bench-00000000\"}}"
    );
    let items = vec![item; items];
    Bytes::from(format!("[{}]", items.join(",")))
}
