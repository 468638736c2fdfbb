//! What every store must do.

use std::{collections::BTreeMap, ops::Bound};

use proptest::prelude::*;

use super::{Batch, MemoryStore, SledStore, Space, Store};

const SPACES: [Space; 6] = [Space::Blob, Space::Key, Space::Meta, Space::Page, Space::Session, Space::Ticket];

fn conforms(store: &dyn Store) {
    let none: Bound<&[u8]> = Bound::Unbounded;
    assert_eq!(store.get(Space::Page, b"a").unwrap(), None);
    assert_eq!(store.last(Space::Page, none, none).unwrap(), None);

    let mut batch = Batch::default();
    for space in SPACES {
        batch.put(space, *b"a", vec![space as u8]);
        batch.put(space, *b"c", vec![space as u8, 1]);
    }
    batch.put(Space::Page, Vec::new(), *b"empty key");
    batch.put(Space::Page, [0xff; 40], Vec::new());
    store.put(batch).unwrap();
    store.sync().unwrap();

    assert_eq!(store.get(Space::Key, b"c").unwrap(), Some(vec![b'k', 1]));
    assert_eq!(store.first(Space::Page, none, none).unwrap(), Some((Vec::new(), b"empty key".to_vec())));
    assert_eq!(store.last(Space::Page, none, none).unwrap(), Some((vec![0xff; 40], Vec::new())));
    assert_eq!(store.last(Space::Meta, none, none).unwrap(), Some((b"c".to_vec(), vec![b'm', 1])));
    let after_a: Bound<&[u8]> = Bound::Excluded(b"a");
    assert_eq!(store.first(Space::Ticket, after_a, none).unwrap(), Some((b"c".to_vec(), vec![b't', 1])));
    let to_b: Bound<&[u8]> = Bound::Included(b"b");
    assert_eq!(store.last(Space::Ticket, none, to_b).unwrap(), Some((b"a".to_vec(), vec![b't'])));
    assert_eq!(store.first(Space::Ticket, to_b, after_a).unwrap(), None);
    assert_eq!(store.first(Space::Ticket, after_a, after_a).unwrap(), None);

    let large: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut batch = Batch::default();
    batch.put(Space::Blob, *b"a", large.clone());
    store.put(batch).unwrap();
    assert_eq!(store.get(Space::Blob, b"a").unwrap(), Some(large));
}

#[test]
fn the_store_in_memory_conforms() {
    conforms(&MemoryStore::default());
}

#[test]
fn the_store_in_sled_conforms_and_keeps_its_contents() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    conforms(&SledStore::open(&path).unwrap());
    let again = SledStore::open(&path).unwrap();
    assert_eq!(again.get(Space::Key, b"c").unwrap(), Some(vec![b'k', 1]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn both_stores_answer_every_range_alike(
        pairs in prop::collection::vec((0usize..6, prop::collection::vec(0u8..4, 0..4), any::<u8>()), 0..60),
        questions in prop::collection::vec((0usize..6, prop::collection::vec(0u8..4, 0..4), prop::collection::vec(0u8..4, 0..4)), 0..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (sled, memory) = (SledStore::open(directory.path()).unwrap(), MemoryStore::default());
        let mut model = BTreeMap::new();
        for (space, key, value) in pairs {
            model.insert((space, key.clone()), value);
            for store in [&sled as &dyn Store, &memory] {
                let mut batch = Batch::default();
                batch.put(SPACES[space], key.clone(), vec![value]);
                store.put(batch).unwrap();
            }
        }
        for (space, low, high) in questions {
            let range = (Bound::Included(low.as_slice()), Bound::Excluded(high.as_slice()));
            let expected = model
                .iter()
                .rfind(|((s, key), _)| *s == space && *key >= low && *key < high)
                .map(|((_, key), value)| (key.clone(), vec![*value]));
            for store in [&sled as &dyn Store, &memory] {
                prop_assert_eq!(store.last(SPACES[space], range.0, range.1).unwrap(), expected.clone());
            }
        }
    }
}
