//! The queue between the tasks that log and the thread that writes: bounded, never blocking the former.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

/// How many lines wait at most: several seconds of a busy gate, a few megabytes.
const LINES: usize = 8192;

/// How long the end of the process waits for the writer.
const FLUSH: Duration = Duration::from_millis(250);

/// Sends lines to the writer. Clones share it.
#[derive(Clone)]
pub(super) struct Queue {
    sender: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

enum Item {
    Line(String),
    /// Everything before it is written: say so.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the thread; it hands each line, with its line feed, to `write`, and ends with the last clone.
    pub(super) fn start(write: impl FnMut(&[u8]) + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        // Without the thread the receiver is gone, and every line counts as dropped.
        let _ = thread::Builder::new().name("log".to_owned()).spawn(move || run(&receiver, &counter, write));
        Self { sender, dropped }
    }

    /// Queues a line, or counts it as dropped.
    pub(super) fn write(&self, line: String) {
        if self.sender.try_send(Item::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was queued is written, for at most [`FLUSH`].
    pub(super) fn flush(&self) {
        let (done, written) = sync_channel(1);
        let start = std::time::Instant::now();
        // `send` would block for as long as the writer does; the queue is given the same time as the wait.
        let mut item = Item::Flush(done);
        while let Err(std::sync::mpsc::TrySendError::Full(back)) = self.sender.try_send(item) {
            if start.elapsed() > FLUSH {
                return;
            }
            item = back;
            thread::sleep(Duration::from_millis(5));
        }
        let _ = written.recv_timeout(FLUSH.saturating_sub(start.elapsed()));
    }
}

fn run(receiver: &Receiver<Item>, dropped: &AtomicU64, mut write: impl FnMut(&[u8])) {
    while let Ok(item) = receiver.recv() {
        match item {
            Item::Line(line) => write(line.as_bytes()),
            Item::Flush(done) => {
                let _ = done.try_send(());
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            // The event goes through the queue like any other; if that is full again, the count goes on.
            tracing::warn!(lost, "log lines were dropped: standard error is read too slowly");
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}
