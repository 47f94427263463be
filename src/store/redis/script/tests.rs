//! Answers, and what is no answer.

use super::*;

fn word(word: &str) -> Value {
    Value::BulkString(word.as_bytes().to_vec())
}

#[test]
fn the_answers_of_the_scripts_are_understood() {
    let record = Bytes::from_static(b"record");
    for (items, found) in [
        (vec![], Found::Nothing),
        (vec![word("done")], Found::Done),
        (vec![word("recreated")], Found::Recreated),
        (vec![word("refused")], Found::Nothing),
        (vec![word("record"), Value::Int(5)], Found::There { record: record.clone(), pttl: 5 }),
        (vec![word("refused"), word("record"), Value::Int(5)], Found::There { record: record.clone(), pttl: 5 }),
        (vec![word("unreadable"), word("record"), Value::Int(-1)], Found::Unreadable { record, pttl: -1 }),
    ] {
        assert_eq!(parse(Value::Array(items)).unwrap(), found);
    }
}

#[test]
fn anything_else_leaves_doubt() {
    for reply in [
        Value::Nil,
        Value::Okay,
        Value::Int(1),
        word("done"),
        Value::Array(vec![word("maybe")]),
        Value::Array(vec![Value::Nil]),
        Value::Array(vec![word("record"), word("5")]),
        Value::Array(vec![word("done"), word("record"), Value::Int(5)]),
        Value::Array(vec![word("refused"), Value::Nil, Value::Int(5)]),
        Value::Array(vec![word("refused"), word("record"), Value::Int(5), Value::Int(5)]),
    ] {
        let text = format!("{reply:?}");
        assert!(matches!(parse(reply), Err(StoreError::InDoubt(_))), "{text}");
    }
}

#[test]
fn the_scripts_look_where_the_codec_writes() {
    use crate::idempotency::codec::HEADER_LEN;
    // Lua counts from one, and GETRANGE names the last byte.
    assert!(SWAP.text.contains(&format!("GETRANGE', key, 0, {}", HEADER_LEN - 1)));
    assert!(SWAP.text.contains(&format!("#there < {HEADER_LEN}")));
}
