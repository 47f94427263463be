//! Where the store is: `file:PATH`, `memory:`, `redis://…`, `redis+unix:PATH`.
//!
//! No message shows the URL or a part of it that may be a password.

use super::{
    places::{host_and_port, socket_path},
    read::{Complaint, Text},
    schema::closest,
};
use crate::store::{Location, RedisAddress, RedisEndpoint};

impl Text for Location {
    const EXPECTED: &'static str = "a URL like \"file:oncegate.redb\", \"memory:\" or \"redis://127.0.0.1:6379/0\"";
    const DISCREET: bool = true;

    fn parse(text: &str) -> Result<Self, Complaint> {
        const KNOWN: [&str; 4] = ["file", "memory", "redis", "redis+unix"];
        let Some((scheme, rest)) = text.split_once(':') else {
            let hint = "`file:PATH`, `memory:`, `redis://HOST:PORT/DB` or `redis+unix:PATH`";
            return Err(Complaint::new("the URL has no scheme").hint(hint));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(Complaint::new("nothing follows `memory:`")),
            "file" => {
                let path = rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest);
                if path.is_empty() || path.ends_with('/') || path.contains('\0') {
                    return Err(Complaint::new("`file:` names no file").hint("such as `file:oncegate.redb`"));
                }
                Ok(Self::File(path.into()))
            }
            "redis" => match rest.strip_prefix("//") {
                Some(rest) => redis_tcp(rest).map(Self::Redis),
                None => Err(Complaint::new("`redis:` is followed by `//`").hint("`redis://HOST:PORT/DB`")),
            },
            "redis+unix" => redis_unix(rest).map(Self::Redis),
            "rediss" | "redis+sentinel" | "redis+cluster" => {
                let hint = "it comes later; this version knows `redis://` and `redis+unix:`";
                Err(Complaint::new(format!("`{scheme}` is not supported by this version")).hint(hint))
            }
            _ => {
                let hint = match closest(scheme, KNOWN) {
                    Some(meant) => format!("did you mean `{meant}:`?"),
                    None => "`file:`, `memory:`, `redis:` or `redis+unix:`".to_owned(),
                };
                Err(Complaint::new("the scheme of the URL is not known here").hint(hint))
            }
        }
    }
}

/// `[user:pass@]host:port/db`
fn redis_tcp(rest: &str) -> Result<RedisAddress, Complaint> {
    if rest.contains(['?', '#']) {
        let hint = "percent-encode a `?` or `#` in a password: `%3F`, `%23`";
        return Err(Complaint::new("the URL has no query and no fragment").hint(hint));
    }
    let (authority, database) = match rest.rsplit_once('@') {
        // A slash in a password would otherwise be taken for the end of the host.
        Some((userinfo, rest)) if userinfo.contains('/') => {
            let _ = rest;
            return Err(Complaint::new("a `/` in user or password is not encoded").hint("write it as `%2F`"));
        }
        Some(_) | None => rest.split_once('/').unwrap_or((rest, "")),
    };
    let (userinfo, place) = match authority.rsplit_once('@') {
        Some((userinfo, place)) => (Some(userinfo), place),
        None => (None, authority),
    };
    let (username, password) = match userinfo {
        None => (None, None),
        Some(userinfo) => {
            let Some((user, password)) = userinfo.split_once(':') else {
                let hint = "`redis://:PASSWORD@HOST` or `redis://USER:PASSWORD@HOST`";
                return Err(Complaint::new("there is a user without a password").hint(hint));
            };
            if password.contains(['@', ':']) {
                let hint = "percent-encode `@` and `:` in it: `%40`, `%3A`";
                return Err(Complaint::new("the password has characters that are not encoded").hint(hint));
            }
            (Some(percent_decoded(user)?).filter(|user| !user.is_empty()), Some(percent_decoded(password)?))
        }
    };
    // Without the text: a password with an `@` too many would be shown.
    let (host, port) = host_and_port(place, Some(6379))
        .map_err(|_| Complaint::new("there is no HOST:PORT in the URL").hint("`redis://HOST:PORT/DB`"))?;
    Ok(RedisAddress {
        endpoint: RedisEndpoint::Tcp(host, port),
        username,
        password: password.filter(|password| !password.is_empty()),
        database: database_number(database)?,
    })
}

/// `PATH[?db=N&user=U&pass=P]`: a path has no place for them.
fn redis_unix(rest: &str) -> Result<RedisAddress, Complaint> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let endpoint = RedisEndpoint::Unix(socket_path(path).map_err(|complaint| {
        if path.is_empty() { Complaint::new("there is no path after `redis+unix:`") } else { complaint }
    })?);
    let mut address = RedisAddress { endpoint, username: None, password: None, database: 0 };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("db", number)) => address.database = database_number(number)?,
            Some(("user", user)) => address.username = Some(percent_decoded(user)?),
            Some(("pass", password)) => address.password = Some(percent_decoded(password)?),
            Some(_) | None => {
                let hint = "`redis+unix:PATH?db=0&user=USER&pass=PASSWORD`";
                return Err(Complaint::new("the query of the URL is not known").hint(hint));
            }
        }
    }
    Ok(address)
}

fn database_number(text: &str) -> Result<u32, Complaint> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Complaint::new("the database is not a number").hint("`redis://HOST:PORT/0`"))
}

fn percent_decoded(text: &str) -> Result<String, Complaint> {
    let wrong = || Complaint::new("user or password is not percent-encoded properly").hint("write a `%` as `%25`");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
