//! How the program ends: the complete list of exit codes (sysexits.h where it has a word for it).

use std::process::ExitCode;

use crate::app::Failure;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// What was asked about is not so.
    Failed = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// Store, upstream or gate unreachable or refused.
    Unavailable = 69,
    /// A listener cannot be bound.
    CannotBind = 71,
    /// The store's file is in use, or cannot be opened.
    StoreFile = 73,
    /// The configuration is not valid.
    Config = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::StoreUnfit(_) => Self::Unavailable,
            Failure::StoreFile(_) => Self::StoreFile,
            Failure::Bind { .. } => Self::CannotBind,
            Failure::Internal(_) => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests;
