//! The thread that alone touches the file: it judges, commits in groups, and answers what is durable.
//!
//! Callers that wait at the same time are concurrent, so any order among them will do: what changes nothing is
//! judged by the committed cells and answered before the commit, a replay never waits for the disk to sync.
//! Not here: who waits how long (`embedded`), which tables there are (`cells`).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    time::{Duration, Instant},
};

use redb::{Database, StorageBackend};

use super::{
    Change, Job, Task,
    cells::{CellError, Snapshot, Tables},
    clock::Clock,
    disk::Disk,
    open::Identity,
};
use crate::{
    idempotency::{StoreTime, Write, codec},
    store::StoreError,
};

/// Operations that share a commit.
const GROUP: usize = 256;
/// Bytes of answers that share a commit: bounds what one transaction holds in memory.
const GROUP_BYTES: usize = 8 << 20;
/// Expired cells looked at in a commit that happens anyway, per operation in it: more than one, so that the file
/// does not grow under load.
const SWEPT_PER_CHANGE: usize = 2;
/// Expired cells that are removed in a commit of their own, when nothing else is to be done.
const SWEPT_WHEN_IDLE: usize = 128;
/// How often the writer looks around.
const IDLE: Duration = Duration::from_secs(1);

/// The open file and its clock.
pub(super) struct Writer<B> {
    /// The cells as they are certainly on the disk: held while a commit is under way, and kept for good if it fails.
    /// The database takes a failed commit for done; what is read from it then must not be believed, or a claim
    /// that was never written would be its owner's when it asks again.
    pub(super) durable: Option<Snapshot>,
    pub(super) database: Database,
    pub(super) disk: Disk<B>,
    pub(super) clock: Clock,
    /// Where the file is, and which file it was when it was opened. `None` for a store without a path.
    pub(super) file: Option<(PathBuf, Identity)>,
    /// The time that is written down in the file.
    pub(super) written: StoreTime,
    /// When the writer last looked around.
    pub(super) looked_around: Instant,
    /// Whether the failure has been logged.
    pub(super) reported: bool,
}

impl<B: StorageBackend> Writer<B> {
    /// Serves until the last handle is gone, then closes the file.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(IDLE) {
                Ok(job) => self.serve(gather(job, jobs)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.looked_around.elapsed() >= IDLE {
                self.look_around(jobs);
                self.looked_around = Instant::now();
            }
        }
        if self.disk.failure().is_none() {
            self.guarded(|writer| writer.commit(Vec::new(), 0));
        }
    }

    /// Answers a group of jobs.
    fn serve(&mut self, group: Vec<Job>) {
        // The slots are given back when the whole group is answered.
        let (tasks, _slots): (Vec<_>, Vec<_>) = group.into_iter().map(|job| (job.task, job.slot)).unzip();
        let mut changes = Vec::new();
        self.guarded(|writer| writer.look(tasks, &mut changes));
        if changes.is_empty() {
            return;
        }
        if let Some(failure) = self.disk.failure() {
            for change in changes {
                let _ = change.answer.send(Err(refused(failure)));
            }
            return;
        }
        let sweep = changes.len() * SWEPT_PER_CHANGE;
        self.guarded(|writer| writer.commit(changes, sweep));
    }

    /// Answers everything that changes nothing, and keeps the rest.
    fn look(&self, tasks: Vec<Task>, changes: &mut Vec<Change>) -> Result<(), CellError> {
        let fresh;
        let snapshot = match &self.durable {
            Some(durable) => durable,
            None => {
                fresh = Snapshot::new(&self.database)?;
                &fresh
            }
        };
        for task in tasks {
            match task {
                Task::Ping { answer } => {
                    let health = self.disk.failure().map_or(Ok(()), |failure| Err(refused(failure)));
                    let _ = answer.send(health);
                }
                Task::Read { key, answer } => {
                    let occupant = snapshot.cell(&key).map(|cell| cell.occupant(self.clock.now()));
                    let _ = answer.send(occupant.map_err(unjudged));
                }
                Task::Swap(change) => {
                    // Nobody waits for this claim any more: better not made than left to lapse. Everything else
                    // is worth writing even so.
                    if change.answer.is_closed() && matches!(change.write, Write::Hold(_)) {
                        continue;
                    }
                    match snapshot.cell(&change.key) {
                        Err(error) => {
                            let _ = change.answer.send(Err(unjudged(error)));
                        }
                        Ok(before) => {
                            let mut cell = before.clone();
                            let swapped = cell.swap(change.expect, change.write.clone(), self.clock.now());
                            if cell == before {
                                let _ = change.answer.send(Ok(swapped));
                            } else {
                                changes.push(*change);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Carries changes out in one transaction, and answers when it is on the disk.
    fn commit(&mut self, changes: Vec<Change>, sweep: usize) -> Result<(), CellError> {
        let now = self.clock.now();
        let changes_nothing = changes.is_empty();
        self.durable = Some(Snapshot::new(&self.database)?);
        let mut transaction = self.database.begin_write()?;
        // Bodies come from strangers, and the checksum that a one-phase commit relies on can be forged by who
        // controls the content; and a killed process must not walk the whole file at its next start.
        transaction.set_quick_repair(true);
        let mut tables = Tables::open(&transaction)?;
        let mut answers = Vec::with_capacity(changes.len());
        for Change { key, expect, write, answer } in changes {
            let result = match tables.swap(&key, expect, write, self.clock.now()) {
                Ok((swapped, _)) => Ok(swapped),
                Err(CellError::Unreadable(error)) => Err(StoreError::Corrupt(error)),
                Err(error @ CellError::Database(_)) => return Err(error),
            };
            answers.push((answer, result));
        }
        tables.sweep(now, sweep)?;
        // Every second is often enough: a time that is a little too early makes records live a little longer.
        let set_clock = changes_nothing || now.since(self.written) >= Duration::from_secs(1);
        if set_clock {
            tables.set_clock(now)?;
        }
        drop(tables);
        let committed = transaction.commit();
        if let Err(error) = &committed {
            self.disk.freeze(format!("cannot commit: {error}"));
        }
        match self.disk.failure() {
            None => {
                self.durable = None;
                if set_clock {
                    self.written = now;
                }
                answers.into_iter().for_each(|(answer, result)| drop(answer.send(result)));
            }
            Some(failure) => answers.into_iter().for_each(|(answer, _)| {
                let _ = answer.send(Err(StoreError::InDoubt(failure.to_owned().into())));
            }),
        }
        Ok(())
    }

    /// What is done once in a while: the file is checked, and swept in small steps, between requests.
    fn look_around(&mut self, jobs: &Receiver<Job>) {
        if self.disk.failure().is_some() {
            return;
        }
        self.check_file();
        loop {
            let mut due = false;
            self.guarded(|writer| {
                due = Snapshot::new(&writer.database)?.first_end()?.is_some_and(|end| end <= writer.clock.now());
                if due { writer.commit(Vec::new(), SWEPT_WHEN_IDLE) } else { Ok(()) }
            });
            if !due || self.disk.failure().is_some() {
                return;
            }
            match jobs.try_recv() {
                Ok(job) => self.serve(gather(job, jobs)),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Runs a step. A step that fails or panics ends all writing: what is in memory may not be what is on disk.
    /// Whoever waits in it for an answer is told, by the loss of its channel, that nobody knows.
    fn guarded(&mut self, step: impl FnOnce(&mut Self) -> Result<(), CellError>) {
        match catch_unwind(AssertUnwindSafe(|| step(self))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.disk.freeze(error.to_string()),
            Err(_) => self.disk.freeze("the database failed on the content of its file".to_owned()),
        }
        if let Some(failure) = self.disk.failure()
            && !self.reported
        {
            self.reported = true;
            let file = self.file.as_ref().map(|(path, _)| path.display().to_string()).unwrap_or_default();
            tracing::error!(
                file,
                "the store cannot be written any more, new operations are refused, kept answers are still replayed: \
                 {failure}. Make room or replace the disk, then restart oncegate"
            );
        }
    }

    /// A file that was deleted or replaced under us is another store: whoever opens it does not know our claims.
    fn check_file(&mut self) {
        if let Some((path, identity)) = &self.file
            && !identity.is_at(path)
        {
            self.disk.freeze("the file was removed or replaced while it was open".to_owned());
            self.guarded(|_| Ok(()));
        }
    }
}

/// Everything that waits already, up to a group: nobody waits for a later one.
fn gather(first: Job, jobs: &Receiver<Job>) -> Vec<Job> {
    let mut bytes = weight(&first);
    let mut group = vec![first];
    while group.len() < GROUP && bytes < GROUP_BYTES {
        match jobs.try_recv() {
            Ok(job) => {
                bytes += weight(&job);
                group.push(job);
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
        }
    }
    group
}

/// Roughly what a job adds to a transaction.
fn weight(job: &Job) -> usize {
    match &job.task {
        Task::Swap(change) => change.write.record().map_or(0, |record| codec::payload_size(&record.state)),
        Task::Read { .. } | Task::Ping { .. } => 0,
    }
}

fn refused(failure: &str) -> StoreError {
    StoreError::Refused(format!("the store's file cannot be written: {failure}"))
}

/// Before a commit was tried: nothing was applied.
fn unjudged(error: CellError) -> StoreError {
    match error {
        CellError::Unreadable(error) => StoreError::Corrupt(error),
        CellError::Database(error) => StoreError::Refused(format!("the store's file cannot be read: {error}")),
    }
}
