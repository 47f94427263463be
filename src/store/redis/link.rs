//! Two connections to one Redis: one for claims and everything small, one for bodies.
//!
//! The streams are opened here and not by the client library, so that their options are ours and their end is
//! noticed at once. Not here: when to connect again (`supervisor`).

use std::{io, time::Duration};

use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, aio::MultiplexedConnection, cmd};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time::timeout,
};

use super::errors::failure;
use crate::store::{RedisAddress, RedisEndpoint, StoreError};

/// Commands that may wait inside one connection.
const PIPELINE: usize = 1024;

/// Unacknowledged bytes end a connection after this time, so that a command is not delivered long after it was
/// given up, when a partition heals.
const USER_TIMEOUT: Duration = Duration::from_secs(2);

/// A pair of connections. Dropping the last clone of a connection does not end it: its driver does.
#[derive(Debug)]
pub(super) struct Link {
    small: MultiplexedConnection,
    large: MultiplexedConnection,
}

/// What carries bytes for a link. A link is broken when the first of them ends; dropping them breaks it.
pub(super) type Drivers = JoinSet<()>;

impl Link {
    /// Connects, authenticates and selects the database.
    pub(super) async fn connect(address: &RedisAddress, patience: Duration) -> Result<(Self, Drivers), RedisError> {
        let mut drivers = Drivers::new();
        let small = open(address, patience, &mut drivers).await?;
        let large = open(address, patience, &mut drivers).await?;
        Ok((Self { small, large }, drivers))
    }

    /// The connection for a write of that size. A clone shares the connection.
    pub(super) fn lane(&self, large: bool) -> MultiplexedConnection {
        if large { self.large.clone() } else { self.small.clone() }
    }

    /// Whether both connections answer.
    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        for mut connection in [self.small.clone(), self.large.clone()] {
            cmd("PING").query_async::<()>(&mut connection).await.map_err(failure)?;
        }
        Ok(())
    }
}

async fn open(
    address: &RedisAddress,
    patience: Duration,
    drivers: &mut Drivers,
) -> Result<MultiplexedConnection, RedisError> {
    match &address.endpoint {
        RedisEndpoint::Tcp(host, port) => {
            let stream = within(patience, TcpStream::connect((host.as_str(), *port))).await?;
            stream.set_nodelay(true)?;
            // A connection that is given up is reset: what has not left yet must not arrive later.
            stream.set_zero_linger()?;
            rustix::net::sockopt::set_tcp_user_timeout(&stream, USER_TIMEOUT.as_millis() as u32)
                .map_err(io::Error::from)?;
            greet(address, stream, patience, drivers).await
        }
        RedisEndpoint::Unix(path) => {
            let stream = within(patience, UnixStream::connect(path)).await?;
            greet(address, stream, patience, drivers).await
        }
    }
}

async fn greet(
    address: &RedisAddress,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    patience: Duration,
    drivers: &mut Drivers,
) -> Result<MultiplexedConnection, RedisError> {
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(username) = &address.username {
        info = info.set_username(username);
    }
    if let Some(password) = &address.password {
        info = info.set_password(password);
    }
    // The deadline of an operation is the caller's; the library's own would only set a second timer.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(PIPELINE);
    let greeting = MultiplexedConnection::new_with_config(&info, stream, config);
    let (mut connection, driver) = within(patience, greeting).await?;
    drivers.spawn(driver);
    if address.database != 0 {
        // Not left to the library, which hides whether it is the right or the database that is missing.
        let mut select = cmd("SELECT");
        select.arg(address.database);
        within(patience, select.query_async::<()>(&mut connection)).await?;
    }
    Ok(connection)
}

async fn within<T, E: Into<RedisError>>(
    patience: Duration,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, RedisError> {
    match timeout(patience, step).await {
        Ok(result) => result.map_err(Into::into),
        Err(elapsed) => Err(io::Error::new(io::ErrorKind::TimedOut, elapsed).into()),
    }
}
