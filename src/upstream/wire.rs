//! The socket of one connection, and the count of what it took.
//!
//! Evidence is made here: how many bytes of the current request the kernel accepted, and whether the end of the head was
//! among them. The counts are final only once the task that drives the connection has ended.
//! Not here: HTTP. The only thing known about it is that a head ends with an empty line.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use rustix::net::RecvFlags;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

use super::Evidence;

/// The end of a head.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What both sides of a connection share: the task that drives it, and the one who uses it.
#[derive(Debug)]
pub(super) struct Wire {
    /// Emptied, and so closed, by whoever drives the connection.
    socket: Mutex<Option<Socket>>,
    /// Bytes of the current request that the kernel accepted.
    written: AtomicU64,
    /// How much of [`HEAD_END`] the last of them match; all of it once the head is complete.
    matched: AtomicU8,
    /// The body of the current request has ended.
    ended: AtomicBool,
    /// Nothing of the current request waits to be written.
    flushed: AtomicBool,
    /// A write failed: nothing more is written.
    broken: AtomicBool,
}

/// The driving end of a [`Wire`]. Dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Counted(Arc<Wire>);

impl Wire {
    /// Puts a socket on a wire.
    pub(super) fn new(socket: Socket) -> (Arc<Self>, Counted) {
        let wire = Arc::new(Self {
            socket: Mutex::new(Some(socket)),
            written: AtomicU64::new(0),
            matched: AtomicU8::new(0),
            ended: AtomicBool::new(false),
            flushed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        });
        (Arc::clone(&wire), Counted(wire))
    }

    /// A new request: counts from zero.
    pub(super) fn begin(&self, without_body: bool) {
        self.written.store(0, Ordering::Release);
        self.matched.store(0, Ordering::Release);
        self.flushed.store(false, Ordering::Release);
        self.ended.store(without_body, Ordering::Release);
    }

    /// The body of the request has ended; its last bytes may still wait to be written.
    pub(super) fn body_ended(&self) {
        self.flushed.store(false, Ordering::Release);
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the kernel has accepted the whole request.
    pub(super) fn is_sent(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            && self.flushed.load(Ordering::Acquire)
            && !self.broken.load(Ordering::Acquire)
    }

    /// What the peer can have seen of the current request. To be believed only when nothing is written any more.
    pub(super) fn evidence(&self) -> Evidence {
        if self.written.load(Ordering::Acquire) == 0 {
            Evidence::NeverWritten
        } else if usize::from(self.matched.load(Ordering::Acquire)) < HEAD_END.len() {
            Evidence::HeadIncomplete
        } else {
            Evidence::Lost
        }
    }

    /// Asks the kernel, not the event loop, whether an idle connection is still open and silent. A peer that has closed,
    /// or has spoken out of turn, must not get another request.
    pub(super) fn is_quiet(&self) -> bool {
        let socket = self.lock();
        let Some(socket) = socket.as_ref() else { return false };
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = match socket {
            Socket::Tcp(stream) => rustix::net::recv(stream, &mut byte, flags),
            Socket::Unix(stream) => rustix::net::recv(stream, &mut byte, flags),
        };
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Socket>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, operate: impl FnOnce(Pin<&mut dyn Stream>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match self.lock().as_mut() {
            Some(Socket::Tcp(stream)) => operate(Pin::new(stream)),
            Some(Socket::Unix(stream)) => operate(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Counts what a write took. When the peer has hung up within a request, its failure is told as a success that goes
    /// nowhere: the peer may have answered before, and the answer is still to be read. If there is none, reading ends soon.
    /// A request of which nothing was taken has no answer: its failure stands.
    fn count(&self, outcome: io::Result<usize>, offered: &[IoSlice<'_>]) -> io::Result<usize> {
        match outcome {
            Ok(taken) => {
                self.flushed.store(false, Ordering::Release);
                self.scan(offered, taken);
                self.written.fetch_add(taken as u64, Ordering::AcqRel);
                Ok(taken)
            }
            Err(error) => {
                self.broken.store(true, Ordering::Release);
                let hung_up = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
                if hung_up && self.written.load(Ordering::Acquire) > 0 { Ok(length(offered)) } else { Err(error) }
            }
        }
    }

    fn scan(&self, offered: &[IoSlice<'_>], taken: usize) {
        let mut matched = usize::from(self.matched.load(Ordering::Acquire));
        if matched == HEAD_END.len() {
            return;
        }
        for byte in offered.iter().flat_map(|slice| slice.iter()).take(taken) {
            matched = match (*byte == HEAD_END[matched], *byte == HEAD_END[0]) {
                (true, _) => matched + 1,
                (false, true) => 1,
                (false, false) => 0,
            };
            if matched == HEAD_END.len() {
                break;
            }
        }
        // At most four.
        self.matched.store(u8::try_from(matched).unwrap_or(u8::MAX), Ordering::Release);
    }
}

fn length(slices: &[IoSlice<'_>]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}

/// What a socket can do, whatever its kind.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

impl AsyncRead for Counted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.with(|stream| stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let offered = [IoSlice::new(buf)];
        if self.0.broken.load(Ordering::Acquire) {
            return Poll::Ready(Ok(buf.len()));
        }
        self.0.with(|stream| stream.poll_write(cx, buf)).map(|outcome| self.0.count(outcome, &offered))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.0.broken.load(Ordering::Acquire) {
            return Poll::Ready(Ok(length(bufs)));
        }
        self.0.with(|stream| stream.poll_write_vectored(cx, bufs)).map(|outcome| self.0.count(outcome, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Sockets do not buffer; hyper asks only when it holds nothing back itself.
        self.0.flushed.store(true, Ordering::Release);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.with(|stream| stream.poll_shutdown(cx))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

#[cfg(test)]
mod tests;
