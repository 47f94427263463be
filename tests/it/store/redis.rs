//! What is special about a Redis: its settings, its rights, foreign data under our names, and its absence.

use std::{os::unix::fs::FileTypeExt, time::Instant};

use oncegate::idempotency::{State, codec};

use super::*;

async fn opened(server: &RedisServer) -> Arc<dyn Store> {
    open(Location::Redis(address_of(server))).await.unwrap()
}

/// A store that gives up soon.
async fn impatient(server: &RedisServer, timeout: Duration) -> Arc<dyn Store> {
    let settings = Settings { timeout, ..settings(Location::Redis(address_of(server))) };
    store::open(&settings).await.unwrap()
}

/// The reason for which a Redis is not used.
async fn unfit(address: RedisAddress) -> String {
    match open(Location::Redis(address)).await {
        Err(OpenError::Unfit(reason)) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

fn name(claim: &Claim) -> String {
    format!("contract:{}", claim.key)
}

/// A record in the form that a plain protocol line can carry.
fn set(server: &RedisServer, claim: &Claim, value: &[u8], options: &[&str]) {
    // Hex, unpacked by Redis itself: the helper speaks text.
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    let script = "local s = string.gsub(ARGV[1], '..', function(h) return string.char(tonumber(h, 16)) end) \
                  return redis.call('SET', KEYS[1], s, unpack(ARGV, 2))";
    let name = name(claim);
    let mut words = vec!["EVAL", script, "1", &name, &hex];
    words.extend(options);
    assert_eq!(server.command(&words), "+OK\r\n");
}

#[tokio::test]
async fn a_claim_is_one_native_command() {
    let server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    server.command(&["CONFIG", "RESETSTAT"]);
    let mine = claim(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    let stats = server.command(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_set:calls=1,"), "{stats}");
    assert!(!stats.contains("cmdstat_eval"), "{stats}");
    done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, "paid")).await);
    server.command(&["CONFIG", "RESETSTAT"]);
    refused(store.swap(&mine.key, Expect::Absent, claim(1, 2).hold()).await).unwrap();
    let stats = server.command(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_set:calls=1,") && !stats.contains("cmdstat_eval"), "a replay: {stats}");
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again() {
    let server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    let mine = claim(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    for _ in 0..3 {
        server.command(&["SCRIPT", "FLUSH"]);
        done(store.swap(&mine.key, Expect::HeldBy(mine.token), mine.renew()).await);
        server.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(store.read(&mine.key).await.unwrap().unwrap().record.state, State::Claimed);
    }
    let stats = server.command(&["INFO", "commandstats"]);
    assert!(!stats.contains("script|load"), "{stats}");
}

#[tokio::test]
async fn a_retention_is_the_life_of_the_key() {
    let server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    let mine = claim(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    let left = |reply: String| reply.trim_start_matches(':').trim().parse::<u64>().unwrap();
    let day = 24 * 3_600_000;
    assert!((day - 60_000..=day).contains(&left(server.command(&["PTTL", &name(&mine)]))));
    let brief = Claim { retention: Duration::from_micros(1), ..claim(2, 1) };
    done(store.swap(&brief.key, Expect::Absent, brief.hold()).await);
    until(async || store.read(&brief.key).await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn what_is_no_record_of_ours_is_never_free() {
    let server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    let day = ["PX", "86400000"];
    let good = |claim: &Claim| codec::encode(&claim.key, &claim.record(State::Claimed));

    let list = claim(1, 1);
    server.command(&["RPUSH", &name(&list), "x"]);
    let text = claim(2, 1);
    set(&server, &text, b"hello", &day);
    let empty = claim(3, 1);
    set(&server, &empty, b"", &day);
    let future = claim(4, 1);
    set(&server, &future, &[&[9], &good(&future)[1..]].concat(), &day);
    let foreign = claim(5, 1);
    set(&server, &foreign, &good(&claim(6, 1)), &day);
    let cut = claim(7, 1);
    set(&server, &cut, &good(&cut)[..130], &day);
    let endless = claim(8, 1);
    set(&server, &endless, &good(&endless), &[]);
    let odd = claim(9, 1);
    let mut bytes = good(&odd);
    bytes[1] = b'X';
    set(&server, &odd, &bytes, &day);

    for mine in [&list, &text, &empty, &future, &foreign, &cut, &endless, &odd] {
        let before = server.command(&["DUMP", &name(mine)]);
        let corrupt = |swapped: Result<_, StoreError>| match swapped {
            Err(StoreError::Corrupt(error)) => error,
            other => panic!("{:?}: {other:?}", mine.key),
        };
        corrupt(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
        corrupt(store.read(&mine.key).await.map(|_| Swapped::Done));
        for write in [mine.hold(), mine.renew(), complete(mine, "x"), doubt(mine), Write::Clear] {
            // Who knows the token in it changes nothing either, but for a payload that only a full decode finds
            // broken: there its claimant may still write.
            let known = if mine.key == cut.key { token(9) } else { mine.token };
            for token in [token(9), known] {
                for expect in [Expect::HeldBy(token), Expect::Doubtful(token), Expect::Occupied(token)] {
                    corrupt(store.swap(&mine.key, expect, write.clone()).await);
                }
            }
        }
        assert_eq!(server.command(&["DUMP", &name(mine)]), before, "it was written to");
    }
    store.ping().await.unwrap();
}

#[tokio::test]
async fn an_evicting_redis_is_refused_unless_allowed() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let reason = unfit(address_of(&server)).await;
    assert!(reason.contains("allkeys-lru") && reason.contains("noeviction"), "{reason}");
    assert!(reason.contains("store.allow_eviction"), "{reason}");
    let allowed = Settings { allow_eviction: true, ..settings(Location::Redis(address_of(&server))) };
    store::open(&allowed).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = RedisServer::start_with(&[]);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let reason = unfit(address_of(&server)).await;
    assert!(reason.contains("primary"), "{reason}");
}

/// The rights that the documentation asks for.
const ALLOWED: &str = "+ping +info +select +get +getrange +set +del +pttl +eval +evalsha";

fn set_user(server: &RedisServer, name: &str, rights: &str) {
    let rule = format!("ACL SETUSER {name} reset on >secret ~contract:* resetchannels -@all {rights}");
    let words: Vec<&str> = rule.split(' ').collect();
    assert_eq!(server.command(&words), "+OK\r\n");
}

#[tokio::test]
async fn a_right_that_is_lost_at_run_time_stops_every_claim_until_it_is_back() {
    for lost in ["-eval -evalsha", "-evalsha", "-getrange", "-pttl"] {
        let server = RedisServer::start_with(&[]);
        set_user(&server, "gate", ALLOWED);
        let (username, password) = (Some("gate".to_owned()), Some("secret".to_owned()));
        let store = open(Location::Redis(RedisAddress { username, password, ..address_of(&server) })).await.unwrap();
        let (running, new) = (claim(1, 1), claim(2, 1));
        done(store.swap(&running.key, Expect::Absent, running.hold()).await);
        set_user(&server, "gate", &format!("{ALLOWED} {lost}"));
        // The native command of a claim would still be allowed.
        let swapped = store.swap(&running.key, Expect::HeldBy(running.token), complete(&running, "paid")).await;
        assert!(matches!(swapped, Err(StoreError::Refused(_))), "{lost}: {swapped:?}");
        for _ in 0..3 {
            let swapped = store.swap(&new.key, Expect::Absent, new.hold()).await;
            let Err(StoreError::Refused(text)) = swapped else { panic!("{lost}: {swapped:?}") };
            assert!(text.contains("lacks a right") && text.contains("ACL SETUSER"), "{lost}: {text}");
            let pinged = store.ping().await;
            assert!(matches!(pinged, Err(StoreError::Refused(_))), "{lost}: {pinged:?}");
        }
        assert_eq!(server.command(&["EXISTS", &name(&new)]), ":0\r\n", "{lost}");
        set_user(&server, "gate", ALLOWED);
        until(async || store.ping().await.ok()).await;
        done(store.swap(&running.key, Expect::HeldBy(running.token), complete(&running, "paid")).await);
        done(store.swap(&new.key, Expect::Absent, new.hold()).await);
    }
}

#[tokio::test]
async fn a_right_to_ping_that_is_lost_makes_the_store_unfit_at_once() {
    let server = RedisServer::start_with(&[]);
    set_user(&server, "gate", ALLOWED);
    let (username, password) = (Some("gate".to_owned()), Some("secret".to_owned()));
    let store = open(Location::Redis(RedisAddress { username, password, ..address_of(&server) })).await.unwrap();
    set_user(&server, "gate", &format!("{ALLOWED} -ping"));
    assert!(matches!(store.ping().await, Err(StoreError::Refused(_))));
    let mine = claim(1, 1);
    let swapped = store.swap(&mine.key, Expect::Absent, mine.hold()).await;
    let Err(StoreError::Refused(text)) = swapped else { panic!("{swapped:?}") };
    assert!(text.contains("ping") && text.contains("ACL SETUSER"), "{text}");
    set_user(&server, "gate", ALLOWED);
    until(async || store.ping().await.ok()).await;
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_right_are_refused_with_what_to_change() {
    let server = RedisServer::start_with(&[]);
    let user = |username: &str, password: &str| RedisAddress {
        username: Some(username.to_owned()),
        password: Some(password.to_owned()),
        ..address_of(&server)
    };
    let set_user = |name: &str, rights: &str| set_user(&server, name, rights);
    set_user("gate", ALLOWED);
    let store = open(Location::Redis(RedisAddress { database: 3, ..user("gate", "secret") })).await.unwrap();
    let mine = claim(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    done(store.swap(&mine.key, Expect::HeldBy(mine.token), mine.renew()).await);
    done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, vec![1; 40_000])).await);
    assert!(store.read(&mine.key).await.unwrap().is_some());
    store.ping().await.unwrap();

    for (username, password) in [("gate", "wrong"), ("nobody", "secret")] {
        let reason = unfit(user(username, password)).await;
        assert!(reason.contains("store.url") && !reason.contains("secret"), "{reason}");
    }
    for right in ["ping", "info", "select", "get", "getrange", "set", "del", "pttl", "eval", "evalsha"] {
        let fewer: Vec<&str> = ALLOWED.split(' ').filter(|word| *word != format!("+{right}")).collect();
        set_user("less", &fewer.join(" "));
        let reason = unfit(RedisAddress { database: 3, ..user("less", "secret") }).await;
        assert!(reason.contains("ACL SETUSER"), "without {right}: {reason}");
        assert!(reason.contains("lacks a right"), "without {right}: {reason}");
    }
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let reason = unfit(address_of(&server)).await;
    assert!(reason.contains("password"), "{reason}");
    let default = RedisAddress { password: Some("secret".to_owned()), ..address_of(&server) };
    open(Location::Redis(default)).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let server = RedisServer::start_with(&[]);
    let reason = unfit(RedisAddress { database: 99, ..address_of(&server) }).await;
    assert!(reason.contains("database"), "{reason}");
}

#[tokio::test]
async fn a_unix_socket_is_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let _server = RedisServer::start_with(&["--unixsocket", path.to_str().unwrap()]);
    assert!(std::fs::metadata(&path).unwrap().file_type().is_socket());
    let address = RedisAddress { endpoint: RedisEndpoint::Unix(path), username: None, password: None, database: 0 };
    let store = open(Location::Redis(address)).await.unwrap();
    let mine = claim(1, 1);
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, vec![1; 100_000])).await);
    refused(store.swap(&mine.key, Expect::Absent, claim(1, 2).hold()).await).unwrap();
}

#[tokio::test]
async fn a_redis_that_is_not_there_yet_is_no_error_and_is_used_when_it_comes() {
    let mut server = RedisServer::start();
    let address = address_of(&server);
    server.kill();
    let store = open(Location::Redis(address)).await.unwrap();
    let mine = claim(1, 1);
    let began = Instant::now();
    assert!(matches!(store.ping().await, Err(StoreError::NotSent(_))));
    let swapped = store.swap(&mine.key, Expect::Absent, mine.hold()).await;
    assert!(matches!(swapped, Err(StoreError::NotSent(_))), "{swapped:?}");
    assert!(began.elapsed() < PATIENCE / 2, "an absent Redis must be known at once: {:?}", began.elapsed());
    server.restart();
    until(async || store.ping().await.ok()).await;
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
}

#[tokio::test]
async fn what_was_answered_survives_a_kill_of_redis() {
    let mut server = RedisServer::start();
    let store = opened(&server).await;
    for number in 0..20 {
        let mine = claim(number, 1);
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
        if number % 2 == 0 {
            done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, "paid")).await);
        }
    }
    server.restart();
    until(async || store.ping().await.ok()).await;
    for number in 0..20 {
        let mine = claim(number, 1);
        let there = refused(store.swap(&mine.key, Expect::Absent, claim(number, 2).hold()).await).unwrap();
        let state = if number % 2 == 0 { State::Completed(answer("paid")) } else { State::Claimed };
        assert_eq!(there.record, mine.record(state), "cell {number}");
    }
}

#[tokio::test]
async fn a_redis_that_stands_still_leaves_doubt_within_the_deadline() {
    let server = RedisServer::start_with(&[]);
    let store = impatient(&server, Duration::from_millis(250)).await;
    let mine = claim(1, 1);
    store.ping().await.unwrap();
    server.stop();
    let began = Instant::now();
    let swapped = store.swap(&mine.key, Expect::Absent, mine.hold()).await;
    let took = began.elapsed();
    server.cont();
    assert!(matches!(swapped, Err(StoreError::InDoubt(_))), "{swapped:?}");
    assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(2), "{took:?}");
    // It did land after all; asked again with the same token, the cell is ours.
    let there = until(async || match store.swap(&mine.key, Expect::Absent, mine.hold()).await {
        Ok(Swapped::Refused { occupant }) => occupant,
        Ok(Swapped::Done) => panic!("the first command was not carried out"),
        Ok(Swapped::Recreated) => panic!("a claim cannot be recreated"),
        Err(_) => None,
    })
    .await;
    assert_eq!(there.record.token, mine.token);
}

#[tokio::test]
async fn a_broken_connection_leaves_doubt_at_once() {
    let mut server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    server.stop();
    let asked = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.swap(&claim(1, 1).key, Expect::Absent, claim(1, 1).hold()).await }
    });
    // The command is on its way when it sits in the socket of a process that stands still.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    server.kill();
    let swapped = asked.await.unwrap();
    assert!(matches!(swapped, Err(StoreError::InDoubt(_))), "{swapped:?}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_redis_that_stands_still_for_long_is_not_ready_and_comes_back() {
    let server = RedisServer::start_with(&[]);
    let store = impatient(&server, Duration::from_millis(50)).await;
    server.stop();
    // Given up after a few pulses: from then on requests fail at once, and certainly without effect.
    until(async || matches!(store.ping().await, Err(StoreError::NotSent(_))).then_some(())).await;
    server.cont();
    until(async || store.ping().await.ok()).await;
}

#[tokio::test]
async fn a_redis_that_becomes_unfit_is_not_used_and_no_reason_to_exit() {
    let mut server = RedisServer::start();
    let store = opened(&server).await;
    server.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    let refusal = until(async || match store.ping().await {
        Err(StoreError::Refused(text)) => Some(text),
        Ok(()) | Err(_) => None,
    })
    .await;
    assert!(refusal.contains("volatile-ttl"), "{refusal}");
    let mine = claim(1, 1);
    assert!(matches!(store.swap(&mine.key, Expect::Absent, mine.hold()).await, Err(StoreError::Refused(_))));
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    until(async || store.ping().await.ok()).await;
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    server.kill();
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_still_replays_and_is_given_up() {
    let server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    let (mine, new) = (claim(1, 1), claim(2, 1));
    done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    done(store.swap(&mine.key, Expect::HeldBy(mine.token), complete(&mine, "paid")).await);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let swapped = store.swap(&new.key, Expect::Absent, new.hold()).await;
    let Err(StoreError::Refused(text)) = swapped else { panic!("{swapped:?}") };
    assert!(text.contains("READONLY") && text.contains("primary"), "{text}");
    until(async || match store.ping().await {
        Err(StoreError::Refused(text)) => text.contains("this Redis is a slave").then_some(()),
        Ok(()) | Err(_) => None,
    })
    .await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    until(async || store.ping().await.ok()).await;
}

#[tokio::test]
async fn a_full_redis_refuses_claims_and_still_replays_renews_and_completes() {
    let server = RedisServer::start_with(&[]);
    let store = opened(&server).await;
    let (paid, running, new) = (claim(1, 1), claim(2, 1), claim(3, 1));
    for mine in [&paid, &running] {
        done(store.swap(&mine.key, Expect::Absent, mine.hold()).await);
    }
    done(store.swap(&paid.key, Expect::HeldBy(paid.token), complete(&paid, "paid")).await);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let swapped = store.swap(&new.key, Expect::Absent, new.hold()).await;
    let Err(StoreError::Refused(text)) = swapped else { panic!("{swapped:?}") };
    assert!(text.starts_with("OOM") && text.contains("maxmemory"), "{text}");
    let there = refused(store.swap(&paid.key, Expect::Absent, claim(1, 2).hold()).await).unwrap();
    assert_eq!(there.record.state, State::Completed(answer("paid")));
    done(store.swap(&running.key, Expect::HeldBy(running.token), running.renew()).await);
    done(store.swap(&running.key, Expect::HeldBy(running.token), complete(&running, vec![1; 50_000])).await);
}

#[tokio::test]
async fn two_namespaces_on_one_redis_do_not_meet() {
    let server = RedisServer::start_with(&[]);
    let mine = claim(1, 1);
    let first = opened(&server).await;
    let other = Settings { namespace: "other".to_owned(), ..settings(Location::Redis(address_of(&server))) };
    let second = store::open(&other).await.unwrap();
    done(first.swap(&mine.key, Expect::Absent, mine.hold()).await);
    done(second.swap(&mine.key, Expect::Absent, mine.hold()).await);
    assert!(server.command(&["DBSIZE"]).starts_with(":2"), "{}", server.command(&["KEYS", "*"]));
}
