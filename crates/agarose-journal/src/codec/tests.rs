use agarose_core::{SessionId, event::Event};
use serde::{Deserialize, Deserializer, de::Visitor, forward_to_deserialize_any};

use super::{DecodeError, KINDS, decode, encode};

#[test]
fn the_codec_knows_every_kind_of_event_that_core_has_by_its_number_and_its_name() {
    let mut in_core = variants();
    in_core.sort_unstable();
    let mut here: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    here.sort_unstable();
    assert_eq!(here, in_core);
    assert!(KINDS.is_sorted_by_key(|kind| kind.number));
}

/// The names of the variants of the event, as core declares them.
fn variants() -> Vec<&'static str> {
    #[derive(Debug)]
    struct Names(&'static [&'static str]);
    impl std::fmt::Display for Names {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }
    impl std::error::Error for Names {}
    impl serde::de::Error for Names {
        fn custom<T: std::fmt::Display>(_: T) -> Self {
            Self(&[])
        }
    }
    struct Asked;
    impl<'de> Deserializer<'de> for Asked {
        type Error = Names;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
            Err(Names(&[]))
        }
        fn deserialize_enum<V: Visitor<'de>>(
            self,
            _: &'static str,
            variants: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Names> {
            Err(Names(variants))
        }
        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
        }
    }
    Event::deserialize(Asked).unwrap_err().0.to_vec()
}

#[test]
fn an_event_of_a_newer_version_or_kind_is_named_as_such_and_not_skipped() {
    assert!(matches!(decode(999, 1, &[]), Err(DecodeError::Newer { kind: 999, version: 1 })));
    let event = Event::SessionRemoved { session: SessionId::new("analysis").unwrap() };
    let (kind, version, bytes) = encode(&event).unwrap();
    assert_eq!(decode(kind, version, &bytes).unwrap(), event);
    let newer = decode(kind, version + 1, &bytes).unwrap_err();
    assert_eq!(newer.to_string(), "an event of kind 14, version 2, written by a newer version");
    assert!(matches!(decode(kind, 0, &bytes), Err(DecodeError::Unknown { .. })));
}
