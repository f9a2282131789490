//! The sections that a database tells of itself. They are made by a query of the engine (`sql/queries/internals.sql`) and
//! handed on as they are, so they have no types; sections that are objects are empty on an engine without a database.

use serde_json::{Map, Value, json};

/// The whole answer.
pub(super) fn schema() -> Value {
    let cache = || whole(&["blocksRead", "blocksHit"], &["hitRatio"]);
    let summary = json!({
        "type": "object",
        "properties": { "tables": section(cache()), "indexes": section(cache()) },
        "required": ["tables", "indexes"],
    });
    let sections = [
        ("timestamp", json!({ "type": "string", "format": "date-time" })),
        ("database", section(database())),
        ("databaseCache", section(cache())),
        ("tableCache", rows(&["table"], cache())),
        (
            "indexCache",
            rows(&["table", "index"], whole(&["scans", "blocksRead", "blocksHit"], &["hitRatio"])),
        ),
        ("cacheSummary", summary),
        ("deadTuples", rows(&["table"], whole(&["live", "dead"], &["deadPct"]))),
        ("hotUpdates", rows(&["table"], whole(&["updates", "hotUpdates"], &["hotPct"]))),
        ("activeQueries", rows(&["application", "state", "query"], query())),
        ("autovacuumStatus", rows(&["table"], vacuum())),
        ("bufferConfig", json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        ("bufferUsage", json!({ "type": "object", "maxProperties": 0 })),
        ("tableSizes", rows(&["table"], whole(&["totalBytes", "tableBytes", "indexBytes"], &[]))),
    ];
    let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        sections.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

fn database() -> Map<String, Value> {
    let mut fields = whole(
        &["sizeBytes", "connections", "maxConnections", "commits", "rollbacks", "deadlocks", "tempBytes"],
        &[],
    );
    fields.extend(["name", "version"].map(|name| (name.to_owned(), json!({ "type": "string" }))));
    fields
}

fn query() -> Map<String, Value> {
    let mut fields = whole(&["pid"], &[]);
    fields.insert("waitEvent".into(), json!({ "type": ["string", "null"] }));
    fields.insert("durationMs".into(), json!({ "type": ["number", "null"] }));
    fields
}

fn vacuum() -> Map<String, Value> {
    let mut fields = whole(&["vacuumCount", "autovacuumCount"], &[]);
    let time = json!({ "type": ["string", "null"], "format": "date-time" });
    let times = ["lastVacuum", "lastAutovacuum", "lastAutoanalyze"];
    fields.extend(times.map(|name| (name.to_owned(), time.clone())));
    fields
}

/// Whole numbers, and shares in percent.
fn whole(counts: &[&str], shares: &[&str]) -> Map<String, Value> {
    let count = json!({ "type": "integer", "minimum": 0 });
    let share = json!({ "type": "number", "minimum": 0, "maximum": 100 });
    let counts = counts.iter().map(|name| ((*name).to_owned(), count.clone()));
    counts.chain(shares.iter().map(|name| ((*name).to_owned(), share.clone()))).collect()
}

/// An object with all of these fields, or with none.
fn section(fields: Map<String, Value>) -> Value {
    let names: Vec<String> = fields.keys().cloned().collect();
    json!({
        "type": "object",
        "properties": fields,
        "anyOf": [{ "required": names }, { "maxProperties": 0 }],
    })
}

/// A list of objects with these texts and fields.
fn rows(texts: &[&str], mut fields: Map<String, Value>) -> Value {
    fields.extend(texts.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))));
    let names: Vec<String> = fields.keys().cloned().collect();
    json!({ "type": "array", "items": { "type": "object", "properties": fields, "required": names } })
}
