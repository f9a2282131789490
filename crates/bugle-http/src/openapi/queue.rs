//! Queues as a whole.

use bugle_broker::option_bounds;
use bugle_store::QueueOptions;
use bugle_wire::{ClearAnswer, ConfigureAnswer, ConfigureRequest, DeleteQueueAnswer};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::QUEUES;
use super::api::Api;
use super::parameter::{name, path_id};

pub(super) fn describe(api: &mut Api) {
    api.post("/api/v1/configure", "configure")
        .says(QUEUES, "Create or change a queue")
        .about(
            "Options may stand in `options` or beside it; those in `options` win. Numbers out of range are cut to it, and the answer \
             tells what holds now. `null` restores a default. Options nobody knows are listed as `ignored`.",
        )
        .body_as::<ConfigureRequest<'_>>(
            true,
            json!({ "queue": "orders", "options": { "leaseTime": 60, "retryLimit": 5 } }),
            |known| {
                let at_top = json!({ "type": "object", "properties": sent_options() });
                let nested = json!({ "properties": { "options": { "type": ["object", "null"], "properties": sent_options() } } });
                json!({ "allOf": [known, at_top, nested] })
            },
        )
        .answers::<ConfigureAnswer<'_, Options>>(200, "The queue as it is now.")
        .bounded()
        .stored();
    api.delete("/api/v1/resources/queues/{queue}", "deleteQueue")
        .says(QUEUES, "Delete a queue")
        .about("With all its messages, groups, dead letters and traces. A queue of the same name that is made later is another one.")
        .takes(path_id("queue", "The queue."))
        .answers::<DeleteQueueAnswer<'_>>(200, "There is no such queue now.")
        .bounded()
        .stored();
    api.delete("/api/v1/queues/{queue}/clear", "clearQueue")
        .says(QUEUES, "Remove all messages of a queue")
        .about("Or of one of its partitions. The queue, its partitions and its groups stay; what is in a spool is not touched.")
        .takes(path_id("queue", "The queue."))
        .takes(name("partition", "Only this partition."))
        .answers::<ClearAnswer<'_>>(200, "They are gone.")
        .refuses(404, "There is no such queue or partition.")
        .stored();
}

/// The options of a queue, with the bounds that the broker keeps them in.
struct Options;

impl JsonSchema for Options {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "QueueOptions".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = QueueOptions::json_schema(generator);
        let (least, greatest) = (json!(option_bounds().0), json!(option_bounds().1));
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        let Some(properties) = properties else { return schema };
        for (name, property) in properties.iter_mut().filter(|(name, _)| least[name.as_str()].is_number()) {
            property["minimum"] = least[name].clone();
            property["maximum"] = greatest[name].clone();
        }
        // The type has defaults for what it may lack in a store; answers lack nothing.
        let all: Value = properties.keys().cloned().collect();
        schema.insert("required".into(), all);
        schema
    }
}

/// The options as they may be sent: any whole number is cut to the bounds, `null` is the default.
fn sent_options() -> Map<String, Value> {
    let generator = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true).into_generator();
    let schema = generator.into_root_schema_for::<QueueOptions>().to_value();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let relaxed = properties.into_iter().map(|(name, mut property)| {
        if let Some(kept) = property.as_object_mut() {
            for strict in ["minimum", "format", "default"] {
                kept.remove(strict);
            }
            let kind = kept.get("type").cloned().unwrap_or_default();
            kept.insert("type".into(), json!([kind, "null"]));
        }
        (name, property)
    });
    relaxed.collect()
}
