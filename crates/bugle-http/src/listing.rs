//! What the routes that look at things have in common: pages, times and names in queries and bodies, ids in paths.

use std::sync::Arc;

use bugle_broker::{Refused, check_free, check_name, read_time};
use bugle_store::{LaneId, Page, Timestamp};
use bugle_wire::{Pagination, Text};
use uuid::Uuid;

use crate::convert::{At, optional};
use crate::query::Query;

/// `limit` and `offset`, cut to their bounds.
pub(crate) fn page(query: &Query<'_>, default: usize, max: usize) -> Result<Page, Refused> {
    let limit = query.number("limit")?.map_or(default, |n| usize::try_from(n.max(1)).unwrap_or(max).min(max));
    let offset = query.number("offset")?.map_or(0, |n| usize::try_from(n.max(0)).unwrap_or(usize::MAX));
    // Engines count in 64 bits with a sign.
    Ok(Page { limit, offset: offset.min(usize::MAX >> 1) })
}

/// The page as it is told.
pub(crate) fn pagination(page: Page) -> Pagination {
    Pagination { limit: page.limit, offset: page.offset }
}

/// A time in a query.
pub(crate) fn time(query: &Query<'_>, field: &str) -> Result<Option<Timestamp>, Refused> {
    query.text(field).map(|text| read_time(field, text)).transpose()
}

/// A name in a query.
pub(crate) fn name(query: &Query<'_>, field: &str) -> Result<Option<Arc<str>>, Refused> {
    query.text(field).map(|text| check_name(field, text).map(|()| text.into())).transpose()
}

/// A time in a body; empty counts as absent.
pub(crate) fn body_time(text: &Text<'_>, field: &str, at: At<'_>) -> Result<Option<Timestamp>, Refused> {
    let text = optional(text, field, at)?.filter(|text| !text.is_empty());
    text.map(|text| read_time(&at(field), text)).transpose()
}

/// A name in a body; empty counts as absent.
pub(crate) fn body_name(text: &Text<'_>, field: &str, at: At<'_>) -> Result<Option<Arc<str>>, Refused> {
    let text = optional(text, field, at)?.filter(|text| !text.is_empty());
    text.map(|text| check_name(&at(field), text).map(|()| text.into())).transpose()
}

/// The name of a queue to write to, in a body; empty counts as absent.
pub(crate) fn body_queue(text: &Text<'_>, at: At<'_>) -> Result<Option<Arc<str>>, Refused> {
    let queue = body_name(text, "queue", at)?;
    queue.as_ref().map_or(Ok(()), |queue| check_free(&at("queue"), queue))?;
    Ok(queue)
}

/// A `partitionId` in a path; what is none names no partition.
pub(crate) fn lane(text: &str) -> Option<LaneId> {
    Uuid::try_parse(text).ok().map(LaneId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_to_their_bounds_and_nonsense_is_refused_by_name() {
        for (raw, limit, offset) in [
            ("", 100, 0),
            ("limit=5&offset=7", 5, 7),
            ("limit=0&offset=-3", 1, 0),
            ("limit=-9", 1, 0),
            ("limit=99999999999999999999&offset=99999999999999999999", 1000, usize::MAX >> 1),
            ("limit=&offset=", 100, 0),
        ] {
            let query = Query::read(Some(raw)).unwrap();
            assert_eq!(page(&query, 100, 1000).unwrap(), Page { limit, offset }, "{raw}");
        }
        for (raw, complaint) in
            [("limit=x", "limit must be a whole number"), ("offset=1.5", "offset must be a whole number")]
        {
            let query = Query::read(Some(raw)).unwrap();
            assert_eq!(page(&query, 100, 1000).unwrap_err().to_string(), complaint);
        }
    }

    #[test]
    fn times_are_refused_by_name() {
        let query = Query::read(Some("from=2023-11-14T22:13:20Z&to=yesterday&none=")).unwrap();
        assert_eq!(time(&query, "from").unwrap(), Some(Timestamp(1_700_000_000_000_000)));
        assert_eq!(time(&query, "none").unwrap(), None);
        assert_eq!(time(&query, "to").unwrap_err().to_string(), "to must be an ISO 8601 timestamp");
    }
}
