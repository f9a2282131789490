//! The real binary over real sockets, on every engine. One test binary, so that it is linked once.

#[cfg(test)]
#[macro_use]
mod common;

#[cfg(test)]
mod auth;
#[cfg(test)]
mod backup;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod basics;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod bytes;
#[cfg(test)]
mod clearing;
#[cfg(test)]
mod client_admin;
#[cfg(test)]
mod client_consumers;
#[cfg(test)]
mod client_examples;
#[cfg(test)]
mod client_pushes;
#[cfg(test)]
mod client_servers;
#[cfg(test)]
mod command;
#[cfg(test)]
mod compression;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod dead_letters;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod encryption;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod guides;
#[cfg(test)]
mod history;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod inbox_guide;
#[cfg(test)]
mod lanes;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod maintenance;
#[cfg(test)]
mod maintenance_servers;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod numbers;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod pops;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod rekey;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod stats;
#[cfg(test)]
mod stats_groups;
#[cfg(test)]
mod stats_walk;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod trace_context;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod waking;
#[cfg(test)]
mod waking_batches;
#[cfg(test)]
mod waking_clients;
#[cfg(test)]
mod waking_faults;
#[cfg(test)]
mod waking_numbers;
#[cfg(test)]
mod waking_outages;
#[cfg(test)]
mod waking_races;
#[cfg(test)]
mod waking_servers;
#[cfg(test)]
mod waking_timers;
#[cfg(test)]
mod watching;
