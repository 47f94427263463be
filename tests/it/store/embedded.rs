//! The embedded store across processes and bad files: what survives, what is refused and with which words.

use std::{fs, os::unix::fs::PermissionsExt};

use oncegate::idempotency::State;

use super::*;

#[tokio::test]
async fn what_was_answered_survives_a_proper_close() {
    let folder = tempfile::tempdir().unwrap();
    let (paid, running, unsure) = (claim(1, 1), claim(2, 1), claim(3, 1));
    let store = open(Location::File(file(&folder))).await.unwrap();
    for mine in [&paid, &running, &unsure] {
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    }
    done(store.swap(&paid.key, Expect::HeldBy(paid.token), complete(&paid, "paid")).await);
    done(store.swap(&unsure.key, Expect::HeldBy(unsure.token), doubt(&unsure)).await);
    drop(store);

    let store = open(Location::File(file(&folder))).await.unwrap();
    let state = async |claim: &Claim| store.read(&claim.key).await.unwrap().unwrap().record;
    assert_eq!(state(&paid).await, paid.record(State::Completed(answer("paid"))));
    // Its process is gone: nobody will ever settle it.
    assert_eq!(state(&running).await, running.record(State::Claimed).lapsed());
    assert_eq!(state(&unsure).await, unsure.record(State::Unknown { doubt: Doubt::AnswerLost, kept: None }));
}

#[tokio::test]
async fn a_copy_of_the_file_taken_at_any_moment_holds_everything_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let image = tempfile::tempdir().unwrap();
    let store = open(Location::File(file(&folder))).await.unwrap();
    for number in 0..30 {
        let mine = claim(number, 1);
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
        if number % 2 == 0 {
            done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, number.to_string())).await);
        }
        if number % 10 != 9 {
            continue;
        }
        // As a killed process leaves it: not closed.
        fs::copy(file(&folder), file(&image)).unwrap();
        let copy = open(Location::File(file(&image))).await.unwrap();
        for number in 0..=number {
            let mine = claim(number, 1);
            let expected = if number % 2 == 0 {
                mine.record(State::Completed(answer(number.to_string())))
            } else {
                mine.record(State::Claimed).lapsed()
            };
            assert_eq!(copy.read(&mine.key).await.unwrap().unwrap().record, expected, "cell {number}");
        }
    }
}

#[tokio::test]
async fn a_second_opening_is_refused_and_names_the_file_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(Location::File(file(&folder))).await.unwrap();
    let Err(error @ OpenError::InUse(_)) = open(Location::File(file(&folder))).await else { panic!("opened twice") };
    let message = error.to_string();
    assert!(message.contains(&*file(&folder).to_string_lossy()), "{message}");
    assert!(message.contains("stop the other process first"), "{message}");
    first.ping().await.unwrap();
    drop(first);
    open(Location::File(file(&folder))).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for content in [b"#!/bin/sh\necho hello\n".to_vec(), vec![0; 5], vec![0; 1 << 20], vec![0xFF; 100_000]] {
        fs::write(file(&folder), &content).unwrap();
        let opened = open(Location::File(file(&folder))).await;
        let Err(error @ OpenError::File { .. }) = opened else {
            panic!("opened {} bytes of something else", content.len())
        };
        assert!(error.to_string().contains("store.redb"), "{error}");
        assert!(fs::read(file(&folder)).unwrap() == content, "it was written to");
    }
}

#[tokio::test]
async fn a_damaged_store_is_refused_or_read_but_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Location::File(file(&folder))).await.unwrap();
    for number in 0..50 {
        let mine = claim(number, 1);
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
        done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, vec![7; 3000])).await);
    }
    drop(store);
    let good = fs::read(file(&folder)).unwrap();
    for (from, length) in [(0, 64), (64, 200), (320, 64), (4096, 4096), (8192, 512), (good.len() - 4096, 4096)] {
        let mut bad = good.clone();
        bad[from..from + length].fill(0xA5);
        fs::write(file(&folder), &bad).unwrap();
        if let Ok(store) = open(Location::File(file(&folder))).await {
            for number in 0..50 {
                let mine = claim(number, 1);
                // Any answer will do but a won claim on a cell that was completed, and silence.
                match store.swap(&mine.key, Expect::Absent, claim(number, 2).hold()).await {
                    Ok(Swapped::Refused { .. }) | Err(_) => {}
                    Ok(won) => println!("{from}+{length}: cell {number} is lost with its page: {won:?}"),
                }
            }
        }
    }
    // Cut off in the middle.
    fs::write(file(&folder), &good[..good.len() / 2]).unwrap();
    drop(open(Location::File(file(&folder))).await);
}

#[tokio::test]
async fn a_place_where_no_file_can_be_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (path, reason) in [
        (folder.path().join("missing/store.redb"), "the folder does not exist"),
        (folder.path().to_owned(), "it is a folder"),
        (PathBuf::from("/dev/null"), "it is not a regular file"),
    ] {
        let Err(error @ OpenError::File { .. }) = open(Location::File(path.clone())).await else {
            panic!("opened {}", path.display())
        };
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn the_file_is_readable_by_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let _store = open(Location::File(file(&folder))).await.unwrap();
    assert_eq!(fs::metadata(file(&folder)).unwrap().permissions().mode() & 0o777, 0o600);
}
