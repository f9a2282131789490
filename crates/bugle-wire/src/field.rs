//! Fields that are read without insisting on their type.
//!
//! Serde alone stops at the first wrong type and cannot say which item it was in. These types let the whole request
//! be read in one pass, without an intermediate tree, and leave the complaint to whoever knows the field's path.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A field of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// Not there, or `null`.
    #[default]
    Absent,
    /// There, and of the right type.
    Is(T),
    /// There, but of another type.
    Wrong,
}

/// A text field.
pub type Text<'a> = Field<Cow<'a, str>>;

/// A field that holds a list of objects.
pub type List<T> = Field<Vec<Field<Object<T>>>>;

/// A JSON object read as `T`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

/// A value carried as the bytes it was sent in; `None` = not there. Unlike elsewhere, `null` is a value here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw<'a>(pub Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(Some(raw)))
    }
}

/// What a type can be read from. Everything it does not mention is [`Field::Wrong`].
trait Shape<'de>: Sized {
    fn text(_: Cow<'de, str>) -> Field<Self> {
        Field::Wrong
    }
    fn whole(_: i64) -> Field<Self> {
        Field::Wrong
    }
    fn truth(_: bool) -> Field<Self> {
        Field::Wrong
    }
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Field<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Wrong)
    }
    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Field<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Wrong)
    }
}

impl<'de: 'a, 'a> Shape<'de> for Cow<'a, str> {
    fn text(text: Cow<'de, str>) -> Field<Self> {
        Field::Is(text)
    }
}

impl Shape<'_> for i64 {
    fn whole(number: i64) -> Field<Self> {
        Field::Is(number)
    }
}

impl Shape<'_> for bool {
    fn truth(truth: bool) -> Field<Self> {
        Field::Is(truth)
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Vec<T> {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Field<Self>, A::Error> {
        let mut all = Self::new();
        while let Some(next) = list.next_element()? {
            all.push(next);
        }
        Ok(Field::Is(all))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Object<T> {
    fn object<A: MapAccess<'de>>(object: A) -> Result<Field<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|t| Field::Is(Self(t)))
    }
}

impl<'de, T: Shape<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visit(PhantomData))
    }
}

struct Visit<T>(PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for Visit<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Field::Absent)
    }
    fn visit_bool<E: Error>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(T::truth(truth))
    }
    fn visit_i64<E: Error>(self, n: i64) -> Result<Self::Value, E> {
        Ok(T::whole(n))
    }
    fn visit_u64<E: Error>(self, n: u64) -> Result<Self::Value, E> {
        Ok(T::whole(i64::try_from(n).unwrap_or(i64::MAX)))
    }
    fn visit_f64<E: Error>(self, n: f64) -> Result<Self::Value, E> {
        // `60.0` is how some languages write 60. The cast saturates, which is what a clamped number wants.
        Ok(if n.fract() == 0.0 { T::whole(n as i64) } else { Field::Wrong })
    }
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(T::text(Cow::Borrowed(text)))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(T::text(Cow::Owned(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::list(list)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        T::object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_borrowed_where_it_can_be() {
        let Ok(Field::Is(Cow::Borrowed("plain"))) = serde_json::from_str::<Text<'_>>(r#""plain""#) else {
            panic!("not borrowed")
        };
        assert_eq!(serde_json::from_str::<Text<'_>>(r#""a\n""#).unwrap(), Field::Is("a\n".into()));
    }

    #[test]
    fn null_is_absent_and_other_types_are_remembered() {
        assert_eq!(serde_json::from_str::<Text<'_>>("null").unwrap(), Field::Absent);
        for wrong in ["1", "1.5", "true", "[1,[2]]", r#"{"a":{"b":1}}"#] {
            assert_eq!(serde_json::from_str::<Text<'_>>(wrong).unwrap(), Field::Wrong, "{wrong}");
        }
        assert_eq!(serde_json::from_str::<Field<i64>>("60.0").unwrap(), Field::Is(60));
        assert_eq!(serde_json::from_str::<Field<i64>>("60.5").unwrap(), Field::Wrong);
        assert_eq!(serde_json::from_str::<Field<i64>>("18446744073709551615").unwrap(), Field::Is(i64::MAX));
    }
}
