//! The `bugle` command.
//!
//! Modules in reading order; each uses only those above it.

mod allocator;
mod descriptors;
mod engine;
mod logs;
mod migrate;
mod rekey;
mod reload;
mod serve;
mod settings;

mod doctor;

mod confirm;
mod connection;
mod ending;
mod moment;
mod output;
mod progress;

mod backup;
mod cmd;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use backup::BackupArgs;
use cmd::completions::{self, CompletionsArgs};
use cmd::config::{self, ConfigCommand};
use doctor::DoctorArgs;
use migrate::MigrateArgs;
use rekey::RekeyArgs;
use settings::ServeArgs;

/// Bugle: a partitioned message queue in one binary.
///
/// Producers push JSON messages into queues; inside a queue every entity has its own ordered
/// partition. Consumer groups read each partition through a cursor and a lease, and wait for
/// messages by long polling.
///
/// Start a server that keeps everything in ./bugle-data, and push a first message:
///
///   bugle serve
///   bugle push hello '{"to":"world"}'
///   bugle pop hello --ack
///
/// Commands that talk to a server find it by --server or BUGLE_SERVER.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment, propagate_version = true, after_help = ending::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    ///
    /// Every setting can be given as a flag, as an environment variable, or as a key of the same name in a TOML file
    /// (--config); the first of these wins. Durations read like 500ms, 30s, 5m, 12h, 7d; sizes like 64MiB or 65536;
    /// ranges like 2,8. Secrets can also be read from files (the *-file settings).
    Serve(Box<ServeArgs>),
    /// Bring the tables in PostgreSQL up to date without starting a server
    ///
    /// A server does the same when it starts. Takes the settings of `bugle serve`. Servers of the version before go on
    /// working; a migration that they could not go on with is refused while they are connected.
    Migrate(Box<MigrateArgs>),
    /// Encrypt everything that is stored anew with the first encryption key
    ///
    /// Takes the settings of `bugle serve`, with the new key in front of all old ones (better in a file or in the environment than as
    /// a flag). PostgreSQL: while servers work, which have the same keys. Embedded: while the server is stopped. May be
    /// interrupted and begun again.
    Rekey(Box<RekeyArgs>),
    /// Take a backup of a running server's files
    ///
    /// The server goes on serving. The backup holds everything that was answered before it began, as of one moment, and is a data
    /// directory that opens by itself; it is looked over (see doctor) before it gets its name. To restore, stop the server and
    /// put it in the place of the data directory. Messages kept in PostgreSQL are backed up by PostgreSQL's own means.
    Backup(BackupArgs),
    /// Look over a data directory or a schema, and change nothing
    ///
    /// Reads everything: checksums, the order of records, offsets, cursors, indexes, the spool; on PostgreSQL the schema, settings
    /// that weaken durability, lanes and cursors, long transactions, LISTEN. A data directory must not be in use. Exit status:
    /// 0 = nothing is wrong, 1 = something is damaged, 2 = it cannot be told.
    Doctor(DoctorArgs),
    #[command(flatten)]
    Client(cmd::Command),
    /// Print settings and where they come from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a script that completes commands in a shell
    ///
    /// For bash: `bugle completions bash > /etc/bash_completion.d/bugle`; for zsh into a file `_bugle` in the fpath; for fish into
    /// ~/.config/fish/completions/bugle.fish.
    Completions(CompletionsArgs),
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let command = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli.command,
        Err(error) => error.exit(),
    };
    // Where the doctor's own word for "it cannot be told" would be, an error is just that.
    let doctor = matches!(command, Command::Doctor(_));
    let done = match command {
        Command::Serve(args) => serve::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Migrate(args) => migrate::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Rekey(args) => rekey::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Backup(args) => backup::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Client(command) => cmd::run(command).map(|()| ExitCode::SUCCESS),
        Command::Config(command) => {
            config::run(command, last_subcommand(&matches)).map(|()| ExitCode::SUCCESS)
        }
        Command::Completions(args) => {
            completions::run(&args, &mut Cli::command()).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        tracing::debug!(?error, "giving up");
        let Some(status) = ending::status(&error) else { return ExitCode::SUCCESS };
        serve::complain(&format!("{error:#}"));
        if let Some(advice) = ending::advice(&error) {
            serve::complain(advice);
        }
        ExitCode::from(if doctor { ending::USAGE } else { status })
    })
}

fn last_subcommand(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| last_subcommand(inner))
}
