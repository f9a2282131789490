//! The HTTP layer over real sockets. One binary, so that it is linked once.

#[cfg(test)]
mod auth;
#[cfg(test)]
mod client;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod serve;
