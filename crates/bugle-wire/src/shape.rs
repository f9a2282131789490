//! Schemas of values that have no Rust type of their own, for the description of the API. Fields of requests are read
//! leniently and checked later; what the checks let through is said here, and fields refer to it by `schemars(with)`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::field::{Field, Object, Raw};
use crate::payload::Payload;
use crate::time::Millis;

/// Longest name in bytes. The schema can only count characters.
const NAME_MAX: usize = 255;
/// No NUL.
const NO_NUL: &str = r"^[^\u0000]*$";

/// A name of something.
pub(crate) struct Name;
/// A name that may be left out; empty is left out.
pub(crate) struct MaybeName;
/// A name that may be empty.
pub(crate) struct EmptyName;
/// A name, or a list of them.
pub(crate) struct Names;
/// A time.
pub(crate) struct Time;
/// A time that may be left out; empty is left out.
pub(crate) struct MaybeTime;
/// A UUID that may be left out; empty is left out.
pub(crate) struct MaybeId;
/// A W3C `traceparent` in an answer.
pub(crate) struct Traceparent;
/// A W3C `traceparent` that may be left out; empty is left out.
pub(crate) struct MaybeTraceparent;
/// Any JSON but `null`.
pub(crate) struct Something;
/// What says nothing.
pub(crate) struct Nothing;
/// Seconds of a lease; what is no whole number is left out.
pub(crate) struct Seconds;
/// Where a redrive stopped.
pub(crate) struct RedriveCursor;
/// A lease id in an answer: a UUID, or empty where there is no lease.
pub(crate) struct LeaseText;

macro_rules! shapes {
    ($($shape:ty: $schema:tt;)*) => {$(
        impl JsonSchema for $shape {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($shape).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

shapes! {
    Name: {"type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": NO_NUL};
    MaybeName: {"type": ["string", "null"], "maxLength": NAME_MAX, "pattern": NO_NUL};
    EmptyName: {"type": "string", "maxLength": NAME_MAX, "pattern": NO_NUL};
    Names: {"anyOf": [
        {"type": "null"},
        {"type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": NO_NUL},
        {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": NO_NUL}},
    ]};
    Time: {"type": "string", "format": "date-time"};
    MaybeTime: {"anyOf": [{"type": "string", "format": "date-time"}, {"const": ""}, {"type": "null"}]};
    MaybeId: {"anyOf": [{"type": "string", "format": "uuid"}, {"const": ""}, {"type": "null"}]};
    Traceparent: {"type": "string", "pattern": r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"};
    MaybeTraceparent: {"type": ["string", "null"], "pattern": r"^([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?)?$"};
    Something: {"not": {"type": "null"}};
    Nothing: {"enum": [null, [], {}]};
    Seconds: {"anyOf": [{"type": "integer", "minimum": 1}, {"not": {"type": "integer"}}], "default": 60};
    RedriveCursor: {"type": ["string", "null"], "pattern": r"^(-?[0-9]{1,18}\.-?[0-9]{1,18}\.[0-9a-f]{32})?$"};
    LeaseText: {"anyOf": [{"type": "string", "format": "uuid"}, {"const": ""}]};
    Raw<'_>: {};
    Payload<'_>: {};
    Millis: {"type": "string", "format": "date-time"};
    crate::time::Seconds: {"type": "string", "format": "date-time"};
}

/// A field that may be left out: `null` is that.
impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        <Option<T>>::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Option<T>>::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Object<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}
