//! Tests of `idempotency::digest`.

use proptest::prelude::*;

use super::Digest;

fn digest(parts: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = Digest::new("test/v1");
    for part in parts {
        digest.part(part);
    }
    digest.finish()
}

#[test]
fn what_is_hashed_is_the_length_and_the_bytes_of_each_part() {
    use sha2::{Digest as _, Sha256};
    let mut expected = Sha256::new();
    expected.update(b"\0\0\0\0\0\0\0\x07test/v1");
    expected.update(b"\0\0\0\0\0\0\0\x02ab");
    expected.update(b"\0\0\0\0\0\0\0\0");
    let expected: [u8; 32] = expected.finalize().into();
    assert_eq!(digest(&[b"ab".to_vec(), Vec::new()]), expected);
}

#[test]
fn an_absent_part_is_not_an_empty_one() {
    let with = |part: Option<&[u8]>| {
        let mut digest = Digest::new("test/v1");
        digest.optional(part);
        digest.finish()
    };
    assert_ne!(with(None), with(Some(b"")));
}

#[test]
fn two_domains_never_meet() {
    assert_ne!(Digest::new("a/v1").finish(), Digest::new("a/v2").finish());
}

proptest! {
    #[test]
    fn different_lists_of_parts_have_different_hashes(
        one in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..4),
        two in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..4),
    ) {
        prop_assert_eq!(one == two, digest(&one) == digest(&two));
    }

    #[test]
    fn a_byte_moved_to_the_next_part_changes_the_hash(left in prop::collection::vec(any::<u8>(), 1..8), right: Vec<u8>) {
        let (moved, rest) = left.split_last().unwrap();
        let mut grown = vec![*moved];
        grown.extend_from_slice(&right);
        prop_assert_ne!(digest(&[left.clone(), right]), digest(&[rest.to_vec(), grown]));
    }
}
