//! The client's side of a connection: its socket, its address, and whether it is still there.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustix::net::RecvFlags;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A client's socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// How long a client that has closed its side of the connection is taken for one that still listens.
///
/// A FIN says "no more requests", not "gone" (RFC 9112 §9.6), and a socket cannot tell one from the other. Within
/// this time a half-closed client gets its answer; after it an unprotected exchange that has nothing to send is
/// cancelled.
const HALF_CLOSED: Duration = Duration::from_secs(2);

/// What a request knows of its client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    socket: Arc<Socket>,
    /// The peer's address; `None` on a unix socket.
    pub(super) peer: Option<IpAddr>,
}

impl Client {
    pub(super) fn new(socket: Arc<Socket>) -> Self {
        let peer = match &*socket {
            Socket::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip().to_canonical()),
            Socket::Unix(_) => None,
        };
        Self { socket, peer }
    }

    /// Waits until the client has left: its connection was reset, or it closed its side and nothing was sent to it
    /// for a while (the caller asks anew whenever it sent something).
    pub(super) async fn left(&self) {
        loop {
            match self.socket.peeked().await {
                Ok(0) => return tokio::time::sleep(HALF_CLOSED).await,
                // Bytes of an upload or of a pipelined request hide what is behind them until they are read.
                Ok(_) => tokio::time::sleep(HALF_CLOSED / 2).await,
                Err(_) => return,
            }
        }
    }
}

impl Socket {
    /// How many bytes can be read without taking them; 0 is the end of the stream.
    async fn peeked(&self) -> io::Result<usize> {
        let mut probe = [0_u8; 1];
        match self {
            Self::Tcp(stream) => stream.async_io(Interest::READABLE, || peek(stream, &mut probe)).await,
            Self::Unix(stream) => stream.async_io(Interest::READABLE, || peek(stream, &mut probe)).await,
        }
    }
}

fn peek(socket: impl std::os::fd::AsFd, probe: &mut [u8]) -> io::Result<usize> {
    let (_, length) = rustix::net::recv(socket, probe, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(length)
}

/// Reading and writing through a shared socket. Only the connection's own task does either.
#[derive(Debug)]
pub(super) struct SocketIo(pub(super) Arc<Socket>);

impl AsyncRead for SocketIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match &*self.0 {
                Socket::Tcp(stream) => std::task::ready!(stream.poll_read_ready(cx))?,
                Socket::Unix(stream) => std::task::ready!(stream.poll_read_ready(cx))?,
            }
            let read = match &*self.0 {
                Socket::Tcp(stream) => stream.try_read_buf(buf),
                Socket::Unix(stream) => stream.try_read_buf(buf),
            };
            match read {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl SocketIo {
    fn poll_try(
        &self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match &*self.0 {
                Socket::Tcp(stream) => std::task::ready!(stream.poll_write_ready(cx))?,
                Socket::Unix(stream) => std::task::ready!(stream.poll_write_ready(cx))?,
            }
            match attempt(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for SocketIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try(cx, |socket| match socket {
            Socket::Tcp(stream) => stream.try_write(buf),
            Socket::Unix(stream) => stream.try_write(buf),
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(cx, |socket| match socket {
            Socket::Tcp(stream) => stream.try_write_vectored(bufs),
            Socket::Unix(stream) => stream.try_write_vectored(bufs),
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = match &*self.0 {
            Socket::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
            Socket::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
        };
        match shut {
            // The peer was faster.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}
