//! The example program dies, and the database dies, at every point of an order: the order is completed as if nothing had
//! happened.

#![allow(clippy::unwrap_used)]

mod program;
mod story;

use std::collections::HashSet;

use bugle_pg::testdb::{Stop, fresh_schema, private_server, server};

use crate::program::{Place, Program};
use crate::story::{ORDER, PAYMENT};

const WAITING: &str = "status: waiting for the payment";

async fn place() -> Place {
    Place { address: server().await, schema: fresh_schema() }
}

fn run(place: &Place, parcels: &str) -> Program {
    Program::start(place, &["run", ORDER, parcels])
}

async fn pay(place: &Place) {
    Program::start(place, &["pay", ORDER, PAYMENT]).end().await;
}

/// `kill -9` when the program prints this; then a second life to the end.
async fn killed_at(point: &str, paid: bool) {
    let place = place().await;
    let mut first = run(&place, "2");
    if paid {
        first.until(WAITING).await;
        pay(&place).await;
    }
    first.until(point).await;
    let mut lines = first.kill().await;
    let mut second = run(&place, "2");
    if !paid {
        second.until(WAITING).await;
        pay(&place).await;
    }
    lines.extend(second.end().await);
    story::check(&place, 2, &lines).await;
}

macro_rules! killed_at {
    ($($name:ident: $point:expr, paid: $paid:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            killed_at($point, $paid).await;
        })*
    };
}

killed_at! {
    killed_when_just_started: "started", paid: false;
    killed_in_the_first_activity: "begin reserve", paid: false;
    killed_while_waiting_for_an_event: WAITING, paid: false;
    killed_when_an_activity_was_done: "did pack 1", paid: true;
    killed_in_an_activity_of_a_child: "begin label L1", paid: true;
    killed_while_a_timer_runs: "did label L1", paid: true;
    killed_in_a_later_execution: "status: parcel 2", paid: true;
    killed_in_the_last_activity: "begin thank", paid: true;
}

/// Each life ends when it says something new.
#[tokio::test]
async fn killed_after_every_step() {
    let place = place().await;
    let (mut lines, mut heard) = (Vec::new(), HashSet::new());
    loop {
        let mut life = run(&place, "1");
        let fresh = loop {
            let Some(line) = life.line().await else { break None };
            if heard.insert(line.clone()) {
                break Some(line);
            }
        };
        if fresh.as_deref() == Some(WAITING) {
            pay(&place).await;
        }
        lines.extend(life.kill().await);
        if fresh.is_none_or(|line| line.starts_with("completed")) {
            break;
        }
    }
    story::check(&place, 1, &lines).await;
    assert!(heard.contains("resumed order-1"));
}

/// The database goes and comes back at each of these points of one order.
async fn restarted(stop: Stop) {
    let server = private_server().await;
    let place = Place { address: server.address().to_owned(), schema: fresh_schema() };
    let mut life = run(&place, "2");
    for point in ["started", "begin reserve", "did reserve", WAITING] {
        life.until(point).await;
        server.restart(stop).await;
    }
    pay(&place).await;
    for point in ["begin pack 1", "did label L1", "begin hand over L1", "begin pack 2", "begin thank"] {
        life.until(point).await;
        server.restart(stop).await;
    }
    let lines = life.end().await;
    story::check(&place, 2, &lines).await;
}

#[tokio::test]
async fn the_database_is_restarted_in_good_order() {
    restarted(Stop::Fast).await;
}

#[tokio::test]
async fn the_database_crashes() {
    restarted(Stop::Immediate).await;
}
