//! What only the inside shows: disks that fail, tear and lie in wait; clocks that go back; the sweep.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use redb::StorageBackend;

use super::{
    open::{StartError, launch, start},
    writer::Writer,
    *,
};
use crate::idempotency::{
    CallerTag, Cell, ClaimToken, Doubt, Fingerprint, Record, RouteName, State, StoreTime, StoredBody, StoredResponse,
    WallMillis,
};

/// A disk in memory that remembers what was synced, and fails when told to. Clones share it.
#[derive(Clone, Debug, Default)]
struct TestDisk {
    platters: Arc<Mutex<Platters>>,
    /// Writes and syncs that still succeed; negative: all of them.
    budget: Arc<AtomicI64>,
}

#[derive(Debug, Default)]
struct Platters {
    synced: Vec<u8>,
    /// Since the last sync, in order.
    pending: Vec<Pending>,
    /// Both together.
    current: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Pending {
    Write(u64, Vec<u8>),
    Resize(u64),
}

const SECTOR: usize = 512;

impl TestDisk {
    fn new() -> Self {
        let disk = Self::default();
        disk.budget.store(-1, Ordering::SeqCst);
        disk
    }

    /// A disk with that content.
    fn holding(content: Vec<u8>) -> Self {
        let disk = Self::new();
        {
            let mut platters = disk.platters.lock().unwrap();
            platters.synced = content.clone();
            platters.current = content;
        }
        disk
    }

    /// Lets `changes` more writes and syncs succeed, and none after them.
    fn fail_after(&self, changes: i64) {
        self.budget.store(changes, Ordering::SeqCst);
    }

    fn spend(&self) -> io::Result<()> {
        let left = self.budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            0 => None,
            left if left < 0 => Some(left),
            left => Some(left - 1),
        });
        left.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
    }

    /// What may be on the disk after a power loss: everything synced, and of the rest any sectors.
    fn after_power_loss(&self, mut keeps: impl FnMut() -> bool) -> Vec<u8> {
        let platters = self.platters.lock().unwrap();
        let mut image = platters.synced.clone();
        for pending in &platters.pending {
            match pending {
                Pending::Resize(len) => {
                    if keeps() {
                        image.resize(*len as usize, 0);
                    }
                }
                Pending::Write(at, bytes) => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        let from = *at as usize + number * SECTOR;
                        if keeps() {
                            let end = (from + sector.len()).max(image.len());
                            image.resize(end, 0);
                            image[from..from + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        image
    }

    fn now(&self) -> Vec<u8> {
        self.platters.lock().unwrap().current.clone()
    }
}

impl StorageBackend for TestDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.platters.lock().unwrap().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platters = self.platters.lock().unwrap();
        let from = offset as usize;
        out.copy_from_slice(platters.current.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        let mut platters = self.platters.lock().unwrap();
        platters.current.resize(len as usize, 0);
        platters.pending.push(Pending::Resize(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()?;
        let mut platters = self.platters.lock().unwrap();
        platters.synced = platters.current.clone();
        platters.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        let mut platters = self.platters.lock().unwrap();
        let from = offset as usize;
        platters.current[from..from + data.len()].copy_from_slice(data);
        platters.pending.push(Pending::Write(offset, data.to_vec()));
        Ok(())
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const WALL: Duration = Duration::from_secs(1_800_000_000);

fn started(disk: &TestDisk, wall: Duration) -> Writer<TestDisk> {
    start(disk.clone(), wall, None).unwrap()
}

fn opened(disk: &TestDisk, wall: Duration) -> EmbeddedStore {
    launch(started(disk, wall), Duration::from_secs(20)).unwrap()
}

fn key(number: u64) -> RecordKey {
    let mut key = [0x5E; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    RecordKey(key)
}

fn token(by: u8) -> ClaimToken {
    ClaimToken([by; 16])
}

fn record(by: u8, retention: Duration, state: State) -> Record {
    Record {
        token: token(by),
        fingerprint: Fingerprint([1; 32]),
        caller: CallerTag([2; 32]),
        lease: HOUR,
        retention,
        began: WallMillis(3),
        route: RouteName::from("r"),
        state,
    }
}

fn held(by: u8) -> Write {
    Write::Hold(record(by, 24 * HOUR, State::Claimed))
}

fn paid(body: &[u8]) -> State {
    State::Completed(StoredResponse {
        status: Some(StatusCode::OK),
        headers: Vec::new(),
        body: StoredBody::Whole { bytes: Bytes::copy_from_slice(body), trailers: Vec::new() },
    })
}

fn completed(by: u8, body: &[u8]) -> Write {
    Write::Complete(record(by, 24 * HOUR, paid(body)))
}

async fn state(store: &EmbeddedStore, number: u64) -> Option<State> {
    store.read(&key(number)).await.unwrap().map(|occupant| occupant.record.state)
}

/// A small generator (xorshift64*).
fn random(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    }
}

#[tokio::test]
async fn whatever_a_power_loss_leaves_of_the_last_writes_nothing_that_was_answered_is_lost() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("seed: {seed}");
    let mut next = random(seed);
    for _ in 0..12 {
        let disk = TestDisk::new();
        let store = opened(&disk, WALL);
        let mut answered: BTreeMap<u64, State> = BTreeMap::new();
        let lapsed = State::Unknown { doubt: Doubt::ClaimLapsed, kept: None };
        for number in 0..next() % 20 {
            assert_eq!(store.swap(&key(number), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
            answered.insert(number, lapsed.clone());
            if next().is_multiple_of(2) {
                let body = vec![number as u8; (next() % 6000) as usize];
                let write = completed(1, &body);
                assert_eq!(store.swap(&key(number), Expect::HeldBy(token(1)), write).await.unwrap(), Swapped::Done);
                answered.insert(number, paid(&body));
            }
        }
        // The disk dies at some point of the next commit, and with it the machine.
        disk.fail_after((next() % 30) as i64);
        let last = store.swap(&key(900), Expect::Absent, held(1)).await;
        for _ in 0..6 {
            let mut keeps = random(next() | 1);
            let image = disk.after_power_loss(|| keeps().is_multiple_of(2));
            let again = opened(&TestDisk::holding(image), WALL);
            for (number, expected) in &answered {
                assert_eq!(state(&again, *number).await.as_ref(), Some(expected), "cell {number} of seed {seed}");
            }
            match (&last, state(&again, 900).await) {
                (Ok(Swapped::Done), Some(there)) => assert_eq!(there, lapsed),
                (Err(StoreError::InDoubt(_)), there) => assert!(there.is_none_or(|there| there == lapsed)),
                (last, there) => panic!("answered {last:?}, found {there:?}; seed {seed}"),
            }
        }
    }
}

#[tokio::test]
async fn after_a_failed_write_nothing_is_claimed_and_everything_known_is_replayed() {
    // Whichever write or sync of a commit it is that fails.
    for allowed in 0..12 {
        let disk = TestDisk::new();
        let store = opened(&disk, WALL);
        for number in 0..40 {
            assert_eq!(store.swap(&key(number), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
            let write = completed(1, &[number as u8; 3000]);
            assert_eq!(store.swap(&key(number), Expect::HeldBy(token(1)), write).await.unwrap(), Swapped::Done);
        }
        assert_eq!(store.swap(&key(100), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
        disk.fail_after(allowed);
        let mut failed = 0;
        for number in 200..240 {
            match store.swap(&key(number), Expect::Absent, held(2)).await {
                Ok(Swapped::Done) => assert_eq!(failed, 0, "won after a failure"),
                Err(StoreError::InDoubt(_)) => {
                    assert_eq!(failed, 0, "only the commit that failed is in doubt");
                    failed = 1;
                }
                Err(StoreError::Refused(text)) => {
                    assert_eq!(failed, 1, "{text}");
                    assert!(text.contains("cannot be written"), "{text}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(failed, 1);
        assert!(matches!(store.ping().await, Err(StoreError::Refused(_))));
        let synced = disk.now();
        for number in 0..40 {
            let swapped = store.swap(&key(number), Expect::Absent, held(3)).await.unwrap();
            let Swapped::Refused { occupant: Some(occupant) } = swapped else { panic!("{swapped:?}") };
            assert_eq!(occupant.record.state, paid(&[number as u8; 3000]));
        }
        for write in [Write::Clear, completed(1, b"late")] {
            let swapped = store.swap(&key(100), Expect::HeldBy(token(1)), write).await;
            assert!(matches!(swapped, Err(StoreError::Refused(_))), "{swapped:?}");
        }
        drop(store);
        // Not even room that has come back makes it try again.
        assert!(disk.now() == synced, "the disk was written to after it had failed");
        disk.fail_after(-1);
        let again = opened(&TestDisk::holding(disk.now()), WALL);
        for number in 0..40 {
            assert_eq!(state(&again, number).await, Some(paid(&[number as u8; 3000])));
        }
        assert_eq!(state(&again, 100).await, Some(State::Unknown { doubt: Doubt::ClaimLapsed, kept: None }));
    }
}

#[tokio::test]
async fn what_a_failed_commit_would_have_written_is_never_confirmed_to_who_asks_again() {
    // Wherever in the commit the disk fails: the claim that was in it is not its claimant's when it repeats the bid,
    // and the answer that was in it is not on record, or the next process would know neither.
    for survives in 0..12 {
        let disk = TestDisk::new();
        let store = opened(&disk, WALL);
        assert_eq!(store.swap(&key(1), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
        disk.fail_after(survives);
        let bid = store.swap(&key(2), Expect::Absent, held(2)).await;
        if bid.is_ok() {
            continue;
        }
        let again = store.swap(&key(2), Expect::Absent, held(2)).await;
        assert!(matches!(again, Err(StoreError::Refused(_))), "{survives}: {again:?}");
        assert_eq!(state(&store, 2).await, None, "{survives}");
        let late = store.swap(&key(1), Expect::HeldBy(token(1)), completed(1, b"paid")).await;
        assert!(matches!(late, Err(StoreError::Refused(_))), "{survives}: {late:?}");
        assert_eq!(state(&store, 1).await, Some(State::Claimed), "{survives}");
    }
    for survives in 0..12 {
        let disk = TestDisk::new();
        let store = opened(&disk, WALL);
        store.swap(&key(1), Expect::Absent, held(1)).await.unwrap();
        disk.fail_after(survives);
        if store.swap(&key(1), Expect::HeldBy(token(1)), completed(1, b"paid")).await.is_ok() {
            continue;
        }
        let again = store.swap(&key(1), Expect::HeldBy(token(1)), completed(1, b"paid")).await;
        assert!(matches!(again, Err(StoreError::Refused(_))), "{survives}: {again:?}");
        assert_eq!(state(&store, 1).await, Some(State::Claimed), "{survives}");
    }
}

#[tokio::test]
async fn a_killed_process_does_not_make_the_next_one_walk_the_whole_file() {
    let disk = TestDisk::new();
    let store = opened(&disk, WALL);
    assert_eq!(store.swap(&key(1), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
    let mut builder = redb::Builder::new();
    builder.set_repair_callback(|_| panic!("the file is repaired"));
    // As it is from the first answer on, never closed.
    drop(builder.create_with_backend(TestDisk::holding(disk.now())).unwrap());
    assert_eq!(store.swap(&key(1), Expect::HeldBy(token(1)), completed(1, b"paid")).await.unwrap(), Swapped::Done);
    drop(builder.create_with_backend(TestDisk::holding(disk.now())).unwrap());
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_at_the_start_is_not_opened() {
    let disk = TestDisk::new();
    drop(opened(&disk, WALL));
    let content = disk.now();
    let mut refused = 0;
    for allowed in 0..200 {
        let disk = TestDisk::holding(content.clone());
        disk.fail_after(allowed);
        match start(disk, WALL, None) {
            Err(StartError::Failed(_)) => refused += 1,
            Err(StartError::InUse) => panic!("nobody uses it"),
            Ok(_) => break,
        }
    }
    assert!(refused > 0 && refused < 200, "{refused}");
}

#[test]
fn a_power_loss_while_a_store_is_made_leaves_a_store_or_a_plain_reason() {
    let mut next = random(0x0DD_5EED);
    let mut made = 0;
    for allowed in 0..40 {
        let disk = TestDisk::new();
        disk.fail_after(allowed);
        let ready = start(disk.clone(), WALL, None).is_ok();
        made += u32::from(ready);
        for _ in 0..5 {
            let mut keeps = random(next() | 1);
            match start(TestDisk::holding(disk.after_power_loss(|| keeps().is_multiple_of(2))), WALL, None) {
                Ok(_) => {}
                Err(StartError::Failed(reason)) if !ready => {
                    assert!(reason.to_string().contains("delete it"), "{reason}");
                }
                Err(error) => panic!("after {allowed} changes: {error:?}"),
            }
        }
    }
    assert!((1..40).contains(&made), "{made}");
}

#[tokio::test]
async fn time_does_not_go_back_when_the_wall_clock_does() {
    let disk = TestDisk::new();
    let store = opened(&disk, WALL);
    let day = record(1, 24 * HOUR, State::Claimed);
    assert_eq!(store.swap(&key(1), Expect::Absent, Write::Hold(day)).await.unwrap(), Swapped::Done);
    drop(store);
    // Ten years back: the record is as old as it was, and the clock goes on from there.
    let store = opened(&disk, WALL - 87_600 * HOUR);
    let occupant = store.read(&key(1)).await.unwrap().unwrap();
    assert!(occupant.idle < HOUR, "{:?}", occupant.idle);
    assert_eq!(store.swap(&key(2), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
    drop(store);
    let store = opened(&disk, WALL + Duration::from_secs(60));
    assert!(store.read(&key(2)).await.unwrap().unwrap().idle < HOUR);
}

#[tokio::test]
async fn retention_goes_on_while_nothing_runs() {
    let disk = TestDisk::new();
    let store = opened(&disk, WALL);
    for number in 1..=2 {
        assert_eq!(store.swap(&key(number), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
    }
    assert_eq!(store.swap(&key(1), Expect::HeldBy(token(1)), completed(1, b"paid")).await.unwrap(), Swapped::Done);
    drop(store);
    let store = opened(&disk, WALL + 23 * HOUR);
    assert_eq!(state(&store, 1).await, Some(paid(b"paid")));
    drop(store);
    let store = opened(&disk, WALL + 25 * HOUR);
    assert_eq!(state(&store, 1).await, None);
    // The claim became unknown at the second start, two hours ago: a change of state, and a retention of its own.
    assert_eq!(state(&store, 2).await, Some(State::Unknown { doubt: Doubt::ClaimLapsed, kept: None }));
}

#[test]
fn claims_of_a_dead_process_are_unknown_before_anything_is_served_however_many() {
    let disk = TestDisk::new();
    let writer = started(&disk, WALL);
    let transaction = writer.database.begin_write().unwrap();
    let mut tables = cells::Tables::open(&transaction).unwrap();
    let now = writer.clock.now();
    for number in 0..3000 {
        let brief = if number % 3 == 0 { Duration::from_millis(1) } else { 24 * HOUR };
        tables.swap(&key(number), Expect::Absent, Write::Hold(record(1, brief, State::Claimed)), now).unwrap();
        if number % 2 == 0 {
            tables.swap(&key(number), Expect::HeldBy(token(1)), completed(1, b"paid"), now).unwrap();
        }
    }
    drop(tables);
    transaction.commit().unwrap();
    drop(writer);
    let writer = started(&disk, WALL + HOUR);
    let snapshot = cells::Snapshot::new(&writer.database).unwrap();
    for number in 0..3000 {
        let occupant = snapshot.cell(&key(number)).unwrap().occupant(writer.clock.now());
        let expected = match (number % 2, number % 3) {
            (0, _) => Some(paid(b"paid")),
            (_, 0) => None,
            (_, _) => Some(State::Unknown { doubt: Doubt::ClaimLapsed, kept: None }),
        };
        assert_eq!(occupant.map(|occupant| occupant.record.state), expected, "cell {number}");
    }
}

#[test]
fn the_sweep_takes_what_is_over_in_bounded_steps_and_nothing_else() {
    let disk = TestDisk::new();
    let writer = started(&disk, WALL);
    let transaction = writer.database.begin_write().unwrap();
    let mut tables = cells::Tables::open(&transaction).unwrap();
    let at = |seconds: u64| StoreTime(WALL + Duration::from_secs(seconds));
    let hold = |seconds: u64| Write::Hold(record(1, Duration::from_secs(seconds), State::Claimed));
    for number in 0..100 {
        tables.swap(&key(number), Expect::Absent, hold(10 + number), at(0)).unwrap();
    }
    // Renewed, released: the old ends of these are not acted upon.
    tables.swap(&key(0), Expect::HeldBy(token(1)), Write::Renew(record(1, HOUR, State::Claimed)), at(1)).unwrap();
    tables.swap(&key(1), Expect::HeldBy(token(1)), Write::Clear, at(1)).unwrap();
    assert_eq!(tables.sweep(at(10), 1000).unwrap(), 0);
    assert_eq!(tables.sweep(at(50), 15).unwrap(), 15);
    assert_eq!(tables.sweep(at(50), 1000).unwrap(), 24);
    assert_eq!(tables.sweep(at(50), 1000).unwrap(), 0);
    drop(tables);
    transaction.commit().unwrap();
    let snapshot = cells::Snapshot::new(&writer.database).unwrap();
    for number in 0..100 {
        let there = snapshot.cell(&key(number)).unwrap() != Cell::default();
        assert_eq!(there, number == 0 || number > 40, "cell {number}");
    }
    assert_eq!(snapshot.first_end().unwrap(), Some(at(51)));
}

#[tokio::test]
async fn an_idle_store_sweeps_by_itself() {
    let disk = TestDisk::new();
    let store = opened(&disk, WALL);
    for number in 0..300 {
        let brief = record(1, Duration::from_millis(1), State::Claimed);
        assert_eq!(store.swap(&key(number), Expect::Absent, Write::Hold(brief)).await.unwrap(), Swapped::Done);
    }
    drop(store);
    let store = opened(&disk, WALL + HOUR);
    // Nothing is asked of it meanwhile: the file itself is looked at.
    let swept = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let copy = started(&TestDisk::holding(disk.now()), WALL + HOUR);
            let snapshot = cells::Snapshot::new(&copy.database).unwrap();
            if snapshot.first_end().unwrap().is_none() {
                assert!((0..300).all(|number| snapshot.cell(&key(number)).unwrap() == Cell::default()));
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), swept).await.expect("it is not swept");
    store.ping().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_to_everyone_until_its_end() {
    use redb::{ReadableTable as _, TableDefinition};
    const CELLS: TableDefinition<'static, &[u8; 32], &[u8]> = TableDefinition::new("cells");
    let disk = TestDisk::new();
    let store = opened(&disk, WALL);
    for number in 0..3 {
        assert_eq!(store.swap(&key(number), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
    }
    drop(store);
    let database = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut cells = transaction.open_table(CELLS).unwrap();
        // Of another version, of another cell, too short.
        let mut future = cells.get(&key(0).0).unwrap().unwrap().value().to_vec();
        future[8] = 9;
        let foreign = cells.get(&key(1).0).unwrap().unwrap().value().to_vec();
        cells.insert(&key(0).0, future.as_slice()).unwrap();
        cells.insert(&key(2).0, foreign.as_slice()).unwrap();
        cells.insert(&key(1).0, [1u8, 2, 3].as_slice()).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);
    let store = opened(&disk, WALL + HOUR);
    for number in 0..3 {
        for (expect, write) in [
            (Expect::Absent, held(2)),
            (Expect::HeldBy(token(1)), completed(1, b"late")),
            (Expect::Doubtful(token(1)), held(2)),
            (Expect::Occupied(token(1)), Write::Clear),
        ] {
            let swapped = store.swap(&key(number), expect, write).await;
            assert!(matches!(swapped, Err(StoreError::Corrupt(_))), "cell {number}: {swapped:?}");
        }
        assert!(matches!(store.read(&key(number)).await, Err(StoreError::Corrupt(_))));
    }
    // The store as a whole is none the worse for it.
    assert_eq!(store.swap(&key(7), Expect::Absent, held(2)).await.unwrap(), Swapped::Done);
    store.ping().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_nobody_waits_for_is_not_made() {
    let disk = TestDisk::new();
    let writer = started(&disk, WALL);
    let (answer, reply) = oneshot::channel();
    drop(reply);
    let slots = Arc::new(Semaphore::new(1));
    let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
    let change = Change { key: key(1), expect: Expect::Absent, write: held(1), answer };
    let (jobs, queue) = mpsc::channel();
    jobs.send(Job { task: Task::Swap(Box::new(change)), slot }).unwrap();
    drop(jobs);
    tokio::task::spawn_blocking(move || writer.run(&queue)).await.unwrap();
    assert_eq!(slots.available_permits(), 1);
    let store = opened(&disk, WALL);
    assert_eq!(state(&store, 1).await, None);
}

#[tokio::test]
async fn a_file_that_is_replaced_under_us_is_written_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = open(&path, Duration::from_secs(20)).unwrap();
    assert_eq!(store.swap(&key(1), Expect::Absent, held(1)).await.unwrap(), Swapped::Done);
    std::fs::rename(&path, folder.path().join("moved.redb")).unwrap();
    std::fs::write(&path, b"another").unwrap();
    let noticed = async {
        loop {
            if let Err(StoreError::Refused(text)) = store.ping().await {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(30), noticed).await.expect("it is not noticed");
    assert!(text.contains("removed or replaced"), "{text}");
    let swapped = store.swap(&key(2), Expect::Absent, held(1)).await;
    assert!(matches!(swapped, Err(StoreError::Refused(_))), "{swapped:?}");
}
