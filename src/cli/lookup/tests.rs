//! Tests of `cli::lookup`.

use super::*;

#[test]
fn the_flag_wins_over_the_variable_over_the_system() {
    let (folder, flag) = (tempfile::tempdir().expect("a folder"), Path::new("flag.toml"));
    let there = folder.path().join("oncegate.toml");
    std::fs::write(&there, "").expect("written");
    let absent = folder.path().join("absent.toml");
    let variable = || Some(OsString::from("variable.toml"));
    assert_eq!(find(Some(flag), variable(), &there), Place::Named(flag.to_owned()));
    assert_eq!(find(None, variable(), &there), Place::Named("variable.toml".into()));
    assert_eq!(find(None, None, &there), Place::System(there.clone()));
    assert_eq!(find(None, Some(OsString::new()), &there), Place::System(there));
    assert_eq!(find(None, None, &absent), Place::Nowhere);
}
