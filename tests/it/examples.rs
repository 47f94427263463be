//! Every configuration file that is shipped can be used as it is, without any environment.

use std::path::{Path, PathBuf};

use oncegate::config::{self, Severity};

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_shipped_file_resolves_without_an_environment_and_without_a_warning() {
    let files = shipped();
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["minimal.toml", "oncegate.toml", "payments.toml", "sidecar.toml"]);
    for file in files {
        let loaded = config::load(&file, &|_| None).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let warned: Vec<_> = loaded.warnings.iter().filter(|problem| problem.severity != Severity::Note).collect();
        assert!(warned.is_empty(), "{}", config::render(&loaded.warnings, false));
    }
}
