//! `file:PATH`: cells in one file of this machine, durable before anyone is told. One writer thread, group commit.
//!
//! `disk` is what the database writes to, `cells` what it holds, `writer` the thread that alone touches it, and
//! this file the handle that requests use. Not here: policy, and sharing: one process per file.

mod cells;
mod clock;
mod disk;
mod open;
mod writer;

use std::{
    sync::{
        Arc, mpsc,
        mpsc::{RecvTimeoutError, Sender},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout_at},
};

pub(super) use open::open;

use super::{Reply, Store, StoreError};
use crate::idempotency::{Expect, Occupant, RecordKey, Swapped, Write};

/// Operations that wait for the writer at one time. More wait outside the queue, and give up there.
const QUEUE: usize = 4096;

/// How long the last handle waits for the file to be closed. A disk that hangs must not keep the process.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// The handle of an open file. Dropping the last one closes the file.
#[derive(Debug)]
pub struct EmbeddedStore {
    /// `None` only while it is being dropped.
    jobs: Option<Sender<Job>>,
    slots: Arc<Semaphore>,
    timeout: Duration,
    /// Disconnected by the writer when the file is closed.
    closed: std::sync::Mutex<mpsc::Receiver<()>>,
}

/// One operation on its way to the writer.
#[derive(Debug)]
struct Job {
    task: Task,
    /// Held until the operation is answered, so that the queue stays bounded whatever callers do.
    slot: OwnedSemaphorePermit,
}

/// What the writer is asked for, and whom it answers.
#[derive(Debug)]
enum Task {
    Swap(Box<Change>),
    Read { key: RecordKey, answer: oneshot::Sender<Result<Option<Occupant>, StoreError>> },
    Ping { answer: oneshot::Sender<Result<(), StoreError>> },
}

/// A swap that waits to be carried out.
#[derive(Debug)]
struct Change {
    key: RecordKey,
    expect: Expect,
    write: Write,
    answer: oneshot::Sender<Result<Swapped, StoreError>>,
}

impl EmbeddedStore {
    /// Hands a task to the writer and waits for its answer, together at most `timeout`.
    async fn ask<T>(&self, task: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Task) -> Result<T, StoreError> {
        let deadline = Instant::now() + self.timeout;
        let slot = match timeout_at(deadline, Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(closed)) => return Err(StoreError::NotSent(closed.into())),
            Err(_) => return Err(StoreError::NotSent("the queue of the store is full".into())),
        };
        let (answer, reply) = oneshot::channel();
        let job = Job { task: task(answer), slot };
        match &self.jobs {
            Some(jobs) if jobs.send(job).is_ok() => {}
            Some(_) | None => return Err(StoreError::NotSent("the writer of the store has ended".into())),
        }
        match timeout_at(deadline, reply).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(StoreError::InDoubt("the store broke down over the operation".into())),
            Err(_) => Err(StoreError::InDoubt("the disk is slower than store.timeout".into())),
        }
    }
}

impl Store for EmbeddedStore {
    fn swap<'a>(&'a self, key: &'a RecordKey, expect: Expect, write: Write) -> Reply<'a, Swapped> {
        Box::pin(self.ask(move |answer| Task::Swap(Box::new(Change { key: *key, expect, write, answer }))))
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Occupant>> {
        Box::pin(self.ask(move |answer| Task::Read { key: *key, answer }))
    }

    fn ping(&self) -> Reply<'_, ()> {
        Box::pin(self.ask(|answer| Task::Ping { answer }))
    }
}

impl Drop for EmbeddedStore {
    /// Lets the writer finish what it was given and close the file, so that the next process finds it free.
    fn drop(&mut self) {
        self.jobs = None;
        let closed = self.closed.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(RecvTimeoutError::Timeout) = closed.recv_timeout(CLOSE_PATIENCE) {
            tracing::error!(
                "the store's disk does not answer; the file is left as it is and repaired at the next start"
            );
        }
    }
}

#[cfg(test)]
mod tests;
