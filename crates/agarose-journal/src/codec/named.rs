//! Reads the contents of an enum's variant whose name is known from elsewhere.

use agarose_core::event::Event;
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, EnumAccess, Error, IntoDeserializer, VariantAccess, Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

/// The event whose variant has this name, and whose contents come from the deserializer.
pub(super) struct Variant(pub(super) &'static str);

impl<'de> DeserializeSeed<'de> for Variant {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, contents: D) -> Result<Event, D::Error> {
        Event::deserialize(Named { name: self.0, contents })
    }
}

struct Named<D> {
    name: &'static str,
    contents: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Named<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        Err(D::Error::custom("an event is an enum"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de, D: Deserializer<'de>> EnumAccess<'de> for Named<D> {
    type Error = D::Error;
    type Variant = Contents<D>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Contents<D>), D::Error> {
        let name: StrDeserializer<'_, D::Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Contents(self.contents)))
    }
}

/// Fields follow each other without names, as in a tuple.
struct Contents<D>(D);

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for Contents<D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, D::Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(fields.len(), visitor)
    }
}
