//! A folder of our own that goes when we go.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A temporary folder; removed with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes one that nobody else can read, under a name that nobody can guess.
    pub(super) fn create() -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = std::env::temp_dir().join(format!("oncegate-demo-{:016x}", u64::from_ne_bytes(random)));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
