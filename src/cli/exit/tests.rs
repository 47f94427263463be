//! Tests of `cli::exit`.

use std::io;

use super::*;

#[test]
fn every_failure_to_run_has_its_exit_code() {
    let bind = Failure::Bind { key: "server.listen", address: "x".to_owned(), source: io::Error::other("no") };
    for (failure, code) in [
        (Failure::StoreUnfit("evicts".to_owned()), 69),
        (bind, 71),
        (Failure::StoreFile("in use".to_owned()), 73),
        (Failure::Internal("bug".to_owned()), 1),
    ] {
        assert_eq!(Exit::from(&failure) as u8, code, "{failure}");
    }
}
