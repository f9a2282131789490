//! `bugle-instructions NAME TIMES`: calls one hot function so many times and does nothing else.
//!
//! `cargo xtask bench instructions` runs it twice under callgrind, with two numbers of calls: the difference is what the calls
//! cost, without the start of the program and the making of the input. Instructions do not depend on what else the machine does.

mod inputs;

use std::hint::black_box;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use bugle_store::{NewSegment, Segment, Timestamp, fingerprint};

/// What can be counted. The names stand in the baseline.
const NAMES: [&str; 8] = [
    "push-body-1",
    "push-body-100",
    "settle-1",
    "settle-100",
    "visible",
    "fingerprint",
    "segment-encode-100",
    "segment-decode-100",
];

fn main() -> ExitCode {
    match count() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn count() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which function? `list` names them")?;
    if name == "list" {
        use std::io::Write;
        return NAMES.iter().try_for_each(|name| Ok(writeln!(std::io::stdout(), "{name}")?));
    }
    let times: u32 = arguments.next().context("how many times?")?.parse()?;
    let mut call = function(&name)?;
    for _ in 0..times {
        call();
    }
    Ok(())
}

/// The function with its input made.
fn function(name: &str) -> Result<Box<dyn FnMut()>> {
    let push_body = |messages: usize| -> Box<dyn FnMut()> {
        let body = bytes::Bytes::from(inputs::push_body(messages));
        Box::new(move || assert_eq!(bugle_http::counted::push_items(black_box(&body)), messages))
    };
    let settle = |messages: u64| -> Box<dyn FnMut()> {
        let settling = bugle_broker::counted::Settling::new(messages);
        Box::new(move || assert!(black_box(&settling).settle()))
    };
    Ok(match name {
        "push-body-1" => push_body(1),
        "push-body-100" => push_body(100),
        "settle-1" => settle(1),
        "settle-100" => settle(100),
        "visible" => {
            let looking = bugle_broker::counted::Looking::new();
            Box::new(move || assert!(black_box(&looking).visible()))
        }
        "fingerprint" => {
            let id = inputs::transaction_id(7);
            Box::new(move || {
                black_box(fingerprint(black_box(id.as_bytes())));
            })
        }
        "segment-encode-100" => {
            let messages = inputs::messages(100);
            Box::new(move || {
                black_box(NewSegment::build(1, black_box(&messages)));
            })
        }
        "segment-decode-100" => {
            let body = NewSegment::build(1, &inputs::messages(100)).body;
            let segment = Segment { base: 0, count: 100, created_at: Timestamp::ZERO, id: 1, body };
            Box::new(move || assert!(black_box(&segment).messages().is_ok_and(|m| m.len() == 100)))
        }
        other => bail!("no function {other:?}; `list` names them"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_function_that_does_what_it_should() {
        for name in NAMES {
            function(name).unwrap()();
        }
        assert!(function("nonsense").is_err());
    }
}
