//! Structured logs on standard error, as text for people or JSON for machines. The level can be changed while they run.

use std::fmt;

use anyhow::{Context, Result};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::settings::LogFormat;

/// Logs that are written whatever the level is, since they are no matter of detail. A filter may name them.
const ALWAYS: [&str; 2] = ["bugle::audit", "bugle::access"];

/// The running logs.
pub(crate) struct Logs(Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>);

impl Logs {
    /// Change the level.
    pub(crate) fn set(&self, level: &str) -> Result<()> {
        (self.0)(filter(level)?)
    }
}

/// Start logging. `level` is a level (`info`) or a filter (`info,bugle_broker=debug`).
pub(crate) fn start(format: LogFormat, level: &str) -> Result<Logs> {
    let logs = tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(std::io::stderr);
    let (set, started): (Logs, _) = match format {
        LogFormat::Text => {
            let logs = logs.with_ansi(false).with_filter_reloading();
            let handle = logs.reload_handle();
            (Logs(Box::new(move |filter| handle.reload(filter).context("log-level"))), logs.try_init())
        }
        LogFormat::Json => {
            let logs = logs.json().flatten_event(true).map_event_format(Correlated).with_filter_reloading();
            let handle = logs.reload_handle();
            (Logs(Box::new(move |filter| handle.reload(filter).context("log-level"))), logs.try_init())
        }
    };
    started.map_err(|error| anyhow::anyhow!("logs: {error}"))?;
    Ok(set)
}

/// Lines as JSON. Inside a request that belongs to a trace, `trace_id` and `span_id` stand beside the event's own fields, where whoever
/// collects logs looks for them, and not only in its span.
struct Correlated(Format<Json>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, JsonFields> for Correlated {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let ids = context.event_scope().into_iter().flatten().find_map(|span| {
            let extensions = span.extensions();
            trace_ids(&extensions.get::<FormattedFields<JsonFields>>()?.fields)
        });
        match (ids, line.trim_end().strip_suffix('}')) {
            (Some((trace, span)), Some(open)) => {
                writeln!(writer, r#"{open},"trace_id":"{trace}","span_id":"{span}"}}"#)
            }
            _ => writer.write_str(&line),
        }
    }
}

/// The ids among a span's fields.
fn trace_ids(fields: &str) -> Option<(String, String)> {
    let fields: serde_json::Value = serde_json::from_str(fields).ok()?;
    let hex = |name: &str| fields[name].as_str().map(str::to_owned);
    Some((hex("trace_id")?, hex("span_id")?))
}

fn filter(level: &str) -> Result<EnvFilter> {
    let mut filter = EnvFilter::try_new(level).context("log-level")?;
    for target in ALWAYS.into_iter().filter(|target| !level.contains(target)) {
        let directive: Directive = format!("{target}=info").parse().context("log-level")?;
        filter = filter.add_directive(directive);
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    struct Into(Arc<Mutex<Vec<u8>>>);

    impl Write for Into {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_inside_a_trace_say_which() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = lines.clone();
        let logs =
            tracing_subscriber::fmt().with_writer(move || Into(into.clone())).json().flatten_event(true);
        let logs = logs.map_event_format(Correlated).finish();
        tracing::subscriber::with_default(logs, || {
            tracing::info!("before");
            let _span = tracing::error_span!("request", id = "7", trace_id = "aa", span_id = "bb").entered();
            let _inner = tracing::info_span!("inner").entered();
            tracing::info!(n = 1, "inside");
        });
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        let read: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&read[0]["message"], &read[0]["trace_id"]), (&"before".into(), &serde_json::Value::Null));
        assert_eq!((&read[1]["trace_id"], &read[1]["span_id"]), (&"aa".into(), &"bb".into()));
        assert_eq!((&read[1]["message"], &read[1]["n"]), (&"inside".into(), &1.into()));
    }

    #[test]
    fn audit_lines_are_written_at_every_level_unless_named() {
        assert_eq!(filter("error").unwrap().to_string().matches("bugle::audit=info").count(), 1);
        assert!(!filter("info,bugle::audit=off").unwrap().to_string().contains("bugle::audit=info"));
        assert!(filter("bugle=loud=5").is_err());
    }
}
