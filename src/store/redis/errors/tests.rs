//! One reply after the other: what it proves.

use redis::Value;

use super::*;

/// The error that the library makes of a reply line.
fn error(line: &str) -> RedisError {
    match redis::parse_redis_value(format!("{line}\r\n").as_bytes()) {
        Ok(Value::ServerError(error)) => error.into(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_known_class_proves_that_nothing_was_done_and_has_a_remedy() {
    for (class, remedy) in REFUSALS {
        let StoreError::Refused(text) = failure(error(&format!("-{class} some words of Redis"))) else {
            panic!("{class} proves nothing")
        };
        assert_eq!(text, format!("{class}: {remedy} (some words of Redis)"));
    }
    for (start, remedy) in PLAIN_REFUSALS {
        let StoreError::Refused(text) = failure(error(&format!("-ERR {start} and more"))) else {
            panic!("{start} proves nothing")
        };
        assert_eq!(text, format!("ERR: {remedy} ({start} and more)"));
    }
}

#[test]
fn what_redis_really_says_is_understood() {
    for line in [
        "-OOM command not allowed when used memory > 'maxmemory'.",
        "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "-READONLY You can't write against a read only replica.",
        "-LOADING Redis is loading the dataset in memory",
        "-NOREPLICAS Not enough good replicas to write.",
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "-NOAUTH Authentication required.",
        "-NOPERM this user has no permissions to run the 'eval' command",
        "-ERR max number of clients reached",
        "-ERR unknown command 'EVALSHA', with args beginning with: ",
        "-ERR The user executing the script can't run this command or subcommand script: 0c2d, on @user_script:23.",
    ] {
        assert!(matches!(failure(error(line)), StoreError::Refused(_)), "{line}");
    }
}

#[test]
fn what_may_come_from_something_in_between_proves_nothing() {
    for line in [
        "-ERR upstream failure",
        "-ERR no upstream host",
        "-ERR user_script:12: attempt to index a nil value script: 0c2d, on @user_script:12.",
        "-UNBLOCKED force unblock from blocking operation, instance state changed",
        "-WHATEVER comes in the next version",
    ] {
        assert!(matches!(failure(error(line)), StoreError::InDoubt(_)), "{line}");
    }
    let io = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    assert!(matches!(failure(io.into()), StoreError::InDoubt(_)));
}

#[test]
fn another_kind_of_value_is_something_unreadable() {
    let line = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    assert!(matches!(failure(error(line)), StoreError::Corrupt(_)));
}

#[test]
fn only_what_an_operator_must_change_is_unfit() {
    for line in ["-NOAUTH Authentication required.", "-WRONGPASS no", "-NOPERM no", "-ERR invalid DB index"] {
        assert!(is_unfit(&error(line)), "{line}");
    }
    for line in
        ["-LOADING wait", "-ERR max number of clients reached", "-BUSY wait", "-OOM full", "-ERR upstream failure"]
    {
        assert!(!is_unfit(&error(line)), "{line}");
    }
}
