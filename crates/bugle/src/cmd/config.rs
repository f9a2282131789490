//! `bugle config`: the settings that a server would be started with, each with where it comes from, and all there are.

use std::io::Write as _;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Subcommand};
use serde_json::{Value, json};

use crate::output::{Column, Kind, OutputArgs};
use crate::settings::{self, ServeArgs, Settings, Sources};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the settings in force and where each comes from, without secrets
    ///
    /// Takes the settings of `bugle serve`, from the same flags, environment and file.
    Print(Box<PrintArgs>),
    /// Print all settings there are as a document (docs/config.md)
    Document,
}

/// Arguments of `bugle config print`.
#[derive(Debug, Args)]
pub(crate) struct PrintArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    serve: ServeArgs,
}

const COLUMNS: [Column; 3] = [
    Column("SETTING", "/name", Kind::Text),
    Column("SOURCE", "/source", Kind::Text),
    Column("VALUE", "/value", Kind::Text),
];

/// `bugle config`. `matches` are those of the last subcommand: they know flags from environment variables.
pub(crate) fn run(command: ConfigCommand, matches: &ArgMatches) -> Result<()> {
    let ConfigCommand::Print(args) = command else {
        return Ok(std::io::stdout().write_all(settings::document().as_bytes())?);
    };
    let is_flag = |setting: &str| {
        let said = |id: &str| {
            matches.try_contains_id(id).is_ok_and(|known| known)
                && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let id = setting.replace('-', "_");
        said(&id) || said(&format!("{id}_file"))
    };
    let origins = Sources::origins(args.serve.clone(), is_flag)?;
    let raw = Sources::gather(args.serve)?.raw;
    Settings::check(raw.clone())?;
    let shown: toml::Table = toml::from_str(&Settings::show(raw)?)?;
    let entries: Vec<Value> = shown
        .into_iter()
        .map(|(name, value)| {
            let source = origins.get(&name).map_or("default", String::as_str);
            json!({"name": name, "value": value, "source": source})
        })
        .collect();
    args.output.entries(&entries, &COLUMNS)
}
