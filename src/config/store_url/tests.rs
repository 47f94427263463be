//! Tests of `config::store_url`.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Location, String> {
    <Location as Text>::parse(text).map_err(|complaint| complaint.message)
}

fn redis(host: &str, port: u16, username: Option<&str>, password: Option<&str>, database: u32) -> Location {
    let endpoint = RedisEndpoint::Tcp(host.to_owned(), port);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Location::Redis(RedisAddress { endpoint, username: owned(username), password: owned(password), database })
}

#[test]
fn stores_are_told_by_their_scheme() {
    for (text, location) in [
        ("memory:", Location::Memory),
        ("file:oncegate.redb", Location::File("oncegate.redb".into())),
        ("file:/var/lib/a b.redb", Location::File("/var/lib/a b.redb".into())),
        ("file:///var/lib/a.redb", Location::File("/var/lib/a.redb".into())),
        ("redis://redis", redis("redis", 6379, None, None, 0)),
        ("redis://redis:6380/3", redis("redis", 6380, None, None, 3)),
        ("redis://redis/", redis("redis", 6379, None, None, 0)),
        ("redis://[::1]:6380/0", redis("::1", 6380, None, None, 0)),
        ("redis://:pass@redis/1", redis("redis", 6379, None, Some("pass"), 1)),
        ("redis://user:p%40s%2Fs%25@redis", redis("redis", 6379, Some("user"), Some("p@s/s%"), 0)),
        ("redis://us%3Aer:@redis", redis("redis", 6379, Some("us:er"), None, 0)),
    ] {
        assert_eq!(parse(text), Ok(location), "{text}");
    }
    let unix = |path: &str, database, username: Option<&str>, password: Option<&str>| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let endpoint = RedisEndpoint::Unix(path.into());
        Ok(Location::Redis(RedisAddress { endpoint, username: owned(username), password: owned(password), database }))
    };
    assert_eq!(parse("redis+unix:/run/redis.sock"), unix("/run/redis.sock", 0, None, None));
    assert_eq!(parse("redis+unix:///run/redis.sock"), unix("/run/redis.sock", 0, None, None));
    assert_eq!(parse("redis+unix:r.sock?db=2&user=u&pass=p%26"), unix("r.sock", 2, Some("u"), Some("p&")));
}

#[test]
fn a_wrong_store_is_told_why_without_showing_a_password() {
    for (text, message) in [
        ("", "the URL has no scheme"),
        ("oncegate.redb", "the URL has no scheme"),
        ("memory:x", "nothing follows `memory:`"),
        ("file:", "`file:` names no file"),
        ("file:dir/", "`file:` names no file"),
        ("redis:x", "`redis:` is followed by `//`"),
        ("redis://", "there is no HOST:PORT in the URL"),
        ("redis://:hunter2@", "there is no HOST:PORT in the URL"),
        ("redis://:hunter2@a:b:c", "there is no HOST:PORT in the URL"),
        ("redis://hunter2@a", "there is a user without a password"),
        ("redis://:hun@ter2@a", "the password has characters that are not encoded"),
        ("redis://:hun/ter2@a", "a `/` in user or password is not encoded"),
        ("redis://:hun?ter2@a", "the URL has no query and no fragment"),
        ("redis://:hunter%2@a", "user or password is not percent-encoded properly"),
        ("redis://:%FF@a", "user or password is not percent-encoded properly"),
        ("redis://a/x", "the database is not a number"),
        ("redis://a/99999999999", "the database is not a number"),
        ("redis://a/-1", "the database is not a number"),
        ("redis+unix:", "there is no path after `redis+unix:`"),
        ("redis+unix:/a?x=1", "the query of the URL is not known"),
        ("redis+unix:/a?db", "the query of the URL is not known"),
        ("rediss://a", "`rediss` is not supported by this version"),
        ("redis+sentinel://a", "`redis+sentinel` is not supported by this version"),
        ("redis+cluster://a", "`redis+cluster` is not supported by this version"),
        ("postgres://a", "the scheme of the URL is not known here"),
        ("hunter2:x", "the scheme of the URL is not known here"),
    ] {
        assert_eq!(parse(text), Err(message.to_owned()), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_location_or_a_complaint(text in any::<String>()) {
        for prefix in ["", "file:", "redis://", "redis://:", "redis+unix:", "redis+unix:a?"] {
            let _ = parse(&format!("{prefix}{text}"));
        }
    }

    #[test]
    fn no_complaint_shows_what_may_be_a_password(password in "[a-z]{12}", before in "[a-z:@/?#%]{0,3}", after in "[a-z:@/?#%]{0,6}") {
        let complaint = <Location as Text>::parse(&format!("redis://{before}:{password}{after}"));
        if let Err(complaint) = complaint {
            let shown = format!("{complaint:?}");
            prop_assert!(!shown.contains(&password), "{}", shown);
        }
    }
}
