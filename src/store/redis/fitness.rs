//! What a Redis must be to keep claims, looked at on every new connection and every few seconds.
//!
//! One `INFO` tells (it needs no right to `CONFIG`), and one trial cell shows that the user may do what will be
//! done. Not here: what follows from the verdict (`supervisor`).

use std::time::Duration;

use redis::{RedisError, cmd};

use super::{errors, link::Link, look, name, script::Sending, swap};
use crate::{
    idempotency::{CallerTag, ClaimToken, Expect, Fingerprint, Record, RecordKey, RouteName, State, WallMillis, Write},
    store::StoreError,
};

/// What is asked of a Redis.
#[derive(Clone, Debug)]
pub(super) struct Requirements {
    /// Prefix of every name.
    pub(super) namespace: String,
    /// Whether it may evict keys.
    pub(super) allow_eviction: bool,
}

/// Why a Redis is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does not answer, or not yet: trying again may help.
    Unreachable(String),
    /// It answers, and must not be used as it is: the setting to change.
    Unfit(String),
}

/// What it says about a Redis that `error` came of connecting to it, or of asking what it is.
pub(super) fn verdict(error: &RedisError, requirements: &Requirements) -> Verdict {
    let text = errors::refusal(error).unwrap_or_else(|| error.to_string());
    if error.code() == Some("NOPERM") {
        Verdict::Unfit(format!("{text}. {}", acl(&requirements.namespace)))
    } else if errors::is_unfit(error) {
        Verdict::Unfit(text)
    } else {
        Verdict::Unreachable(text)
    }
}

/// What is legal and unwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// No append-only file.
    NotDurable,
    /// Evicting, and allowed to.
    Evicting,
    /// No `maxmemory`.
    Unbounded,
}

impl Advice {
    /// For the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::NotDurable => {
                "a restart of Redis forgets every key, and a retry after it runs again: set appendonly yes"
            }
            Self::Evicting => {
                "Redis evicts keys (store.allow_eviction): it will forget claims, and their retries will run again"
            }
            Self::Unbounded => {
                "Redis has no maxmemory: when the machine is full, Redis is killed; set maxmemory, with noeviction"
            }
        }
    }
}

/// Looks at the Redis behind `link`.
pub(super) async fn examine(link: &Link, requirements: &Requirements) -> Result<Vec<Advice>, Verdict> {
    let mut connection = link.lane(false);
    let info: String = cmd("INFO").query_async(&mut connection).await.map_err(|error| verdict(&error, requirements))?;
    judge(&info, requirements.allow_eviction)
}

/// Whether `info` describes a Redis that can keep claims.
fn judge(info: &str, allow_eviction: bool) -> Result<Vec<Advice>, Verdict> {
    let unfit = |text: String| Err(Verdict::Unfit(text));
    if field(info, "loading") == Some("1") {
        return Err(Verdict::Unreachable("LOADING: Redis is still loading its data".to_owned()));
    }
    let Some(version) = field(info, "redis_version") else {
        return unfit("what answers is not a Redis: INFO names no redis_version".to_owned());
    };
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 7) {
        return unfit(format!("Redis {version} is too old: 7.0 or later is needed (SET with NX and GET)"));
    }
    if let Some(role) = field(info, "role").filter(|role| *role != "master") {
        return unfit(format!("this Redis is a {role}: point store.url at the primary"));
    }
    if field(info, "cluster_enabled") == Some("1") {
        return unfit("this Redis is a cluster node: redis:// is for a single Redis".to_owned());
    }
    let mut advice = Vec::new();
    match field(info, "maxmemory_policy") {
        Some("noeviction") | None => {}
        Some(_) if allow_eviction => advice.push(Advice::Evicting),
        Some(policy) => {
            return unfit(format!(
                "maxmemory-policy is {policy}: this Redis evicts keys, and a forgotten claim is a second execution. Set \
                 maxmemory-policy noeviction (CONFIG SET and in redis.conf), give oncegate a Redis of its own, or accept \
                 the loss with store.allow_eviction = true"
            ));
        }
    }
    if field(info, "maxmemory") == Some("0") {
        advice.push(Advice::Unbounded);
    }
    if field(info, "aof_enabled") == Some("0") {
        advice.push(Advice::NotDurable);
    }
    Ok(advice)
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Pings, and makes, reads and removes a trial cell, so that a missing right is found here and not by a client.
pub(super) async fn rehearse(link: &Link, requirements: &Requirements) -> Result<(), Verdict> {
    fit_for_use(link.ping().await, requirements)?;
    // A cell of its own: nobody else's rehearsal may answer for this one.
    let mut key = RecordKey([0; 32]);
    getrandom::fill(&mut key.0).map_err(|error| Verdict::Unreachable(error.to_string()))?;
    let name = name(&requirements.namespace, &key);
    let token = ClaimToken([0; 16]);
    let record = Record {
        token,
        fingerprint: Fingerprint([0; 32]),
        caller: CallerTag([0; 32]),
        lease: Duration::from_millis(1),
        retention: Duration::from_secs(1),
        began: WallMillis(0),
        route: RouteName::from("_rehearsal"),
        state: State::Claimed,
    };
    let hold = Write::Hold(record);
    fit_for_use(swap(link, &key, &name, Expect::Absent, &hold, Sending::InFull).await, requirements)?;
    fit_for_use(look(link, &key, &name).await, requirements)?;
    fit_for_use(swap(link, &key, &name, Expect::Occupied(token), &Write::Clear, Sending::ByHash).await, requirements)
}

/// What the outcome of a rehearsed operation says about the Redis.
fn fit_for_use<T>(outcome: Result<T, StoreError>, requirements: &Requirements) -> Result<(), Verdict> {
    match outcome {
        Ok(_) | Err(StoreError::Corrupt(_)) => Ok(()),
        Err(StoreError::Refused(text)) if errors::is_about_rights(&text) => {
            Err(Verdict::Unfit(format!("{text}. {}", acl(&requirements.namespace))))
        }
        // A full disk or memory passes, and stops no replay.
        Err(StoreError::Refused(_)) => Ok(()),
        Err(StoreError::NotSent(error) | StoreError::InDoubt(error)) => Err(Verdict::Unreachable(error.to_string())),
    }
}

/// What the user of `store.url` needs.
fn acl(namespace: &str) -> String {
    format!(
        "The user needs: ACL SETUSER oncegate on >PASSWORD ~{namespace}:* resetchannels -@all +ping +info +select +get \
         +getrange +set +del +pttl +eval +evalsha"
    )
}

#[cfg(test)]
mod tests;
