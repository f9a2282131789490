//! Makes the queues of a waiting command before anything is measured: waiting for a queue that exists is the usual case.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use serde_json::json;

use crate::client::Target;

const CONNECTIONS: usize = 8;

/// Creates all queues.
pub(crate) async fn create_queues(target: &Target, names: Vec<String>) -> Result<()> {
    let (names, next) = (Rc::new(names), Rc::new(Cell::new(0)));
    let tasks: Vec<_> = (0..CONNECTIONS.min(names.len()))
        .map(|_| {
            let work = create_some(target.clone(), Rc::clone(&names), Rc::clone(&next));
            tokio::task::spawn_local(work)
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn create_some(target: Target, names: Rc<Vec<String>>, next: Rc<Cell<usize>>) -> Result<()> {
    let mut connection = target.connection();
    let mut post = target.post("/api/v1/configure");
    while let Some(name) = names.get(next.replace(next.get() + 1)) {
        let body = json!({"queue": name, "namespace": "bugle-bench", "options": {"leaseTime": 60}});
        post.begin().extend_from_slice(body.to_string().as_bytes());
        post.finish();
        match connection.call(post.bytes()).await {
            Ok(response) => {
                let status = response.status;
                ensure!(matches!(status, 200 | 201), "configure {name}: HTTP status {status}");
            }
            Err(failure) => bail!("configure {name}: {}", failure.kind()),
        }
    }
    Ok(())
}
