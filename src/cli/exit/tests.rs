use std::{io, path::PathBuf};

use super::*;
use crate::store::OpenError;

#[test]
fn every_failure_to_run_has_its_exit_code() {
    let file = PathBuf::from("oncegate.redb");
    let bind = Failure::Bind { key: "server.listen", address: "x".to_owned(), source: io::Error::other("no") };
    for (failure, code) in [
        (Failure::from(OpenError::Unfit("evicts".to_owned())), 69),
        (bind, 71),
        (Failure::from(OpenError::InUse(file.clone())), 73),
        (Failure::from(OpenError::File { path: file, source: "broken".into() }), 73),
        (Failure::Internal("bug".to_owned()), 1),
    ] {
        assert_eq!(Exit::from(&failure) as u8, code, "{failure}");
    }
}
