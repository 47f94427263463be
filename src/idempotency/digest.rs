//! `Digest`: SHA-256 over a domain and length-prefixed parts, the one way in which the core hashes.
//!
//! Two different sequences of parts never feed the hash the same bytes: every part carries its length, every
//! list its number of parts, and every use its own domain, which ends in a version. A change to what is hashed
//! under a domain changes that version.

use sha2::{Digest as _, Sha256};

/// A hash in the making.
#[derive(Clone)]
pub(crate) struct Digest(Sha256);

impl Digest {
    /// Starts a hash for one use, named by `domain`: `oncegate/cell/v1`, say.
    pub(crate) fn new(domain: &str) -> Self {
        let mut digest = Self(Sha256::new());
        digest.part(domain.as_bytes());
        digest
    }

    /// Adds one part.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len());
        self.0.update(bytes);
        self
    }

    /// Adds a number: how many parts follow, or which of several forms they have.
    pub(crate) fn number(&mut self, number: usize) -> &mut Self {
        self.0.update((number as u64).to_be_bytes());
        self
    }

    /// Adds a part that may be absent, which is something else than empty.
    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.number(1).part(bytes),
            None => self.number(0),
        }
    }

    /// Adds one part by its own hash: for what is large, and may one day be hashed while it streams past.
    pub(crate) fn hashed(&mut self, bytes: &[u8]) -> &mut Self {
        self.part(&Sha256::digest(bytes))
    }

    /// Adds a list of parts, its length first.
    pub(crate) fn list<'a>(&mut self, parts: impl ExactSizeIterator<Item = &'a [u8]>) -> &mut Self {
        self.number(parts.len());
        for part in parts {
            self.part(part);
        }
        self
    }

    /// The hash.
    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests;
