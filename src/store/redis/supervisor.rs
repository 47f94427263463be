//! Keeps a link to a fit Redis: connects for ever with capped, jittered pauses, and looks at what it is connected to.
//!
//! Requests never wait for it longer than their own deadline: where there is no link and none in sight they fail
//! at once. Not here: what is asked over a link.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at},
};

use super::{
    errors,
    fitness::{self, Advice, Requirements, Verdict},
    link::{Drivers, Link},
};
use crate::store::{RedisAddress, RedisEndpoint, StoreError};

/// The first pause between two attempts; doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a silent link is asked whether it is alive, and how often in a row it may say nothing.
const PULSE: Duration = Duration::from_secs(1);
const MISSED_PULSES: u32 = 3;
/// How often the settings of Redis are looked at, in pulses.
const EXAMINED_EVERY: u32 = 10;
/// A failure that goes on is logged again after this time.
const LOGGED_AGAIN: Duration = Duration::from_secs(60);

/// A link that is there whenever there can be one. Dropping it ends its task and its connections.
#[derive(Debug)]
pub(super) struct Supervised {
    condition: Arc<watch::Sender<Condition>>,
    doubt: Arc<AtomicBool>,
    task: AbortHandle,
}

/// What there is to send over.
#[derive(Clone, Debug)]
enum Condition {
    Up(Arc<Link>),
    /// Redis refused something for want of a right: whether it is still fit is being found out, and until then no
    /// claim is sent whose outcome might not be written down.
    Suspect(Arc<Link>, Suspicion),
    /// Just lost: the first attempt to get it back runs.
    Reconnecting,
    Down(Verdict),
}

/// Why a Redis is looked at again.
#[derive(Clone, Debug)]
struct Suspicion {
    /// What it said first.
    text: String,
    /// How often it said so: a look that began before the last time clears nobody.
    times: u64,
}

impl Supervised {
    /// Makes first contact. The error is the setting that makes this Redis unfit.
    pub(super) async fn start(
        address: RedisAddress,
        requirements: Requirements,
        patience: Duration,
    ) -> Result<Self, String> {
        let doubt = Arc::new(AtomicBool::new(false));
        let condition = Arc::new(watch::Sender::new(Condition::Reconnecting));
        let mut supervisor = Supervisor {
            address,
            requirements,
            patience,
            condition: Arc::clone(&condition),
            doubt: Arc::clone(&doubt),
            said: None,
            advised: Vec::new(),
        };
        let (first, drivers) = match supervisor.contact().await {
            Ok((link, drivers)) => (Condition::Up(Arc::new(link)), Some(drivers)),
            Err(Verdict::Unfit(text)) => return Err(format!("{} cannot be used: {text}", supervisor.place())),
            Err(verdict) => {
                supervisor.say(&verdict);
                (Condition::Down(verdict), None)
            }
        };
        condition.send_replace(first);
        let task = tokio::spawn(supervisor.run(drivers)).abort_handle();
        Ok(Self { condition, doubt, task })
    }

    /// The link, waited for until `deadline` only while it is just being made again.
    pub(super) async fn get(&self, deadline: Instant) -> Result<Arc<Link>, StoreError> {
        match self.settled(deadline, |condition| !matches!(condition, Condition::Reconnecting)).await {
            Condition::Suspect(link, _) => Ok(link),
            condition @ (Condition::Up(_) | Condition::Reconnecting | Condition::Down(_)) => condition.link(),
        }
    }

    /// The link to a Redis that nothing speaks against, waited for until `deadline` also while it is looked at again.
    pub(super) async fn get_trusted(&self, deadline: Instant) -> Result<Arc<Link>, StoreError> {
        let settled = |condition: &Condition| !matches!(condition, Condition::Reconnecting | Condition::Suspect(..));
        self.settled(deadline, settled).await.link()
    }

    /// The condition as soon as it is as wanted, or what it is at the deadline.
    async fn settled(&self, deadline: Instant, wanted: impl FnMut(&Condition) -> bool) -> Condition {
        let mut watcher = self.condition.subscribe();
        // Both ways to fail leave the last condition standing, and it says enough.
        let _ = timeout_at(deadline, watcher.wait_for(wanted)).await;
        self.condition.borrow().clone()
    }

    /// Redis refused something: whether it is still fit is looked at with the next pulse, and at once, before any
    /// other claim is sent, where a right was missing.
    pub(super) fn doubt(&self, refusal: &str) {
        if !errors::is_about_rights(refusal) {
            return self.doubt.store(true, Ordering::Relaxed);
        }
        self.condition.send_if_modified(|condition| {
            match condition {
                Condition::Up(link) => {
                    let suspicion = Suspicion { text: refusal.to_owned(), times: 1 };
                    *condition = Condition::Suspect(Arc::clone(link), suspicion);
                }
                Condition::Suspect(_, suspicion) => suspicion.times += 1,
                // What comes next is looked at anyway.
                Condition::Reconnecting | Condition::Down(_) => return false,
            }
            true
        });
    }
}

impl Condition {
    fn link(self) -> Result<Arc<Link>, StoreError> {
        match self {
            Condition::Up(link) => Ok(link),
            Condition::Suspect(_, suspicion) => Err(StoreError::Refused(suspicion.text)),
            Condition::Down(Verdict::Unfit(text)) => Err(StoreError::Refused(text)),
            Condition::Down(Verdict::Unreachable(text)) => Err(StoreError::NotSent(text.into())),
            Condition::Reconnecting => Err(StoreError::NotSent("Redis is being connected to again".into())),
        }
    }

    /// How often what speaks against it was said.
    fn suspicions(&self) -> u64 {
        match self {
            Condition::Suspect(_, suspicion) => suspicion.times,
            Condition::Up(_) | Condition::Reconnecting | Condition::Down(_) => 0,
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Supervisor {
    address: RedisAddress,
    requirements: Requirements,
    patience: Duration,
    condition: Arc<watch::Sender<Condition>>,
    doubt: Arc<AtomicBool>,
    /// What was logged last, and when.
    said: Option<(Verdict, Instant)>,
    /// Advice is given once.
    advised: Vec<Advice>,
}

impl Supervisor {
    async fn run(mut self, mut drivers: Option<Drivers>) {
        loop {
            let current = self.condition.borrow().clone();
            if let (Condition::Up(link) | Condition::Suspect(link, _), Some(mut drivers)) = (current, drivers.take()) {
                let verdict = self.watch(&link, &mut drivers).await;
                self.say(&verdict);
                self.condition.send_replace(match verdict {
                    Verdict::Unreachable(_) => Condition::Reconnecting,
                    Verdict::Unfit(_) => Condition::Down(verdict),
                });
                // Dropping the drivers resets the connections: whoever waits for an answer learns that there is none.
            }
            let mut pause = FIRST_PAUSE;
            loop {
                match self.contact().await {
                    Ok((link, fresh)) => {
                        if self.said.take().is_some() {
                            tracing::info!(redis = %self.place(), "the store can be used again");
                        }
                        self.condition.send_replace(Condition::Up(Arc::new(link)));
                        drivers = Some(fresh);
                        break;
                    }
                    Err(verdict) => {
                        self.say(&verdict);
                        self.condition.send_replace(Condition::Down(verdict));
                    }
                }
                sleep(jittered(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// A link to a fit Redis.
    async fn contact(&mut self) -> Result<(Link, Drivers), Verdict> {
        let connected = Link::connect(&self.address, self.patience).await;
        let (link, drivers) = connected.map_err(|error| fitness::verdict(&error, &self.requirements))?;
        let advice = self.examine(&link).await?;
        for advice in advice {
            if !self.advised.contains(&advice) {
                self.advised.push(advice);
                tracing::warn!(redis = %self.place(), "{}", advice.text());
            }
        }
        Ok((link, drivers))
    }

    /// Whether the Redis behind `link` is as it must be, and the gate may do there what it will have to.
    async fn examine(&self, link: &Link) -> Result<Vec<Advice>, Verdict> {
        let advice = match timeout(self.patience, fitness::examine(link, &self.requirements)).await {
            Ok(examined) => examined?,
            Err(_) => return Err(silent()),
        };
        match timeout(self.patience * 2, fitness::rehearse(link, &self.requirements)).await {
            Ok(rehearsed) => rehearsed.map(|()| advice),
            Err(_) => Err(silent()),
        }
    }

    /// Returns when the link must not be used any more, and why.
    async fn watch(&self, link: &Link, drivers: &mut Drivers) -> Verdict {
        let mut pulse = interval(PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pulse.tick().await;
        let mut changes = self.condition.subscribe();
        changes.mark_changed();
        let (mut missed, mut beats) = (0, 0);
        loop {
            let mut examine = tokio::select! {
                _ = drivers.join_next() => return Verdict::Unreachable("the connection was closed".to_owned()),
                // At once, unless it was only this task that changed it.
                _ = changes.changed() => match changes.borrow_and_update().suspicions() {
                    0 => continue,
                    _ => true,
                },
                _ = pulse.tick() => {
                    beats += 1;
                    let doubted = self.doubt.swap(false, Ordering::Relaxed);
                    doubted || beats % EXAMINED_EVERY == 0 || self.condition.borrow().suspicions() > 0
                }
            };
            let mut alive = true;
            if !examine {
                match timeout(self.patience, link.ping()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(StoreError::Refused(_))) => examine = true,
                    Ok(Err(StoreError::NotSent(_) | StoreError::InDoubt(_) | StoreError::Corrupt(_))) | Err(_) => {
                        alive = false;
                    }
                }
            }
            if examine {
                let before = self.condition.borrow().suspicions();
                alive = match self.examine(link).await {
                    Ok(_) => true,
                    Err(verdict @ Verdict::Unfit(_)) => return verdict,
                    Err(Verdict::Unreachable(_)) => false,
                };
                if alive {
                    self.clear(before);
                }
            }
            missed = if alive { 0 } else { missed + 1 };
            if missed >= MISSED_PULSES {
                return silent();
            }
        }
    }

    /// Takes back the suspicion that was there when a look began that found nothing wrong.
    fn clear(&self, times: u64) {
        self.condition.send_if_modified(|condition| match condition {
            Condition::Suspect(link, suspicion) if suspicion.times == times => {
                *condition = Condition::Up(Arc::clone(link));
                true
            }
            Condition::Suspect(..) | Condition::Up(_) | Condition::Reconnecting | Condition::Down(_) => false,
        });
    }

    /// Logs what is wrong: at once when it is new, and once in a while when it goes on.
    fn say(&mut self, verdict: &Verdict) {
        let now = Instant::now();
        if let Some((said, when)) = &self.said
            && said == verdict
            && now - *when < LOGGED_AGAIN
        {
            return;
        }
        let redis = self.place();
        match verdict {
            Verdict::Unreachable(text) => tracing::error!(redis, "the store cannot be reached: {text}"),
            Verdict::Unfit(text) => tracing::error!(redis, "the store cannot be used: {text}"),
        }
        self.said = Some((verdict.clone(), now));
    }

    /// Where it is, without credentials.
    fn place(&self) -> String {
        match &self.address.endpoint {
            RedisEndpoint::Tcp(host, port) => format!("the Redis at {host}:{port}"),
            RedisEndpoint::Unix(path) => format!("the Redis at {}", path.display()),
        }
    }
}

fn silent() -> Verdict {
    Verdict::Unreachable("it does not answer within store.timeout".to_owned())
}

/// Between half of `pause` and all of it, so that many gates do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness the pause is merely in step.
    let _ = getrandom::fill(&mut byte);
    pause / 2 + pause * u32::from(byte[0]) / 512
}
