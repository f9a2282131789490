//! The commands that are clients of a server, one file each. What they need to know they ask by the public API.

mod ack;
mod bench;
pub(crate) mod completions;
pub(crate) mod config;
mod consume;
mod copy;
mod dlq;
mod group;
mod groups;
mod messages;
mod move_queue;
mod place;
mod pop;
mod push;
mod queue;
mod queues;
mod tail;
mod top;
mod trace;

use anyhow::{Context, Result};
use clap::Subcommand;

/// See the module.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Push messages: an argument, a file or standard input, one JSON document per line
    ///
    /// Lines are pushed in their order and in batches; a slow input is pushed as it comes. With --transaction-id each line gets an
    /// id of its own (ID:line), so that pushing the same file again stores nothing twice within the queue's dedupe window.
    Push(push::PushArgs),
    /// Take messages from a queue and print them
    ///
    /// They stay leased, and come again when the lease ends, unless they are acknowledged: by --ack when they are printed, or
    /// by `bugle ack`. Exit status 6 if there is nothing.
    Pop(pop::PopArgs),
    /// Print messages as they are pushed, without consuming them
    ///
    /// Reads the list of messages again and again, so it leaves no consumer group, lease or anything else on the server, however
    /// it ends.
    Tail(tail::TailArgs),
    /// Run a program for each message
    ///
    /// The payload is the program's standard input; BUGLE_QUEUE, BUGLE_PARTITION, BUGLE_PARTITION_ID, BUGLE_TRANSACTION_ID,
    /// BUGLE_MESSAGE_ID, BUGLE_GROUP, BUGLE_ATTEMPT and BUGLE_CREATED_AT tell the rest. Its exit status decides: 0 = done,
    /// 75 = give it back without blame, 65 = make it a dead letter now, anything else = failed, so that it comes again until the queue's
    /// retryLimit makes it a dead letter. The lease is renewed while the program runs. On SIGTERM or SIGINT nothing new is begun and
    /// what runs is finished.
    Consume(consume::ConsumeArgs),
    /// Say what became of a message that was popped
    Ack(ack::AckArgs),
    /// List queues
    Queues(queues::QueuesArgs),
    /// Configure, describe, clear or delete a queue
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// List consumer groups, with how far behind they are
    Groups(groups::GroupsArgs),
    /// Describe, move or delete a consumer group
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// List messages, newest first, without consuming them
    Messages(messages::MessagesArgs),
    /// List, show or redrive dead letters
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Show what happened to a message, or to all messages with a trace name
    Trace(trace::TraceArgs),
    /// Watch a server: rates, lag, waiters, errors
    ///
    /// LAG is what the group that is furthest behind has not consumed, BEHIND the age of the oldest of it; a queue without groups has
    /// none. Rates are of the server that is asked.
    Top(top::TopArgs),
    /// Measure a server: throughput, latency of waking, many waiters
    ///
    /// The same program as bugle-bench of the source tree. Prints one JSON line, or a table, and fails if what was popped is not
    /// what was pushed.
    Bench(bench::BenchArgs),
    /// Copy queues from one server of this protocol to another
    ///
    /// Also the way off an older server: only calls of the protocol are used. Messages keep their partitions, their order and
    /// their transaction ids; options and the positions of consumer groups are carried as far as the protocol tells them. What is done
    /// is counted. It may be interrupted: the same command goes on where it was. Producers should be stopped or moved before the end.
    Copy(copy::CopyArgs),
    /// Move a queue to another server or engine
    ///
    /// The queue is copied as by `bugle copy`, counted, and stays where it was unless --delete-source is given. A data directory or a
    /// postgres:// address is opened by a server that runs meanwhile. Stop producers of the queue first.
    Move(move_queue::MoveArgs),
}

/// Run a command to its end.
pub(crate) fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let done = runtime.block_on(async {
        match command {
            Command::Push(args) => Box::pin(push::run(args)).await,
            Command::Pop(args) => Box::pin(pop::run(args)).await,
            Command::Tail(args) => Box::pin(tail::run(args)).await,
            Command::Consume(args) => Box::pin(consume::run(args)).await,
            Command::Ack(args) => Box::pin(ack::run(args)).await,
            Command::Queues(args) => Box::pin(queues::run(args)).await,
            Command::Queue(command) => Box::pin(queue::run(command)).await,
            Command::Groups(args) => Box::pin(groups::run(args)).await,
            Command::Group(command) => Box::pin(group::run(command)).await,
            Command::Messages(args) => Box::pin(messages::run(args)).await,
            Command::Dlq(command) => Box::pin(dlq::run(command)).await,
            Command::Trace(args) => Box::pin(trace::run(args)).await,
            Command::Top(args) => Box::pin(top::run(args)).await,
            Command::Bench(args) => Box::pin(bench::run(args)).await,
            Command::Copy(args) => Box::pin(copy::run(args)).await,
            Command::Move(args) => Box::pin(move_queue::run(args)).await,
        }
    });
    // A thread that waits for standard input must not keep the command from ending.
    runtime.shutdown_background();
    done
}
