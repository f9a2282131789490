//! The dashboard: a page at `/` for browsers, and its files. It is a client of the API as any other.
//!
//! The files come with the program (`build.rs`). Whoever does not ask `/` for a page gets the greeting instead.

use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::routes::{fallback, health};

include!(concat!(env!("OUT_DIR"), "/dashboard_files.rs"));

const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/index.html"));

/// Nothing but what this server sends, and no script but files of it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `/`: the page for browsers, the greeting for everybody else.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    let mut response = if wants_page(&headers) { index(&headers) } else { health::greeting().await };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// `/assets/…`: a file of the page. Those of another version of the program are not here any more.
pub(crate) async fn file(path: Result<Path<(String, String)>, PathRejection>) -> Response {
    let found = path.ok().filter(|Path((version, _))| version == VERSION);
    let found = found.and_then(|Path((_, name))| FILES.iter().find(|(known, ..)| *known == name));
    let Some((_, kind, bytes)) = found else { return fallback::no_such_route().await.into_response() };
    let headers = [(CONTENT_TYPE, *kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    with(Response::new(Body::from(*bytes)), &headers)
}

fn index(headers: &HeaderMap) -> Response {
    let tag = tag_of_page();
    let same = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = Response::new(if same { Body::empty() } else { Body::from(PAGE) });
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    let kind = (CONTENT_TYPE, "text/html; charset=utf-8");
    let headers = [kind, (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, POLICY)];
    with(response, &headers)
}

/// The page changes with any of its files, since it names their version.
fn tag_of_page() -> String {
    format!("\"{VERSION}\"")
}

fn with(mut response: Response, headers: &[(HeaderName, &'static str)]) -> Response {
    let always = [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (REFERRER_POLICY, "no-referrer")];
    for (name, value) in headers.iter().chain(&always) {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Browsers name the type of pages; programs that take anything do not.
fn wants_page(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let kind = range.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/html") && !range.contains("q=0.0") && !range.ends_with("q=0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))])
    }

    #[test]
    fn browsers_get_a_page_and_programs_a_greeting() {
        for (accept, page) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json, text/html;q=0.5", true),
            ("*/*", false),
            ("application/json", false),
            ("text/*", false),
            ("application/json, text/html;q=0", false),
            ("", false),
        ] {
            assert_eq!(wants_page(&accepting(accept)), page, "{accept:?}");
        }
        assert!(!wants_page(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_page_that_is_known_is_not_sent_again() {
        let browser = || accepting("text/html");
        let first = page(browser()).await;
        let tag = first.headers()[ETAG].clone();
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[CONTENT_SECURITY_POLICY], POLICY);
        let mut again = browser();
        again.insert(IF_NONE_MATCH, tag);
        assert_eq!(page(again).await.status(), StatusCode::NOT_MODIFIED);
        let mut other = browser();
        other.insert(IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(page(other).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn every_file_the_page_names_is_there_under_its_version_alone() {
        let get = |version: &str, name: &str| file(Ok(Path((version.to_owned(), name.to_owned()))));
        let prefix = format!("/assets/{VERSION}/");
        let named: Vec<&str> =
            PAGE.split('"').filter_map(|part| part.strip_prefix(prefix.as_str())).collect();
        assert!(named.len() > 3, "{named:?}");
        for name in named {
            assert_eq!(get(VERSION, name).await.status(), StatusCode::OK, "{name}");
        }
        assert_eq!(get("0", "app.js").await.status(), StatusCode::NOT_FOUND);
        assert_eq!(get(VERSION, "../Cargo.toml").await.status(), StatusCode::NOT_FOUND);
        assert_eq!(get(VERSION, "index.html").await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn files_ask_nobody_else_for_anything() {
        for (name, _, bytes) in FILES.iter().filter(|(name, ..)| !name.ends_with(".woff2")) {
            let text = String::from_utf8_lossy(bytes);
            // Names of XML dialects look like addresses; nobody asks there.
            let text =
                text.replace("http://www.w3.org/", "").replace("https://github.com/leeoniya/uPlot", "");
            assert!(!text.contains("https://") && !text.contains("http://"), "{name}");
        }
    }
}
