//! Any of core's values as JSON with stable names.
//!
//! One rule for every value, so that no field is ever missing: ticket ids are their 26 characters,
//! hashes are hexadecimal, generations are `g7`, questions are `p3`, durations say their unit in the
//! name of their field (`heartbeat_ms`), and what is absent is absent, never null. Names are core's
//! own field names; the golden test over every kind of event fails when one of them changes.

use std::fmt::Write as _;

use agarose_core::{Generation, PermissionId, TicketId};
use serde::{
    Serialize, Serializer,
    ser::{
        self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};

/// A JSON value whose objects keep the order in which they were built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    /// Absent where it is a field, `null` anywhere else.
    Absent,
    /// True or false.
    Bool(bool),
    /// A number that is not negative.
    Number(u64),
    /// Any other whole number.
    Signed(i64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Named values in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object from its fields; absent ones are left out.
    pub(crate) fn object<const N: usize>(fields: [(&str, Json); N]) -> Self {
        let mut object = Vec::with_capacity(N);
        for (name, value) in fields {
            if value != Self::Absent {
                object.push((name.to_owned(), value));
            }
        }
        Self::Object(object)
    }

    /// Any of core's values.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        match value.serialize(ToJson) {
            Ok(value) => value.value,
            Err(Unserializable(why)) => Self::Text(format!("not shown: {why}")),
        }
    }

    /// A text, when there is one.
    pub(crate) fn text(value: impl ToString) -> Self {
        Self::Text(value.to_string())
    }

    /// Something that may be absent.
    pub(crate) fn maybe<T>(value: Option<T>, of: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent, of)
    }

    /// Adds a field unless it is absent.
    pub(crate) fn push(&mut self, name: &str, value: Self) {
        if let Self::Object(fields) = self
            && value != Self::Absent
        {
            fields.push((name.to_owned(), value));
        }
    }

    /// The compact text of it, on one line.
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_u64(*value),
            Self::Signed(value) => serializer.serialize_i64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => serializer.collect_seq(values),
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, value))),
        }
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A value, and whether it counts milliseconds.
struct Made {
    value: Json,
    millis: bool,
}

impl From<Json> for Made {
    fn from(value: Json) -> Self {
        Self { value, millis: false }
    }
}

/// Why a value has no JSON form. Core has no such value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unserializable(String);

impl ser::Error for Unserializable {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Adds a field under its stable name.
fn push_field(fields: &mut Vec<(String, Json)>, name: &str, made: Made) {
    let value = match (name, made.value) {
        (_, Json::Absent) => return,
        (
            "generation" | "previous" | "replacement" | "variables_lost" | "next_generation",
            Json::Number(n),
        ) => Json::text(Generation(n)),
        ("permission" | "next_permission", Json::Number(n)) => Json::text(PermissionId(n)),
        (_, value) => value,
    };
    let name = if made.millis { format!("{name}_ms") } else { name.to_owned() };
    fields.push((name, value));
}

struct ToJson;

struct ListOf(Vec<Json>);

struct ObjectOf {
    fields: Vec<(String, Json)>,
    key: Option<String>,
    /// The name of the variant that holds it, if it is one.
    variant: Option<&'static str>,
}

struct VariantList {
    variant: &'static str,
    list: Vec<Json>,
}

fn tagged(variant: &'static str, value: Json) -> Json {
    Json::Object(vec![(variant.to_owned(), value)])
}

impl Serializer for ToJson {
    type Ok = Made;
    type Error = Unserializable;
    type SerializeSeq = ListOf;
    type SerializeTuple = ListOf;
    type SerializeTupleStruct = ListOf;
    type SerializeTupleVariant = VariantList;
    type SerializeMap = ObjectOf;
    type SerializeStruct = ObjectOf;
    type SerializeStructVariant = ObjectOf;

    fn serialize_bool(self, value: bool) -> Result<Made, Unserializable> {
        Ok(Json::Bool(value).into())
    }

    fn serialize_i8(self, value: i8) -> Result<Made, Unserializable> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<Made, Unserializable> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<Made, Unserializable> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<Made, Unserializable> {
        Ok(u64::try_from(value).map_or(Json::Signed(value), Json::Number).into())
    }

    fn serialize_u8(self, value: u8) -> Result<Made, Unserializable> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<Made, Unserializable> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<Made, Unserializable> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<Made, Unserializable> {
        Ok(Json::Number(value).into())
    }

    /// Ticket ids are the only numbers of this size.
    fn serialize_u128(self, value: u128) -> Result<Made, Unserializable> {
        Ok(Json::text(TicketId(value)).into())
    }

    fn serialize_f32(self, _: f32) -> Result<Made, Unserializable> {
        Err(ser::Error::custom("a float"))
    }

    fn serialize_f64(self, _: f64) -> Result<Made, Unserializable> {
        Err(ser::Error::custom("a float"))
    }

    fn serialize_char(self, value: char) -> Result<Made, Unserializable> {
        Ok(Json::text(value).into())
    }

    fn serialize_str(self, value: &str) -> Result<Made, Unserializable> {
        Ok(Json::text(value).into())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Made, Unserializable> {
        Ok(Json::Text(hex(value)).into())
    }

    fn serialize_none(self) -> Result<Made, Unserializable> {
        Ok(Json::Absent.into())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Made, Unserializable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Made, Unserializable> {
        Ok(Json::Absent.into())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Made, Unserializable> {
        Ok(Json::Object(Vec::new()).into())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Made, Unserializable> {
        Ok(Json::text(variant).into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Made, Unserializable> {
        let mut made = value.serialize(self)?;
        made.millis |= name == "Millis";
        Ok(made)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Made, Unserializable> {
        Ok(tagged(variant, value.serialize(self)?.value).into())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListOf, Unserializable> {
        Ok(ListOf(Vec::new()))
    }

    fn serialize_tuple(self, _: usize) -> Result<ListOf, Unserializable> {
        Ok(ListOf(Vec::new()))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ListOf, Unserializable> {
        Ok(ListOf(Vec::new()))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<VariantList, Unserializable> {
        Ok(VariantList { variant, list: Vec::new() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectOf, Unserializable> {
        Ok(ObjectOf { fields: Vec::new(), key: None, variant: None })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ObjectOf, Unserializable> {
        Ok(ObjectOf { fields: Vec::new(), key: None, variant: None })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ObjectOf, Unserializable> {
        Ok(ObjectOf { fields: Vec::new(), key: None, variant: Some(variant) })
    }
}

impl ListOf {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unserializable> {
        self.0.push(value.serialize(ToJson)?.value);
        Ok(())
    }
}

impl SerializeSeq for ListOf {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unserializable> {
        self.push(value)
    }

    fn end(self) -> Result<Made, Unserializable> {
        Ok(Json::List(self.0).into())
    }
}

impl SerializeTuple for ListOf {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unserializable> {
        self.push(value)
    }

    /// A hash is a tuple of 32 bytes; what is absent at the end of any other tuple is absent.
    fn end(mut self) -> Result<Made, Unserializable> {
        while self.0.last() == Some(&Json::Absent) {
            self.0.pop();
        }
        let byte = |value: &Json| match value {
            Json::Number(n) => u8::try_from(*n).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = self.0.iter().map(byte).collect();
        Ok(match bytes {
            Some(bytes) if bytes.len() == 32 => Json::Text(hex(&bytes)),
            Some(_) | None => Json::List(self.0),
        }
        .into())
    }
}

impl SerializeTupleStruct for ListOf {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unserializable> {
        self.push(value)
    }

    fn end(self) -> Result<Made, Unserializable> {
        Ok(Json::List(self.0).into())
    }
}

impl SerializeTupleVariant for VariantList {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unserializable> {
        self.list.push(value.serialize(ToJson)?.value);
        Ok(())
    }

    fn end(self) -> Result<Made, Unserializable> {
        Ok(tagged(self.variant, Json::List(self.list)).into())
    }
}

impl ObjectOf {
    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Unserializable> {
        push_field(&mut self.fields, name, value.serialize(ToJson)?);
        Ok(())
    }

    fn finish(self) -> Made {
        let object = Json::Object(self.fields);
        self.variant.map_or(object.clone(), |variant| tagged(variant, object)).into()
    }
}

impl SerializeMap for ObjectOf {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unserializable> {
        self.key = Some(match key.serialize(ToJson)?.value {
            Json::Text(text) => text,
            Json::Number(n) => n.to_string(),
            Json::Signed(n) => n.to_string(),
            other => other.line(),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unserializable> {
        let name = self.key.take().unwrap_or_default();
        // A key is a name that users chose, not one of ours.
        self.fields.push((name, value.serialize(ToJson)?.value));
        Ok(())
    }

    fn end(self) -> Result<Made, Unserializable> {
        Ok(self.finish())
    }
}

impl SerializeStruct for ObjectOf {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unserializable> {
        self.field(name, value)
    }

    fn end(self) -> Result<Made, Unserializable> {
        Ok(self.finish())
    }
}

impl SerializeStructVariant for ObjectOf {
    type Ok = Made;
    type Error = Unserializable;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unserializable> {
        self.field(name, value)
    }

    fn end(self) -> Result<Made, Unserializable> {
        Ok(self.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agarose_core::ticket::Timeouts;
    use agarose_core::{BlobRef, Lease, Millis};

    #[test]
    fn ids_hashes_and_durations_read_as_people_write_them() {
        let lease = Lease { generation: Generation(7), ticket: TicketId(31) };
        assert_eq!(Json::of(&lease).line(), r#"{"generation":"g7","ticket":"0000000000000000000000000z"}"#);
        let blob = BlobRef { hash: [0xab; 32], length: 3 };
        assert_eq!(Json::of(&blob).line(), format!(r#"{{"hash":"{}","length":3}}"#, "ab".repeat(32)));
        let timeouts = Timeouts { heartbeat: Some(Millis(1500)), ..Timeouts::default() };
        assert_eq!(Json::of(&timeouts).line(), r#"{"heartbeat_ms":1500}"#);
    }
}
