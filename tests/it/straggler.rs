//! A write that was given up, or repeated, and lands when nobody expects it. In one process, before a store that
//! holds writes back.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use oncegate::{
    config,
    idempotency::{ClaimToken, Expect, Occupant, RecordKey, Swapped, Write},
    proxy::{Listen, Live, Proxy, listener::Bound},
    shutdown::{Phase, Shutdown},
    store::{self, Reply, Store, StoreError},
    upstream::Upstream as Pool,
};

use crate::harness::{
    client::Req,
    upstream::{Script, Upstream},
    wire::{Address, DEADLINE},
};

/// A memory store whose first `held_back` claims get no answer and do not land, until [`Slow::deliver`].
struct Slow {
    inner: Arc<dyn Store>,
    held_back: Mutex<usize>,
    on_the_way: Mutex<Vec<(RecordKey, Expect, Write)>>,
}

impl Slow {
    /// Lets what was held back land, and says what became of it.
    async fn deliver(&self) -> Vec<Swapped> {
        let late = std::mem::take(&mut *self.on_the_way.lock().unwrap());
        let mut became = Vec::new();
        for (key, expect, write) in late {
            became.push(self.inner.swap(&key, expect, write).await.unwrap());
        }
        became
    }
}

impl Store for Slow {
    fn swap<'a>(&'a self, key: &'a RecordKey, expect: Expect, write: Write) -> Reply<'a, Swapped> {
        let mut held_back = self.held_back.lock().unwrap();
        if *held_back > 0 && matches!(write, Write::Hold(_)) {
            *held_back -= 1;
            self.on_the_way.lock().unwrap().push((*key, expect, write));
            return Box::pin(async { Err(StoreError::InDoubt("it is on its way".into())) });
        }
        self.inner.swap(key, expect, write)
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Occupant>> {
        self.inner.read(key)
    }

    fn ping(&self) -> Reply<'_, ()> {
        self.inner.ping()
    }
}

/// A gate in this process.
struct InProcess {
    runtime: tokio::runtime::Runtime,
    store: Arc<Slow>,
    shutdown: Shutdown,
    address: Address,
}

impl InProcess {
    fn before(upstream: &Upstream, held_back: usize) -> Self {
        let api = upstream.address();
        let text = format!(
            "[upstream]\nurl = \"http://{api}\"\n[store]\nurl = \"memory:\"\ntimeout = \"100ms\"\n[defaults]\nlease = \"1s\"\n"
        );
        let settings = config::parse(&text, "test", Path::new("/"), &|_| None).expect("a valid file").settings;
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let shutdown = Shutdown::new();
        let inner = runtime.block_on(store::open(&settings.store)).unwrap();
        let store = Arc::new(Slow { inner, held_back: Mutex::new(held_back), on_the_way: Mutex::default() });
        let bound = runtime.block_on(Bound::bind(&Listen::Tcp("127.0.0.1:0".to_owned()))).unwrap();
        let address = Address::Tcp(bound.local().parse().unwrap());
        let _entered = runtime.enter();
        let upstream = Arc::new(Pool::new(settings.upstream));
        let live = Live { settings: settings.proxy, routes: settings.routes, upstream };
        let slow: Arc<dyn Store> = store.clone();
        runtime.spawn(Proxy::new(live, slow, shutdown.clone()).serve(bound));
        drop(_entered);
        Self { runtime, store, shutdown, address }
    }

    fn deliver(&self) -> Vec<Swapped> {
        self.runtime.block_on(self.store.deliver())
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.shutdown.advance(Phase::Over);
    }
}

/// Refuses the first request for now, and takes every other.
fn busy_once() -> Upstream {
    Upstream::start(Script::on_request(|exchange| match exchange.execute() {
        1 => exchange.answer(429, &[], b"later"),
        _ => exchange.answer(201, &[], b"paid"),
    }))
}

#[test]
fn a_claim_that_lands_behind_its_own_release_is_withdrawn() {
    let upstream = busy_once();
    let gate = InProcess::before(&upstream, 1);
    let request = Req::pay("k1");
    // The first attempt is on its way, the second wins, the upstream refuses, the key is free again.
    request.send(&gate.address).expect(429, "", "released");
    assert_eq!(gate.deliver(), [Swapped::Done], "the first attempt lands");
    let began = Instant::now();
    loop {
        let answer = request.send(&gate.address);
        if answer.status == 201 {
            answer.expect(201, "", "executed");
            break;
        }
        // Until it is withdrawn, one lease later, it looks like a claim.
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(began.elapsed() < DEADLINE, "the key is blocked by a claim that nobody holds");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(upstream.executions("k1"), 2);
}

#[test]
fn a_claim_that_is_given_up_is_withdrawn_however_late_it_lands() {
    let upstream = busy_once();
    let gate = InProcess::before(&upstream, usize::MAX);
    let request = Req::pay("k1");
    request.send(&gate.address).expect(503, "store-unavailable", "not-executed");
    assert_eq!(upstream.executions("k1"), 0);
    *gate.store.held_back.lock().unwrap() = 0;
    // All attempts of the bid have one token: the first to land wins, the others find it.
    let landed = gate.deliver();
    assert_eq!(landed[0], Swapped::Done);
    assert!(landed[1..].iter().all(|swapped| matches!(swapped, Swapped::Refused { occupant: Some(_) })));
    let began = Instant::now();
    while request.send(&gate.address).status == 409 {
        assert!(began.elapsed() < DEADLINE, "the key is blocked by a claim that nobody holds");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn the_attempts_of_a_bid_share_their_token() {
    let upstream = busy_once();
    let gate = InProcess::before(&upstream, 3);
    Req::pay("k1").send(&gate.address).expect(429, "", "released");
    let attempts = gate.store.on_the_way.lock().unwrap();
    let tokens: Vec<ClaimToken> = attempts.iter().filter_map(|(_, _, write)| Some(write.record()?.token)).collect();
    assert_eq!(tokens.len(), 3);
    assert!(tokens.iter().all(|token| *token == tokens[0]));
}
