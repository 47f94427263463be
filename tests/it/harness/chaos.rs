//! A TCP proxy that breaks: it stands between the gate and Redis and cuts, stalls or swallows on command.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
    thread,
};

use super::{
    sync::Watched,
    wire::{Address, DEADLINE, Socket, find},
};

#[derive(Default)]
struct State {
    stall_requests: bool,
    stall_replies: bool,
    refuse: bool,
    /// The reply to the next request that contains these bytes is swallowed and its connection cut.
    lose_reply_to: Option<Vec<u8>>,
    lost_replies: usize,
    /// Bumped by `cut`: connections of an older generation end.
    generation: usize,
    handles: Vec<Socket>,
}

struct Shared {
    state: Watched<State>,
    requests: AtomicUsize,
    stopped: AtomicUsize,
}

/// The proxy. Dropping it cuts everything.
pub(crate) struct Chaos {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Chaos {
    /// A proxy on a free port before `target`.
    pub(crate) fn before(target: Address) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Arc::new(Shared { state: Watched::default(), requests: AtomicUsize::new(0), stopped: AtomicUsize::new(0) });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if accepting.stopped.load(Ordering::SeqCst) > 0 {
                    return;
                }
                if accepting.state.lock().refuse {
                    continue;
                }
                client.set_nodelay(true).unwrap();
                let Ok(server) = target.connect() else { continue };
                server.set_read_timeout(None);
                join(&accepting, client, server);
            }
        });
        Self { shared, address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests no longer reach the server; they are kept back, not lost.
    pub(crate) fn stall_requests(&self) {
        self.shared.state.update(|state| state.stall_requests = true);
    }

    /// Replies no longer reach the gate; they are kept back, not lost.
    pub(crate) fn stall_replies(&self) {
        self.shared.state.update(|state| state.stall_replies = true);
    }

    /// Cuts every connection and takes no new one.
    pub(crate) fn cut(&self) {
        self.shared.state.update(|state| {
            state.refuse = true;
            state.generation += 1;
            for handle in state.handles.drain(..) {
                handle.shutdown(Shutdown::Both);
            }
        });
    }

    /// Everything flows again.
    pub(crate) fn restore(&self) {
        self.shared.state.update(|state| {
            state.refuse = false;
            state.stall_requests = false;
            state.stall_replies = false;
            state.lose_reply_to = None;
        });
    }

    /// The next request that contains `pattern` reaches the server; its reply is lost with the connection.
    pub(crate) fn lose_reply_to(&self, pattern: &[u8]) {
        self.shared.state.update(|state| state.lose_reply_to = Some(pattern.to_vec()));
    }

    /// How many replies were lost by `lose_reply_to`.
    pub(crate) fn lost_replies(&self) -> usize {
        self.shared.state.lock().lost_replies
    }

    /// Waits until `n` replies were lost.
    pub(crate) fn wait_lost_replies(&self, n: usize) {
        self.shared
            .state
            .wait_for(DEADLINE, |state| (state.lost_replies >= n).then_some(()))
            .unwrap_or_else(|| panic!("{} of {n} replies were lost", self.lost_replies()));
    }

    /// How many pieces the gate has sent to the server.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.shared.stopped.store(1, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.cut();
    }
}

/// Pumps both directions of one connection.
fn join(shared: &Arc<Shared>, client: TcpStream, server: Socket) {
    let generation = shared.state.update(|state| {
        state.handles.push(Socket::Tcp(client.try_clone().unwrap()));
        state.handles.push(server.try_clone());
        state.generation
    });
    let losing = Arc::new(Watched::new(false));
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone());
    let (requests, marks) = (Arc::clone(shared), Arc::clone(&losing));
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = from_client.read(&mut buffer) {
            requests.requests.fetch_add(1, Ordering::SeqCst);
            let alive = requests.state.wait_for(DEADLINE * 10, |state| {
                if state.generation != generation {
                    return Some(false);
                }
                if state.stall_requests {
                    return None;
                }
                if state.lose_reply_to.as_ref().is_some_and(|pattern| find(&buffer[..n], pattern).is_some()) {
                    state.lose_reply_to = None;
                    marks.update(|mark| *mark = true);
                }
                Some(true)
            });
            if alive != Some(true) || to_server.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client);
    let replies = Arc::clone(shared);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = from_server.read(&mut buffer) {
            if *losing.lock() {
                replies.state.update(|state| state.lost_replies += 1);
                break;
            }
            let alive = replies.state.wait_for(DEADLINE * 10, |state| {
                if state.generation != generation {
                    return Some(false);
                }
                (!state.stall_replies).then_some(true)
            });
            if alive != Some(true) || to_client.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
