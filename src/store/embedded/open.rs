//! How an embedded store is opened: found fit, made ours alone, recovered, and given its writer.
//!
//! Nothing is served before every claim of the previous process is written down as unknown. Not here: what runs
//! afterwards (`writer`).

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use redb::{Builder, Database, DatabaseError, StorageBackend, StorageError, backends::FileBackend};
use tokio::sync::Semaphore;

use super::{
    EmbeddedStore, QUEUE,
    cells::Tables,
    clock::{self, Clock},
    disk::Disk,
    writer::Writer,
};
use crate::{
    idempotency::StoreTime,
    store::{BoxError, OpenError},
};

/// Pages kept in memory. The operating system caches the file besides.
const CACHE: usize = 32 << 20;

/// A file that redb does not know. It is never taken for an empty store: that would forget every key.
const NOT_A_STORE: &str = "it is not a store of oncegate: point store.url at another file, or delete it if it is new \
                           and its making was interrupted";

/// Opens or creates the store at `path`. Blocks: on the disk, and on the repair of a file that was not closed.
pub(in crate::store) fn open(path: &Path, timeout: Duration) -> Result<EmbeddedStore, OpenError> {
    let failed = |source: BoxError| OpenError::File { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600) // Answers are in it.
        .open(path)
        .map_err(|error| failed(explained(error)))?;
    let metadata = file.metadata().map_err(|error| failed(error.into()))?;
    if !metadata.is_file() {
        return Err(failed("it is not a regular file".into()));
    }
    check_file_system(path, &file).map_err(failed)?;
    if metadata.len() == 0 {
        tracing::info!(file = %path.display(), "a new store is made: no key is known in it");
        // A file that is not in its folder after a power loss is a store that forgot everything.
        folder(path).and_then(|folder| File::open(folder)?.sync_all()).map_err(|error| failed(error.into()))?;
    }
    let backend = FileBackend::new(file).map_err(|error| failed(error.into()))?;
    let writer =
        start(backend, clock::wall(), Some((path.to_owned(), Identity::of(&metadata)))).map_err(
            |error| match error {
                StartError::InUse => OpenError::InUse(path.to_owned()),
                StartError::Failed(source) => failed(source),
            },
        )?;
    launch(writer, timeout).map_err(|error| failed(error.into()))
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Whether the file at `path` is this one.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        match std::fs::metadata(path) {
            Ok(metadata) => Self::of(&metadata) == *self,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

/// Why a database could not be made ready.
#[derive(Debug)]
pub(super) enum StartError {
    /// Someone else has it open.
    InUse,
    /// Anything else.
    Failed(BoxError),
}

impl<E: Into<redb::Error>> From<E> for StartError {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error.into()))
    }
}

/// Opens the database on `backend`, repairs it if it was not closed, and recovers the claims of the previous
/// process, in one transaction. `wall` is the wall clock.
pub(super) fn start<B: StorageBackend>(
    backend: B,
    wall: Duration,
    file: Option<(PathBuf, Identity)>,
) -> Result<Writer<B>, StartError> {
    let disk = Disk::new(backend);
    // The database checks most of what it reads; what it does not check may still make it panic.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let database = database(disk.clone())?;
        let (clock, written, recovered) = recover(&database, wall)?;
        Ok::<_, StartError>((database, clock, written, recovered))
    }));
    let (database, clock, written, recovered) =
        opened.unwrap_or_else(|_| Err(StartError::Failed("its content is damaged".into())))?;
    if let Some(failure) = disk.failure() {
        return Err(StartError::Failed(failure.to_owned().into()));
    }
    if recovered > 0 {
        tracing::warn!(
            claims = recovered,
            "requests were running when the previous process ended; their outcome is unknown, and they will not be \
             repeated unless their route says so"
        );
    }
    Ok(Writer { durable: None, database, disk, clock, file, written, looked_around: Instant::now(), reported: false })
}

fn database<B: StorageBackend>(disk: Disk<B>) -> Result<Database, StartError> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder.set_repair_callback(|_| tracing::info!("the store was not closed properly and is being repaired"));
    builder.create_with_backend(disk).map_err(|error| {
        if matches!(error, DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch) {
            return StartError::InUse;
        }
        if let DatabaseError::Storage(StorageError::Io(cause)) = &error
            && cause.kind() == io::ErrorKind::InvalidData
        {
            return StartError::Failed(NOT_A_STORE.into());
        }
        error.into()
    })
}

fn recover(database: &Database, wall: Duration) -> Result<(Clock, StoreTime, u64), StartError> {
    let failed = |error: super::cells::CellError| StartError::Failed(Box::new(error));
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    let mut tables = Tables::open(&transaction).map_err(failed)?;
    if let Some(format) = tables.check_format().map_err(failed)? {
        return Err(StartError::Failed(
            format!("its layout {format} is not known to this version of oncegate: use the version that wrote it")
                .into(),
        ));
    }
    let clock = Clock::starting(wall, tables.clock().map_err(failed)?);
    let now = clock.now();
    let recovered = tables.recover(now).map_err(failed)?;
    tables.set_clock(now).map_err(failed)?;
    drop(tables);
    transaction.commit()?;
    Ok((clock, now, recovered))
}

/// Starts the thread of `writer`.
pub(super) fn launch<B: StorageBackend>(writer: Writer<B>, timeout: Duration) -> io::Result<EmbeddedStore> {
    let (jobs, queue) = mpsc::channel();
    let (alive, closed) = mpsc::channel::<()>();
    thread::Builder::new().name("oncegate-store".to_owned()).spawn(move || {
        writer.run(&queue);
        // Tells the last handle that the file is closed.
        drop(alive);
    })?;
    Ok(EmbeddedStore { jobs: Some(jobs), slots: Arc::new(Semaphore::new(QUEUE)), timeout, closed: Mutex::new(closed) })
}

/// A store whose locks or syncs cannot be relied on would break the promise in silence.
fn check_file_system(path: &Path, file: &File) -> Result<(), BoxError> {
    const NFS: u64 = 0x6969;
    const SMB: [u64; 3] = [0x517B, 0xFE53_4D42, 0xFF53_4D42];
    const TMPFS: [u64; 2] = [0x0102_1994, 0x8584_58F6];
    const OVERLAYFS: u64 = 0x794C_7630;
    let kind = rustix::fs::fstatfs(file).map_err(io::Error::from)?.f_type as u64 & 0xFFFF_FFFF;
    if kind == NFS || SMB.contains(&kind) {
        return Err(
            "it is on a network file system, whose locks and syncs cannot be relied on: use a local disk, or a \
                    Redis (store.url = \"redis://…\")"
                .into(),
        );
    }
    if TMPFS.contains(&kind) {
        tracing::warn!(file = %path.display(), "the store is kept in memory by its file system: a restart of the machine forgets every key");
    }
    if kind == OVERLAYFS {
        tracing::warn!(file = %path.display(), "the store is inside the container: it is gone with it. Put it on a volume");
    }
    Ok(())
}

/// The reason, with what to do about it.
fn explained(error: io::Error) -> BoxError {
    const HINTS: [(io::ErrorKind, &str); 4] = [
        (io::ErrorKind::NotFound, "the folder does not exist: create it"),
        (io::ErrorKind::PermissionDenied, "this user may not read and write it: change the owner of the folder"),
        (io::ErrorKind::ReadOnlyFilesystem, "the file system is mounted read-only: put the store on a volume"),
        (io::ErrorKind::IsADirectory, "it is a folder: name a file in it"),
    ];
    match HINTS.iter().find(|(kind, _)| *kind == error.kind()) {
        Some((_, hint)) => format!("{hint} ({error})").into(),
        None => error.into(),
    }
}

/// Where the file is.
fn folder(path: &Path) -> io::Result<&Path> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(parent) => Ok(parent),
        None => Err(io::ErrorKind::InvalidFilename.into()),
    }
}
