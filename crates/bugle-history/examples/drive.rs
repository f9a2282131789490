//! Load on running servers, and what the checker says of it:
//! `cargo run -p bugle-history --example drive -- <seconds> <url>… [--save <file>]`.

use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;

use bugle_history::{Load, Terms, check, drive};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let save = arguments.iter().position(|argument| argument == "--save").map(|at| {
        let file = arguments.drain(at..).nth(1);
        file.ok_or("--save needs a file")
    });
    let [seconds, servers @ ..] = &arguments[..] else { return Err("seconds and servers, please".into()) };
    let history = drive(&Load::new(servers), Duration::from_secs(seconds.parse()?)).await?;
    if let Some(file) = save {
        history.save(&mut BufWriter::new(File::create(file?)?))?;
    }
    let report = check(&history, &Terms::default());
    eprintln!("{report}");
    if report.is_clean() { Ok(()) } else { Err("promises were broken".into()) }
}
