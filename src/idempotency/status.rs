//! What the status of an answer proves about the operation (CONTRACT §4): the default table, the presets, and a
//! route's own lists laid over them.

use std::fmt;

use http::StatusCode;

/// What a complete answer with some status proves about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    /// It was executed, and this is the answer.
    Store,
    /// By the upstream's word it was not executed: the key is free again.
    Release,
    /// Nothing.
    Unknown,
}

/// The statuses there are (`http::StatusCode`), and how many.
const FIRST: u16 = 100;
const LAST: u16 = 999;
const STATUSES: usize = (LAST - FIRST + 1) as usize;

/// The class of every status of one route (CONTRACT §4).
#[derive(Clone, PartialEq, Eq)]
pub struct StatusClasses {
    /// Classes of 100 ..= 999.
    table: Box<[StatusClass; STATUSES]>,
    /// Whether 503 is as by default: released if it carries `Retry-After`.
    default_503: bool,
}

/// A set of statuses as configuration writes it; the more specific wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// One status.
    Exact(u16),
    /// `411-415`, both ends included.
    Range(u16, u16),
    /// `4xx`, by its first digit.
    Class(u8),
}

impl StatusPattern {
    /// The statuses it covers, both ends included, within 100 ..= 999.
    #[must_use]
    pub fn bounds(self) -> (u16, u16) {
        match self {
            Self::Exact(status) => (status, status),
            Self::Range(first, last) => (first, last),
            Self::Class(digit) => (u16::from(digit) * 100, u16::from(digit) * 100 + 99),
        }
    }

    /// Whether it covers `status`.
    #[must_use]
    pub fn covers(self, status: u16) -> bool {
        let (first, last) = self.bounds();
        (first..=last).contains(&status)
    }

    /// How specific it is; the larger wins.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::Class(_) => 1,
            Self::Range(..) => 2,
            Self::Exact(_) => 3,
        }
    }
}

/// Two lists claim one status with equal right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusConflict {
    /// The status.
    pub status: u16,
    /// One of the two classes.
    pub first: StatusClass,
    /// The other one.
    pub second: StatusClass,
}

impl StatusClasses {
    /// The default classes with the route's own lists laid over them.
    ///
    /// # Errors
    /// A status that two different lists claim with patterns of equal rank.
    pub fn new(lists: &[(StatusPattern, StatusClass)]) -> Result<Self, StatusConflict> {
        let mut classes = Self::default();
        for status in FIRST..=LAST {
            let Some(class) = claimed(lists, status)? else { continue };
            classes.table[usize::from(status - FIRST)] = class;
            classes.default_503 &= status != 503;
        }
        Ok(classes)
    }

    /// The preset `stripe`: store everything but 401, 403, 409, 429.
    #[must_use]
    pub fn stripe() -> Self {
        Self::from_fn(false, |status| match status {
            401 | 403 | 409 | 429 => StatusClass::Release,
            _ => StatusClass::Store,
        })
    }

    /// The preset `success-only`: store 2xx and 3xx, release 4xx, hold everything else.
    #[must_use]
    pub fn success_only() -> Self {
        Self::from_fn(false, |status| match status {
            200..=399 => StatusClass::Store,
            400..=499 => StatusClass::Release,
            _ => StatusClass::Unknown,
        })
    }

    /// What `status` proves; `retry_after` is whether the answer carries that field.
    #[must_use]
    pub fn class(&self, status: StatusCode, retry_after: bool) -> StatusClass {
        if self.default_503 && retry_after && status == StatusCode::SERVICE_UNAVAILABLE {
            return StatusClass::Release;
        }
        let index = usize::from(status.as_u16()).checked_sub(usize::from(FIRST));
        index.and_then(|index| self.table.get(index)).copied().unwrap_or(StatusClass::Unknown)
    }

    fn from_fn(default_503: bool, class: impl Fn(u16) -> StatusClass) -> Self {
        let mut table = Box::new([StatusClass::Unknown; STATUSES]);
        for (status, slot) in (FIRST..=LAST).zip(table.iter_mut()) {
            *slot = class(status);
        }
        Self { table, default_503 }
    }
}

/// What `lists` say of `status`: the word of the most specific pattern, if any pattern covers it.
fn claimed(lists: &[(StatusPattern, StatusClass)], status: u16) -> Result<Option<StatusClass>, StatusConflict> {
    let covering = || lists.iter().filter(|(pattern, _)| pattern.covers(status));
    let Some(rank) = covering().map(|(pattern, _)| pattern.rank()).max() else { return Ok(None) };
    let mut words = covering().filter(|(pattern, _)| pattern.rank() == rank).map(|&(_, class)| class);
    let Some(first) = words.next() else { return Ok(None) };
    match words.find(|&class| class != first) {
        Some(second) => Err(StatusConflict { status, first, second }),
        None => Ok(Some(first)),
    }
}

impl Default for StatusClasses {
    /// The table of CONTRACT §4.
    fn default() -> Self {
        Self::from_fn(true, |status| match status {
            307 | 308 | 401 | 403 | 407 | 408 | 409 | 411..=415 | 417 | 421 | 423 | 425 | 426 | 428 | 429 | 431 => {
                StatusClass::Release
            }
            521 | 523 | 525 | 526 => StatusClass::Release,
            502 | 503 | 504 | 520 | 522 | 524 | 530 | 600.. => StatusClass::Unknown,
            // Not an answer at all.
            ..=199 => StatusClass::Unknown,
            _ => StatusClass::Store,
        })
    }
}

impl fmt::Debug for StatusClasses {
    /// The statuses of each class as ranges: nine hundred entries help nobody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        let mut start = 0;
        for index in 1..=self.table.len() {
            if index == self.table.len() || self.table[index] != self.table[start] {
                map.entry(&format_args!("{}-{}", 100 + start, 99 + index), &self.table[start]);
                start = index;
            }
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests;
