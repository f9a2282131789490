//! `/api/v1/events`: server-sent events of the topics asked for.

mod ticker;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bugle_broker::Refused;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::aside::all_aside;
use crate::error::Failure;
use crate::hub::{RECENT, Topic};
use crate::query::Query;

/// How long one may listen before it must ask again, and show its credentials.
const LONGEST: Duration = Duration::from_secs(600);

/// The type of such answers.
pub(crate) const KIND: &str = "text/event-stream";

pub(crate) async fn events(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query.as_deref())?;
    let (topics, recent) = (topics(&query)?, recent(&query)?);
    let too_many = || Refused::Busy {
        reason: "too many listen to events of this server".into(),
        retry_after: Duration::from_secs(10),
    };
    let (mut listener, begin) = app.hub.join(topics, recent).ok_or_else(too_many)?;
    if begin {
        tokio::spawn(all_aside(ticker::tick(app.clone())));
    }
    let mut first = vec![Bytes::from_static(b"retry: 2000\n\n")];
    first.append(&mut listener.before);
    first.reverse();
    let end = Instant::now() + LONGEST;
    let draining = app.config.draining.clone();
    let events = stream::unfold((listener, first), move |(mut listener, mut first)| {
        let draining = draining.clone();
        async move {
            let event = match first.pop() {
                Some(event) => Some(event),
                None => tokio::select! {
                    event = timeout_at(end, listener.next()) => event.ok().flatten(),
                    () = draining.cancelled() => None,
                },
            };
            event.map(|event| (Ok::<_, Infallible>(event), (listener, first)))
        }
    });
    let mut response = Response::new(Body::from_stream(events));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Events of each topic from before that are asked for; the last one if that is not said.
fn recent(query: &Query<'_>) -> Result<usize, Refused> {
    let wanted = query.strict_number("recent")?.unwrap_or(1);
    let told = usize::try_from(wanted).ok().filter(|wanted| *wanted <= RECENT);
    told.ok_or_else(|| Refused::Invalid(format!("recent must be between 0 and {RECENT}")))
}

/// The topics asked for, each once; `server` if none are.
fn topics(query: &Query<'_>) -> Result<Vec<Topic>, Refused> {
    let mut topics = Vec::new();
    for name in query.text("topics").unwrap_or("server").split(',') {
        let topic = Topic::named(name.trim()).ok_or_else(|| {
            let known = Topic::ALL.map(|(_, name)| name).join(", ");
            Refused::Invalid(format!("topics must be a list of {known}, separated by commas"))
        })?;
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    Ok(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_a_list_of_known_names() {
        let read = |raw| topics(&Query::read(Some(raw)).unwrap());
        assert_eq!(read("").unwrap(), [Topic::Server]);
        assert_eq!(read("topics=queues,%20totals,queues").unwrap(), [Topic::Queues, Topic::Totals]);
        let events = |raw| recent(&Query::read(Some(raw)).unwrap());
        assert_eq!((events("").unwrap(), events("recent=120").unwrap()), (1, 120));
        assert!(["recent=121", "recent=-1"].iter().all(|raw| events(raw).is_err()));
        let error = read("topics=server,weather").unwrap_err().to_string();
        assert!(error.starts_with("topics must be a list of server, queues"), "{error}");
    }
}
