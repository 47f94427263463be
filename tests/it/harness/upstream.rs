//! A scripted upstream: a real server on a real socket that does to the gate whatever a test tells it to.
//!
//! It logs every byte of every connection and counts *executions*: a script calls [`Exchange::execute`] where a
//! real application would move money. Events are awaited (`wait_requests`, `wait_closed`), never slept for.

use std::{
    collections::HashMap,
    io::Write,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use super::{
    sync::Watched,
    wire::{Address, DEADLINE, Framing, Head, Lines, MessageReader, ReadBody, Socket},
};

/// What the upstream does, and when it is asked.
#[derive(Clone)]
pub(crate) struct Script {
    when: When,
    run: Arc<dyn Fn(&mut Exchange) + Send + Sync>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Accepted,
    HeadRead,
    BodyRead,
}

impl Script {
    /// Runs when a whole request has been read.
    pub(crate) fn on_request(run: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Self {
        Self { when: When::BodyRead, run: Arc::new(run) }
    }

    /// Runs when the head of a request has been read; the body is the script's.
    pub(crate) fn on_head(run: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Self {
        Self { when: When::HeadRead, run: Arc::new(run) }
    }

    /// Runs when a connection has been accepted.
    pub(crate) fn on_accept(run: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Self {
        Self { when: When::Accepted, run: Arc::new(run) }
    }

    /// Executes and answers 201 with the number of executions of this key.
    pub(crate) fn pay() -> Self {
        Self::on_request(|exchange| exchange.pay())
    }
}

/// A request as it reached the upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) head: Head,
    pub(crate) body: ReadBody,
    /// Index of the connection it came on.
    pub(crate) connection: usize,
}

impl Request {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.head.value(name)
    }

    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        self.head.values(name)
    }

    /// Header names as sent, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.head.lines.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// What executions are counted under: the key as sent, else the target.
    fn label(&self) -> String {
        self.value("idempotency-key").unwrap_or(&self.target).trim_matches('"').to_owned()
    }
}

#[derive(Default)]
struct Log {
    connections: Vec<Connection>,
    requests: Vec<Request>,
    executions: HashMap<String, usize>,
}

struct Connection {
    bytes: Arc<Mutex<Vec<u8>>>,
    handle: Socket,
    idle: bool,
    closed: bool,
}

struct Shared {
    script: Mutex<Script>,
    log: Watched<Log>,
    stopping: AtomicBool,
}

/// The upstream. Dropping it closes everything.
pub(crate) struct Upstream {
    shared: Arc<Shared>,
    address: Address,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl Upstream {
    /// An upstream on a free TCP port.
    pub(crate) fn start(script: Script) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let upstream = Self {
            shared: Arc::new(Shared {
                script: Mutex::new(script),
                log: Watched::default(),
                stopping: AtomicBool::new(false),
            }),
            address,
            acceptor: Mutex::default(),
        };
        upstream.accept_tcp(listener);
        upstream
    }

    /// An upstream on a unix socket.
    pub(crate) fn start_unix(path: PathBuf, script: Script) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        let upstream = Self {
            shared: Arc::new(Shared {
                script: Mutex::new(script),
                log: Watched::default(),
                stopping: AtomicBool::new(false),
            }),
            address: Address::Unix(path),
            acceptor: Mutex::default(),
        };
        let shared = Arc::clone(&upstream.shared);
        *upstream.acceptor.lock().unwrap() = Some(std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if shared.stopping.load(Ordering::SeqCst) {
                    return;
                }
                serve(&shared, Socket::Unix(stream));
            }
        }));
        upstream
    }

    /// Executes and answers 201 to everything.
    pub(crate) fn paying() -> Self {
        Self::start(Script::pay())
    }

    fn accept_tcp(&self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        *self.acceptor.lock().unwrap() = Some(std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if shared.stopping.load(Ordering::SeqCst) {
                    return;
                }
                stream.set_nodelay(true).unwrap();
                serve(&shared, Socket::Tcp(stream));
            }
        }));
    }

    /// For `upstream.url`.
    pub(crate) fn url(&self) -> String {
        match &self.address {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address.tcp()
    }

    /// Changes what happens to the next request.
    pub(crate) fn set(&self, script: Script) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// Closes the port and every connection: from now on connections are refused.
    pub(crate) fn stop(&self) {
        if let Some(acceptor) = self.acceptor.lock().unwrap().take() {
            self.shared.stopping.store(true, Ordering::SeqCst);
            let _ = self.address.connect();
            acceptor.join().unwrap();
        }
        for connection in &self.shared.log.lock().connections {
            connection.handle.shutdown(Shutdown::Both);
        }
    }

    /// Opens the same port again.
    pub(crate) fn restart(&self) {
        self.shared.stopping.store(false, Ordering::SeqCst);
        self.accept_tcp(TcpListener::bind(self.address()).unwrap());
    }

    /// Ends every kept connection that has no request, and waits until the gate has noticed.
    pub(crate) fn close_idle(&self) {
        let ended: Vec<usize> = {
            let log = self.shared.log.lock();
            let idle = log.connections.iter().enumerate().filter(|(_, c)| c.idle && !c.closed);
            idle.map(|(index, connection)| {
                connection.handle.shutdown(Shutdown::Write);
                index
            })
            .collect()
        };
        self.wait("the gate closes its idle connections", |log| {
            ended.iter().all(|&index| log.connections[index].closed).then_some(())
        });
    }

    /// How often the operation under this key (or target, without a key) was executed.
    pub(crate) fn executions(&self, label: &str) -> usize {
        self.shared.log.lock().executions.get(label).copied().unwrap_or(0)
    }

    /// How often anything was executed.
    pub(crate) fn executions_total(&self) -> usize {
        self.shared.log.lock().executions.values().sum()
    }

    /// Every request whose script was started, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.log.lock().requests.clone()
    }

    pub(crate) fn last_request(&self) -> Request {
        self.requests().pop().expect("a request has reached the upstream")
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.log.lock().connections.len()
    }

    /// Every byte that ever reached the upstream, connection after connection.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let log = self.shared.log.lock();
        log.connections.iter().flat_map(|connection| connection.bytes.lock().unwrap().clone()).collect()
    }

    /// Waits until `n` requests have been read in all.
    pub(crate) fn wait_requests(&self, n: usize) {
        self.wait(&format!("{n} requests"), |log| (log.requests.len() >= n).then_some(()));
    }

    /// Waits until the gate has closed the connection with this index (or it ended otherwise).
    pub(crate) fn wait_closed(&self, connection: usize) {
        self.wait(&format!("connection {connection} closed"), |log| {
            log.connections.get(connection).filter(|c| c.closed).map(|_| ())
        });
    }

    pub(crate) fn is_closed(&self, connection: usize) -> bool {
        self.shared.log.lock().connections[connection].closed
    }

    /// Waits until something was executed `n` times in all.
    pub(crate) fn wait_executions(&self, n: usize) {
        self.wait(&format!("{n} executions"), |log| (log.executions.values().sum::<usize>() >= n).then_some(()));
    }

    fn wait(&self, what: &str, look: impl Fn(&Log) -> Option<()>) {
        self.shared
            .log
            .wait_for(DEADLINE, |log| look(log))
            .unwrap_or_else(|| panic!("the upstream waited for {what} in vain"));
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(shared: &Arc<Shared>, socket: Socket) {
    let shared = Arc::clone(shared);
    let handle = socket.try_clone();
    let mut reader = MessageReader::new(socket);
    let bytes = reader.seen();
    let index = shared.log.update(|log| {
        log.connections.push(Connection { bytes, handle, idle: true, closed: false });
        log.connections.len() - 1
    });
    std::thread::spawn(move || {
        let mut exchange = Exchange {
            request: Request { connection: index, ..Request::default() },
            reader: &mut reader,
            shared: &shared,
            keep: true,
        };
        exchange.run();
        let reset = !exchange.keep && exchange.request.method == RESET;
        shared.log.update(|log| {
            let connection = &mut log.connections[index];
            // The clone must not outlive the connection: the last close is what the peer sees.
            if reset {
                reader.socket().reset_on_close();
            } else {
                reader.socket().shutdown(Shutdown::Both);
            }
            connection.closed = true;
            connection.handle = dead_socket();
        });
        drop(reader);
    });
}

/// Marks an exchange that ends in a reset; no method has this name.
const RESET: &str = "\0reset";

fn dead_socket() -> Socket {
    Socket::Unix(std::os::unix::net::UnixStream::pair().unwrap().0)
}

/// One request on one connection, in the hands of a script.
pub(crate) struct Exchange<'a> {
    pub(crate) request: Request,
    reader: &'a mut MessageReader,
    shared: &'a Shared,
    keep: bool,
}

impl Exchange<'_> {
    fn run(&mut self) {
        while self.keep {
            let script = self.shared.script.lock().unwrap().clone();
            if script.when == When::Accepted {
                self.keep = false;
                (script.run)(self);
                return;
            }
            let Some(head) = self.reader.head() else { return };
            self.take(head);
            // The script may have been changed while this connection was waiting for its next request.
            let script = self.shared.script.lock().unwrap().clone();
            let index = self.request.connection;
            self.shared.log.update(|log| log.connections[index].idle = false);
            if script.when == When::BodyRead {
                self.read_body();
                if !self.request.body.complete {
                    return;
                }
            }
            let request = self.request.clone();
            self.shared.log.update(|log| log.requests.push(request));
            (script.run)(self);
            self.shared.log.update(|log| log.connections[index].idle = true);
        }
    }

    fn take(&mut self, head: Head) {
        let mut words = head.start.split(' ');
        self.request.method = words.next().unwrap_or_default().to_owned();
        self.request.target = words.next().unwrap_or_default().to_owned();
        self.request.head = head;
        self.request.body = ReadBody::default();
    }

    /// How the request says its body is framed.
    pub(crate) fn framing(&self) -> Framing {
        let head = &self.request.head;
        if head.has_chunked() {
            Framing::Chunked
        } else {
            Framing::Length(head.value("content-length").map_or(0, |v| v.parse().unwrap()))
        }
    }

    /// Reads the whole request body, chunked or not.
    pub(crate) fn read_body(&mut self) {
        self.request.body = self.reader.body(self.framing());
    }

    /// Reads a head; for scripts that start at accept.
    pub(crate) fn read_head(&mut self) -> bool {
        let Some(head) = self.reader.head() else { return false };
        self.take(head);
        let request = self.request.clone();
        self.shared.log.update(|log| log.requests.push(request));
        true
    }

    /// Reads exactly `n` bytes.
    pub(crate) fn read_exactly(&mut self, n: usize) -> Vec<u8> {
        self.reader.exactly(n)
    }

    /// Reads until the gate ends the connection; what is read is only logged.
    pub(crate) fn read_to_end(&mut self) {
        while self.reader.fill() {}
        self.keep = false;
    }

    /// Reads whatever comes next; empty at the end.
    pub(crate) fn read_some(&mut self) -> Vec<u8> {
        let buffered = self.reader.take_buffered();
        if !buffered.is_empty() || !self.reader.fill() {
            return buffered;
        }
        self.reader.take_buffered()
    }

    /// The bare socket, for bodies too large to be logged. Bytes that were read ahead come first.
    pub(crate) fn unlogged(&mut self) -> (Vec<u8>, &mut Socket) {
        self.reader.forget = true;
        (self.reader.take_buffered(), self.reader.socket_mut())
    }

    /// Counts one execution of this request's operation and returns how many there were.
    pub(crate) fn execute(&self) -> usize {
        let label = self.request.label();
        self.shared.log.update(|log| {
            let count = log.executions.entry(label).or_default();
            *count += 1;
            *count
        })
    }

    /// Executes and answers 201 with the number of executions of this key.
    pub(crate) fn pay(&mut self) {
        let count = self.execute();
        let body = format!("{{\"paid\":{count}}}");
        self.answer(201, &[("Content-Type", "application/json")], body.as_bytes());
    }

    /// Writes bytes. A gate that is gone is no error.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = self.reader.socket_mut().write_all(bytes).is_ok();
        self.keep &= sent;
        sent
    }

    /// A complete answer with a length.
    pub(crate) fn answer(&mut self, status: u16, lines: &[(&str, &str)], body: &[u8]) {
        let mut message = head(status, lines);
        if !matches!(status, 100..=199 | 204 | 304) {
            message.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        message.extend_from_slice(b"\r\n");
        if self.request.method != "HEAD" {
            message.extend_from_slice(body);
        }
        self.send(&message);
    }

    /// The head of a chunked answer; more follows by `chunk` and `last_chunk`.
    pub(crate) fn chunked(&mut self, status: u16, lines: &[(&str, &str)]) {
        let mut message = head(status, lines);
        message.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        self.send(&message);
    }

    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> bool {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk)
    }

    pub(crate) fn last_chunk(&mut self, trailers: &[(&str, &str)]) {
        let mut chunk = b"0\r\n".to_vec();
        for (name, value) in trailers {
            chunk.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk);
    }

    /// Ends the connection after this exchange, with an end.
    pub(crate) fn close(&mut self) {
        self.keep = false;
    }

    /// Ends the connection after this exchange, with a reset.
    pub(crate) fn reset(&mut self) {
        self.keep = false;
        self.request.method = RESET.to_owned();
    }

    /// Ends our direction only.
    pub(crate) fn half_close(&self) {
        self.reader.socket().shutdown(Shutdown::Write);
    }

    /// Sends back every byte until the gate ends its direction, then ends ours.
    pub(crate) fn echo(&mut self) {
        loop {
            let bytes = self.read_some();
            if bytes.is_empty() || !self.send(&bytes) {
                break;
            }
        }
        self.close();
    }
}

fn head(status: u16, lines: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
    for (name, value) in lines {
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        _ => "Whatever",
    }
}

/// A TCP port on which nobody listens.
pub(crate) fn refused_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A TCP port whose listener never accepts and whose queue is full: a connection to it neither succeeds nor
/// fails. It stays so as long as the value lives.
pub(crate) struct BlackHole {
    listener: TcpListener,
    _filling: Vec<std::net::TcpStream>,
}

impl BlackHole {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut filling = Vec::new();
        let patience = std::time::Duration::from_millis(150);
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, patience) {
            filling.push(stream);
            assert!(filling.len() < 64, "the listen queue never fills");
        }
        Self { listener, _filling: filling }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }
}

/// Trailer lines as pairs, for comparisons.
pub(crate) fn pairs(lines: &Lines) -> Vec<(&str, &str)> {
    lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
