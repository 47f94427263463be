//! What is read out of an `INFO`.

use super::*;

const FIT: &str = "# Server\r\nredis_version:7.0.15\r\n# Memory\r\nmaxmemory:104857600\r\nmaxmemory_policy:noeviction\r\n\
                   # Persistence\r\nloading:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n# Cluster\r\n\
                   cluster_enabled:0\r\n";

fn with(from: &str, to: &str) -> String {
    assert!(FIT.contains(from));
    FIT.replace(from, to)
}

#[track_caller]
fn unfit(info: &str, why: &str) {
    match judge(info, false) {
        Err(Verdict::Unfit(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_redis_as_it_should_be_needs_no_advice() {
    assert_eq!(judge(FIT, false), Ok(Vec::new()));
    assert_eq!(judge(&with("7.0.15", "8.4.0"), false), Ok(Vec::new()));
}

#[test]
fn what_makes_a_redis_unfit_is_named() {
    unfit(&with("7.0.15", "6.2.14"), "6.2.14");
    unfit(&with("7.0.15", "unstable"), "unstable");
    unfit(&with("role:master", "role:slave"), "slave");
    unfit(&with("noeviction", "allkeys-lru"), "allkeys-lru");
    unfit(&with("noeviction", "volatile-ttl"), "store.allow_eviction");
    unfit(&with("cluster_enabled:0", "cluster_enabled:1"), "cluster");
    unfit("", "not a Redis");
    // An evicting policy is refused without a limit as well: a limit is set in a moment, and by someone else.
    unfit(&with("noeviction", "allkeys-lru").replace("104857600", "0"), "allkeys-lru");
}

#[test]
fn what_is_unwise_is_advised_against() {
    assert_eq!(judge(&with("aof_enabled:1", "aof_enabled:0"), false), Ok(vec![Advice::NotDurable]));
    assert_eq!(judge(&with("maxmemory:104857600", "maxmemory:0"), false), Ok(vec![Advice::Unbounded]));
    assert_eq!(judge(&with("noeviction", "allkeys-lru"), true), Ok(vec![Advice::Evicting]));
}

#[test]
fn a_redis_that_still_loads_is_waited_for() {
    let loading = with("loading:0", "loading:1");
    assert!(matches!(judge(&loading, false), Err(Verdict::Unreachable(text)) if text.contains("loading")));
    // Whatever else it says meanwhile.
    assert!(matches!(judge(&loading.replace("noeviction", "allkeys-lru"), false), Err(Verdict::Unreachable(_))));
}

#[test]
fn a_field_is_found_by_its_whole_name() {
    assert_eq!(field(FIT, "maxmemory"), Some("104857600"));
    assert_eq!(field(FIT, "memory"), None);
    assert_eq!(field(FIT, "redis_version"), Some("7.0.15"));
}
