//! What a browser says about where a request comes from, and whom it believes to talk to.
//!
//! A page of any site may send requests to a developer's machine. It cannot hide its origin, and a name that it made
//! resolve to this machine (DNS rebinding) stands in `Host`.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Request, header};

/// The names by which a client addressed the server; all of them are checked.
pub(crate) fn named_hosts<B>(request: &Request<B>) -> impl Iterator<Item = &str> {
    // A Host that is no text is nobody's name, and so never allowed.
    let headers = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
    request.uri().authority().map(Authority::as_str).into_iter().chain(headers)
}

/// Whether `named` is a name of this machine for itself, or one of `allowed`. The port does not matter.
pub(crate) fn local(named: &str, allowed: &[String]) -> bool {
    let Some((host, _)) = split(named) else { return false };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        || allowed.iter().any(|name| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(named))
}

/// Whether `origin` is on the list; `*` is everybody.
pub(crate) fn on_list(origin: &str, list: &[String]) -> bool {
    list.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
}

/// Whether a page of `origin` came from this very server, which the client calls `named`.
pub(crate) fn same(origin: &str, named: &str, tls: bool) -> bool {
    let (scheme, port) = if tls { ("https://", "443") } else { ("http://", "80") };
    let Some(from) = origin.strip_prefix(scheme) else { return false };
    let (Some((from, from_port)), Some((host, host_port))) = (split(from), split(named)) else {
        return false;
    };
    from.eq_ignore_ascii_case(host) && from_port.unwrap_or(port) == host_port.unwrap_or(port)
}

/// Whether a browser says that another site's page makes this request. Covers what carries no `Origin`, as images do.
pub(crate) fn foreign_fetch(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Host and port; `None` for what is neither.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.is_empty() || authority.contains(['@', '/', ' ']) {
        return None;
    }
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, rest) = authority.split_at(end);
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((host, None)),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
            Some((host, Some(port).filter(|p| !p.is_empty())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_own_names_and_those_allowed() {
        let allowed = ["queue.test".to_owned(), "other:7000".to_owned()];
        for (named, yes) in [
            ("localhost", true),
            ("LocalHost:6632", true),
            ("127.0.0.1", true),
            ("127.0.0.1:6632", true),
            ("127.9.9.9:1", true),
            ("[::1]", true),
            ("[::1]:6632", true),
            ("queue.test", true),
            ("Queue.Test:99", true),
            ("other:7000", true),
            ("other:7001", false),
            ("evil.example", false),
            ("evil.example:6632", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:6632", false),
            ("10.0.0.1", false),
            ("[::2]:1", false),
            ("[::1", false),
            ("localhost:80:80", false),
            ("evil@localhost", false),
            ("localhost/evil", false),
            ("", false),
        ] {
            assert_eq!(local(named, &allowed), yes, "{named:?}");
        }
    }

    #[test]
    fn an_origin_is_the_same_in_scheme_host_and_port() {
        for (origin, named, tls, yes) in [
            ("http://localhost:6632", "localhost:6632", false, true),
            ("http://LOCALHOST:6632", "localhost:6632", false, true),
            ("http://queue", "queue:80", false, true),
            ("http://queue:80", "queue", false, true),
            ("https://queue", "queue:443", true, true),
            ("http://[::1]:1", "[::1]:1", false, true),
            ("https://localhost:6632", "localhost:6632", false, false),
            ("http://localhost:6632", "localhost:6632", true, false),
            ("http://localhost:3000", "localhost:6632", false, false),
            ("http://localhost", "localhost:6632", false, false),
            ("http://evil.example", "localhost:6632", false, false),
            ("null", "localhost:6632", false, false),
            ("", "", false, false),
            ("file://", "", false, false),
            ("http://a@localhost", "localhost", false, false),
        ] {
            assert_eq!(same(origin, named, tls), yes, "{origin} {named} {tls}");
        }
    }

    #[test]
    fn the_list_is_exact_or_everybody() {
        let list = ["https://a.example".to_owned()];
        assert!(on_list("https://A.example", &list));
        assert!(!on_list("http://a.example", &list) && !on_list("https://a.example.evil", &list));
        assert!(on_list("null", &["*".to_owned()]) && !on_list("x", &[]));
    }
}
