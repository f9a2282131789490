//! What each caller may have of the server: requests and messages in a second, and requests at a time.
//!
//! A caller is the subject of a token or the name of an API key; without credentials it is the address a connection comes
//! from (of IPv6 the first 64 bits, which one customer has). Nothing is kept of callers who used nothing lately, and there is a
//! bound on the number of others: beyond it all share one account.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;

use super::rate::{Bucket, Rate};
use crate::edge::{Edge, Limit};
use crate::error::Failure;

/// Most callers with accounts of their own.
const MOST: usize = 100_000;
/// Suggested pause when too many requests are in flight: nobody knows when one ends.
const IN_FLIGHT_RETRY: Duration = Duration::from_secs(1);

/// What one caller may have. Default: everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a second.
    pub requests: Option<Rate>,
    /// Messages pushed in a second.
    pub messages: Option<Rate>,
    /// Requests at a time, waiting pops included.
    pub in_flight: Option<u32>,
}

impl Limits {
    fn any(self) -> bool {
        self != Self::default()
    }
}

/// The limits of all callers. Default: none.
#[derive(Clone, Debug, Default)]
pub struct CallerLimits {
    /// Of those who are not named.
    pub everybody: Limits,
    /// Of these subjects of tokens and names of keys, in the place of the others.
    pub named: HashMap<String, Limits>,
}

impl CallerLimits {
    /// Whether anybody has any.
    pub(crate) fn any(&self) -> bool {
        self.everybody.any() || !self.named.is_empty()
    }

    fn of(&self, who: &Who) -> Limits {
        let named = match who {
            Who::Name(name) => std::str::from_utf8(name).ok().and_then(|name| self.named.get(name)),
            Who::Address(_) => None,
        };
        named.copied().unwrap_or(self.everybody)
    }
}

/// Whose account it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Name(Bytes),
    Address(IpAddr),
}

impl Who {
    pub(crate) fn new(subject: Option<&Bytes>, address: IpAddr) -> Self {
        match (subject, address.to_canonical()) {
            (Some(name), _) => Self::Name(name.clone()),
            (None, IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Self::Address(IpAddr::from([a, b, c, d, 0, 0, 0, 0]))
            }
            (None, address) => Self::Address(address),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{:?}", String::from_utf8_lossy(name)),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    requests: Bucket,
    messages: Bucket,
    in_flight: u32,
}

/// The accounts of all callers.
#[derive(Debug)]
pub(crate) struct Callers {
    begun: Instant,
    accounts: Mutex<Accounts>,
    edge: Edge,
}

#[derive(Debug, Default)]
struct Accounts {
    known: HashMap<Who, Account, foldhash::fast::RandomState>,
    /// Of all for whom there is no room.
    others: Account,
    /// Not before this is it worth looking again for accounts that can be forgotten.
    tidied: Option<Duration>,
}

impl Accounts {
    /// The account of somebody, at `now`, and whether it is the one of all others.
    fn of(&mut self, who: &Who, most: usize, now: Duration) -> (&mut Account, bool) {
        if !self.known.contains_key(who) {
            // A look at all of them is only worth it now and then.
            let due = self.tidied.is_none_or(|at| now.saturating_sub(at) >= Duration::from_secs(1));
            if self.known.len() >= most && due {
                self.tidied = Some(now);
                let used =
                    |a: &mut Account| a.in_flight > 0 || !a.requests.is_full(now) || !a.messages.is_full(now);
                self.known.retain(|_, account| used(account));
            }
            if self.known.len() >= most {
                return (&mut self.others, true);
            }
        }
        (self.known.entry(who.clone()).or_default(), false)
    }
}

impl Default for Callers {
    fn default() -> Self {
        Self::new(Edge::default())
    }
}

impl Callers {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { begun: Instant::now(), accounts: Mutex::default(), edge }
    }

    pub(crate) fn edge(&self) -> Edge {
        self.edge.clone()
    }

    /// Count a request in, unless it is one too many.
    pub(crate) fn enter(self: &Arc<Self>, limits: &CallerLimits, who: Who) -> Result<Pass, Failure> {
        let limits = limits.of(&who);
        if !limits.any() {
            return Ok(Pass::default());
        }
        let now = self.begun.elapsed();
        let mut accounts = self.lock();
        let (account, shared) = accounts.of(&who, MOST, now);
        if let Some(most) = limits.in_flight
            && account.in_flight >= most
        {
            let what = format!("{most} requests at a time for {who}");
            return Err(self.refuse(Limit::InFlight, IN_FLIGHT_RETRY, what));
        }
        if let Some(rate) = limits.requests
            && let Err(wait) = account.requests.take(rate, 1, now)
        {
            return Err(self.refuse(Limit::Requests, wait, format!("{rate} requests for {who}")));
        }
        account.in_flight += u32::from(limits.in_flight.is_some());
        drop(accounts);
        let allowance =
            limits.messages.map(|rate| Allowance { callers: self.clone(), who: who.clone(), rate });
        let inside = limits.in_flight.map(|_| Box::new(Inside { callers: self.clone(), who, shared }));
        Ok(Pass { allowance, inside })
    }

    fn refuse(&self, limit: Limit, wait: Duration, what: String) -> Failure {
        self.edge.limited(limit);
        Failure {
            code: Some("rate_limited"),
            retry_after: Some(wait),
            ..Failure::new(StatusCode::TOO_MANY_REQUESTS, format!("over the limit of {what}"))
        }
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that was counted in.
#[derive(Default)]
pub(crate) struct Pass {
    /// For the handler.
    pub(crate) allowance: Option<Allowance>,
    /// To be kept until the request ends.
    /// In a box, because thousands of pops wait at a time that mostly have none.
    pub(crate) inside: Option<Box<Inside>>,
}

/// A request is being answered; dropped when it ends, however it does.
pub(crate) struct Inside {
    callers: Arc<Callers>,
    who: Who,
    /// It is counted with all others: its caller may have an account of its own by now.
    shared: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut accounts = self.callers.lock();
        let account =
            if self.shared { Some(&mut accounts.others) } else { accounts.known.get_mut(&self.who) };
        if let Some(account) = account {
            account.in_flight = account.in_flight.saturating_sub(1);
        }
    }
}

/// The messages that a request may push.
#[derive(Clone)]
pub(crate) struct Allowance {
    callers: Arc<Callers>,
    who: Who,
    rate: Rate,
}

impl Allowance {
    /// Take so many messages, all or none.
    pub(crate) fn take(&self, count: usize) -> Result<(), Failure> {
        let now = self.callers.begun.elapsed();
        let taken =
            self.callers.lock().of(&self.who, MOST, now).0.messages.take(self.rate, count as u64, now);
        let Self { rate, who, .. } = self;
        taken.map_err(|wait| self.callers.refuse(Limit::Messages, wait, format!("{rate} messages for {who}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn address(text: &str) -> Who {
        Who::new(None, text.parse().unwrap())
    }

    fn limits(requests: &str, messages: &str, in_flight: Option<u32>) -> CallerLimits {
        let everybody =
            Limits { requests: requests.parse().ok(), messages: messages.parse().ok(), in_flight };
        let named = HashMap::from([("vip".to_owned(), Limits::default())]);
        CallerLimits { everybody, named }
    }

    #[test]
    fn callers_are_told_apart_by_name_or_by_address() {
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        let name = Who::new(Some(&Bytes::from_static(b"shop")), "10.0.0.1".parse().unwrap());
        assert_eq!(name.to_string(), "\"shop\"");
    }

    #[test]
    fn everybody_has_an_account_and_named_ones_have_limits_of_their_own() {
        let (callers, limits) = (Arc::new(Callers::default()), limits("1/2", "", None));
        for who in ["10.0.0.1", "10.0.0.2"] {
            assert!(callers.enter(&limits, address(who)).is_ok());
            assert!(callers.enter(&limits, address(who)).is_ok());
            let refused = callers.enter(&limits, address(who)).err().unwrap();
            assert_eq!((refused.status.as_u16(), refused.code), (429, Some("rate_limited")));
            assert_eq!(refused.error, format!("over the limit of 1/s (burst 2) requests for {who}"));
            assert!(refused.retry_after.is_some_and(|wait| wait <= S));
        }
        let vip = Who::Name(Bytes::from_static(b"vip"));
        assert!((0..100).all(|_| callers.enter(&limits, vip.clone()).is_ok()));
        assert_eq!(callers.edge.read().limited[Limit::Requests as usize], 2);
    }

    #[test]
    fn requests_at_a_time_are_given_back_when_they_end() {
        let (callers, limits) = (Arc::new(Callers::default()), limits("", "", Some(2)));
        let enter = || callers.enter(&limits, address("10.0.0.1"));
        let (first, _second) = (enter().unwrap(), enter().unwrap());
        assert_eq!(enter().err().unwrap().error, "over the limit of 2 requests at a time for 10.0.0.1");
        drop(first);
        assert!(enter().is_ok());
    }

    #[test]
    fn messages_are_taken_all_or_none() {
        let (callers, limits) = (Arc::new(Callers::default()), limits("", "1/10", None));
        let allowance = callers.enter(&limits, address("10.0.0.1")).unwrap().allowance.unwrap();
        assert!(allowance.take(6).is_ok());
        assert_eq!(
            allowance.take(6).unwrap_err().error,
            "over the limit of 1/s (burst 10) messages for 10.0.0.1"
        );
        assert!(allowance.take(4).is_ok(), "the six that were refused were not counted");
    }

    #[test]
    fn accounts_are_bounded_and_those_not_in_use_make_room() {
        let (mut accounts, rate) = (Accounts::default(), "1".parse().unwrap());
        let who = |n: u8| Who::Address(IpAddr::from([10, 0, 0, n]));
        for n in 0..3 {
            accounts.of(&who(n), 3, Duration::ZERO).0.requests.take(rate, 1, Duration::ZERO).unwrap();
        }
        let (others, shared) = accounts.of(&who(3), 3, Duration::ZERO);
        assert!(shared);
        others.requests.take(rate, 1, Duration::ZERO).unwrap();
        assert_eq!(accounts.known.len(), 3);
        assert!(
            accounts.of(&who(4), 3, Duration::ZERO).0.requests.take(rate, 1, Duration::ZERO).is_err(),
            "shared"
        );
        accounts.of(&who(0), 3, 2 * S).0.in_flight = 1;
        accounts.of(&who(5), 3, 2 * S).0.requests.take(rate, 1, 2 * S).unwrap();
        assert_eq!(accounts.known.len(), 2, "the one in use and the new one");
    }
}
