//! Watches one connection's clock: `header_timeout` from the first byte of a head, `idle_timeout` between requests.
//!
//! hyper's own `header_read_timeout` also runs while a kept connection is idle, so it cannot keep these two apart.
//! Not here: time limits of bodies (`body`) and exchanges (`exchange`).

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// Where a connection stands. Written by its IO and its requests, read by its watch.
#[derive(Debug)]
pub(super) struct Clock {
    opened: Instant,
    /// Exchanges that run on the connection.
    exchanges: AtomicUsize,
    /// Whether the connection has carried a request.
    used: AtomicBool,
    /// Whether a head has begun to arrive. Never so on h2, whose frames between requests mean nothing.
    in_head: AtomicBool,
    /// Since when the connection is in its present stand, in milliseconds since `opened`.
    since: AtomicU64,
    h2: AtomicBool,
    /// Whether bytes of an answer wait for the client to read: the answer is not over, although its body was handed
    /// over long ago.
    blocked: AtomicBool,
}

impl Clock {
    pub(super) fn start() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            exchanges: AtomicUsize::new(0),
            used: AtomicBool::new(false),
            in_head: AtomicBool::new(false),
            since: AtomicU64::new(0),
            h2: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
        })
    }

    /// From now on the connection is HTTP/2.
    pub(super) fn is_h2(&self) {
        self.h2.store(true, Relaxed);
        self.in_head.store(false, Relaxed);
    }

    /// A head is complete, its exchange runs until the returned value is dropped.
    pub(super) fn exchange(self: &Arc<Self>) -> Exchange {
        self.exchanges.fetch_add(1, Relaxed);
        self.used.store(true, Relaxed);
        self.in_head.store(false, Relaxed);
        Exchange(Arc::clone(self))
    }

    /// Whether an answer is still on its way out.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    /// Notes whether a write had to wait.
    fn wrote<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if self.blocked.swap(written.is_pending(), Relaxed) && written.is_ready() {
            self.since.store(self.now(), Relaxed);
        }
        written
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn bytes_arrived(&self) {
        if self.exchanges.load(Relaxed) == 0 && !self.h2.load(Relaxed) && !self.in_head.swap(true, Relaxed) {
            self.since.store(self.now(), Relaxed);
        }
    }

    /// When the connection is to be closed as things stand; `None` while an exchange runs or its answer is on its way out.
    fn deadline(&self, header_timeout: Duration, idle_timeout: Duration) -> Option<Instant> {
        if self.exchanges.load(Relaxed) > 0 || self.is_blocked() {
            return None;
        }
        let allowed = if self.in_head.load(Relaxed) {
            header_timeout
        } else if self.used.load(Relaxed) {
            idle_timeout
        } else {
            header_timeout.min(idle_timeout)
        };
        Some(self.opened + Duration::from_millis(self.since.load(Relaxed)) + allowed)
    }
}

/// One exchange on a connection, from its complete head to the end of its answer.
#[derive(Debug)]
pub(super) struct Exchange(Arc<Clock>);

impl Drop for Exchange {
    fn drop(&mut self) {
        // The stand changes before the count does: a watch that looks in between must not see an old `since`.
        self.0.since.store(self.0.now(), Relaxed);
        self.0.exchanges.fetch_sub(1, Relaxed);
    }
}

/// A connection's IO: what was sniffed first, then the socket; tells the clock when bytes arrive.
pub(super) struct ClockedIo<I> {
    sniffed: Bytes,
    io: I,
    clock: Arc<Clock>,
}

impl<I> ClockedIo<I> {
    pub(super) fn new(sniffed: Bytes, io: I, clock: Arc<Clock>) -> Self {
        Self { sniffed, io, clock }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for ClockedIo<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.sniffed.is_empty() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
            if buf.filled().len() > before {
                self.clock.bytes_arrived();
            }
        } else {
            let length = self.sniffed.len().min(buf.remaining());
            buf.put_slice(&self.sniffed[..length]);
            self.sniffed.advance(length);
            self.clock.bytes_arrived();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for ClockedIo<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.clock.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.clock.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A connection under watch: ends with it, or when its clock says so.
pub(super) struct Attended<C> {
    connection: Pin<Box<C>>,
    clock: Arc<Clock>,
    alarm: Pin<Box<Sleep>>,
    header_timeout: Duration,
    idle_timeout: Duration,
}

impl<C> Attended<C> {
    pub(super) fn new(connection: C, clock: Arc<Clock>, header_timeout: Duration, idle_timeout: Duration) -> Self {
        let alarm = Box::pin(tokio::time::sleep(header_timeout.min(idle_timeout)));
        Self { connection: Box::pin(connection), clock, alarm, header_timeout, idle_timeout }
    }

    /// The connection itself, to tell it to finish.
    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

/// How an attended connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself, well or badly.
    Closed,
    /// Its clock ran out.
    TimedOut,
}

impl<C: Future> Future for Attended<C> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::Closed);
        }
        // The connection's IO and requests move the clock within the poll above, so it is looked at behind it. The
        // alarm is only ever moved forward when it rings, or back when the deadline came nearer: most requests
        // touch no timer.
        loop {
            let now = Instant::now();
            let deadline = self.clock.deadline(self.header_timeout, self.idle_timeout);
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(Ended::TimedOut);
            }
            let next = deadline.unwrap_or(now + self.header_timeout.min(self.idle_timeout));
            if self.alarm.is_elapsed() || next < self.alarm.deadline() {
                self.alarm.as_mut().reset(next);
            }
            ready!(self.alarm.as_mut().poll(cx));
        }
    }
}
