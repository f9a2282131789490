//! What the dashboard must do, in the order it is tried: an empty server, one with traffic, every action, very many queues.

pub(crate) mod cluster;
pub(crate) mod login;

mod empty;
mod groups;
mod letters;
mod many;
mod messages;
mod pages;
mod queue;

use anyhow::Result;

use crate::page::Page;
use crate::server::Api;

type Check = fn(&mut Page, &Api) -> Result<()>;

/// All of them. Each leaves the server as the next one finds it.
pub(crate) const ALL: [(&str, Check); 10] = [
    ("the first page is small and quick, and teaches", empty::first_page),
    ("empty pages teach", empty::pages_teach),
    ("keys lead everywhere, and the theme changes", empty::keys),
    ("pages show traffic", pages::with_traffic),
    ("a queue is pushed to, set, paused, cleared and deleted", queue::everything),
    ("messages are found, looked at, given up and retried", messages::browse),
    ("dead letters are mended, redriven and deleted", letters::redrive),
    ("groups are sent elsewhere and deleted", groups::seek),
    ("pushes and pops are switched for all", pages::maintenance),
    ("very many queues are found and sorted", many::ten_thousand),
];
