//! Whose key is it: the caller, and the name of the cell (CONTRACT §3.4).

use std::fmt;

use http::HeaderMap;

use super::{key::IdempotencyKey, policy::ScopeRules, record::CallerTag};

/// Who owns a key: a digest over the scope sources that are present, and the tag of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Digest of the identity: of the credentials, or of `iss` and `sub` where one is a JWT.
    identity: [u8; 32],
    /// Hash of the whole credentials.
    tag: CallerTag,
    /// Whether an unverified JWT named the caller.
    by_unverified_jwt: bool,
}

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerError {
    /// None of the sources is there.
    Unknown,
    /// One source is there twice.
    Twice,
}

impl Caller {
    /// The caller of a request under `rules`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(rules: &ScopeRules, headers: &HeaderMap) -> Result<Self, CallerError> {
        let _ = (rules, headers);
        Err(CallerError::Unknown)
    }

    /// See [`CallerTag`].
    #[must_use]
    pub fn tag(&self) -> CallerTag {
        self.tag
    }

    /// Whether an unverified JWT named the caller: worth one warning per process (CONTRACT §6).
    #[must_use]
    pub fn is_by_unverified_jwt(&self) -> bool {
        self.by_unverified_jwt
    }
}

/// The name of a cell: a digest of namespace, caller and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(pub [u8; 32]);

impl RecordKey {
    /// Names the cell of `key` under `caller`.
    #[must_use]
    pub fn derive(namespace: &str, caller: &Caller, key: &IdempotencyKey) -> Self {
        let _ = (namespace, key);
        Self(caller.identity)
    }
}

impl fmt::Display for RecordKey {
    /// All of it, in hex: how operators name a cell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecordKey {
    /// The first four bytes in hex.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "cell:{a:02x}{b:02x}{c:02x}{d:02x}")
    }
}
