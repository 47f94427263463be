//! The play, act by act. Nothing is left to timing: the API stalls until it is told to go on, so every answer that is
//! lost is lost for certain, and every tap that must be concurrent is.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{
    ShowError,
    api::{Api, Manner},
    shop::{Answer, Order},
    stage::{Line, Stage},
};

/// How often the shop's customer taps.
const TAPS: usize = 50;
/// How long the shop waits for an answer that gets lost.
const IMPATIENT: Duration = Duration::from_millis(300);

/// Plays everything.
pub(super) async fn play(stage: &mut Stage, api: &Api, gate: &str) -> Result<(), ShowError> {
    stage.act("WITHOUT THE GATE");
    without(stage, api).await?;
    stage.act("WITH THE GATE");
    lost_answer(stage, api, gate).await?;
    other_amount(stage, api, gate).await?;
    taps(stage, api, gate).await?;
    killed(stage, api, gate).await
}

/// The answer is lost, the shop retries: paid twice. The key does not help, because nobody looks at it.
async fn without(stage: &mut Stage, api: &Api) -> Result<(), ShowError> {
    let order = Order { address: api.address().to_string(), key: Some("order-1001"), amount: 4200 };
    let before = api.booked();
    api.behave(Manner::Stall);
    let first = order.send_until(losing(api, before + 1)).await?;
    api.behave(Manner::Prompt);
    stage.show(&Line {
        what: "pays 42.00, the answer gets lost",
        saw: saw(first.as_ref()),
        booked: api.booked() - before,
        note: "",
        held: first.is_none() && api.booked() - before == 1,
    });
    let retry = order.send().await?;
    stage.show(&Line {
        what: "retries, same key",
        saw: saw(retry.as_ref()),
        booked: api.booked() - before,
        note: "paid twice",
        held: is(retry.as_ref(), "201") && api.booked() - before == 2,
    });
    Ok(())
}

/// The same through the gate: the retry gets the answer that was lost.
async fn lost_answer(stage: &mut Stage, api: &Api, gate: &str) -> Result<(), ShowError> {
    let order = Order { address: gate.to_owned(), key: Some("order-1002"), amount: 4200 };
    let before = api.booked();
    api.behave(Manner::Stall);
    let first = order.send_until(losing(api, before + 1)).await?;
    stage.show(&Line {
        what: "pays 42.00, the answer gets lost",
        saw: saw(first.as_ref()),
        booked: api.booked() - before,
        note: "",
        held: first.is_none() && api.booked() - before == 1,
    });
    let early = order.send().await?;
    stage.show(&Line {
        what: "retries while the API still works",
        saw: saw(early.as_ref()),
        booked: api.booked() - before,
        note: "told to wait",
        held: is(early.as_ref(), "409 in-progress")
            && early.as_ref().is_some_and(|answer| answer.retry_after.is_some())
            && api.booked() - before == 1,
    });
    api.behave(Manner::Prompt);
    let retry = patiently(&order, early).await?;
    stage.show(&Line {
        what: "retries when told to",
        saw: saw(retry.as_ref()),
        booked: api.booked() - before,
        note: "paid once",
        held: is_replay(retry.as_ref()) && api.booked() - before == 1,
    });
    Ok(())
}

/// The same key for something else is a mistake, and is told so.
async fn other_amount(stage: &mut Stage, api: &Api, gate: &str) -> Result<(), ShowError> {
    let order = Order { address: gate.to_owned(), key: Some("order-1002"), amount: 9900 };
    let before = api.booked();
    let answer = order.send().await?;
    stage.show(&Line {
        what: "same key, but 99.00",
        saw: saw(answer.as_ref()),
        booked: api.booked() - before,
        note: "refused",
        held: is(answer.as_ref(), "422 key-reused") && api.booked() == before,
    });
    Ok(())
}

/// Fifty taps at once: the API answers only when all the others have been turned away.
async fn taps(stage: &mut Stage, api: &Api, gate: &str) -> Result<(), ShowError> {
    let order = Order { address: gate.to_owned(), key: Some("order-1003"), amount: 4200 };
    let before = api.booked();
    api.behave(Manner::Stall);
    let mut first: JoinSet<Result<Option<Answer>, ShowError>> = JoinSet::new();
    for _ in 0..TAPS {
        let order = order.clone();
        first.spawn(async move { order.send().await });
    }
    let mut turned_away = Vec::new();
    while turned_away.len() < TAPS - 1 {
        let Some(answer) = first.join_next().await else { break };
        turned_away.push(answer??);
    }
    api.behave(Manner::Prompt);
    let winner = match first.join_next().await {
        Some(answer) => answer??,
        None => None,
    };
    let waiting = turned_away.iter().filter(|answer| is(answer.as_ref(), "409 in-progress")).count();
    stage.show(&Line {
        what: "50 taps on the button at once",
        saw: format!("1 x {}, {waiting} x 409 in-progress", brief(winner.as_ref())),
        booked: api.booked() - before,
        note: "paid once",
        held: is(winner.as_ref(), "201 executed") && waiting == TAPS - 1 && api.booked() - before == 1,
    });
    let mut again: JoinSet<Result<Option<Answer>, ShowError>> = JoinSet::new();
    for _ in 1..TAPS {
        let order = order.clone();
        again.spawn(async move { order.send().await });
    }
    let mut replays = 0;
    while let Some(answer) = again.join_next().await {
        let answer = answer??;
        let same = answer.as_ref().map(|answer| &answer.body) == winner.as_ref().map(|answer| &answer.body);
        replays += usize::from(is_replay(answer.as_ref()) && same);
    }
    stage.show(&Line {
        what: "the 49 others retry",
        saw: format!("{replays} x 201 replayed, the same bytes"),
        booked: api.booked() - before,
        note: "paid once",
        held: replays == TAPS - 1 && api.booked() - before == 1,
    });
    Ok(())
}

/// The API dies between booking and answering. Nobody can know; so nobody guesses.
async fn killed(stage: &mut Stage, api: &Api, gate: &str) -> Result<(), ShowError> {
    let order = Order { address: gate.to_owned(), key: Some("order-1004"), amount: 4200 };
    let before = api.booked();
    api.behave(Manner::Die);
    let first = order.send().await?;
    api.behave(Manner::Prompt);
    stage.show(&Line {
        what: "pays, the API is killed in mid-charge",
        saw: saw(first.as_ref()),
        booked: api.booked() - before,
        note: "nobody knows",
        held: is(first.as_ref(), "502 outcome-unknown") && api.booked() - before == 1,
    });
    let retry = order.send().await?;
    stage.show(&Line {
        what: "retries, the API is back",
        saw: saw(retry.as_ref()),
        booked: api.booked() - before,
        note: "not run again",
        held: is(retry.as_ref(), "409 outcome-unknown") && api.booked() - before == 1,
    });
    Ok(())
}

/// Over when the shop's patience is, and the API has booked: a slow machine must not turn a lost answer into a lost
/// request.
async fn losing(api: &Api, booked: usize) {
    tokio::join!(tokio::time::sleep(IMPATIENT), api.has_booked(booked));
}

/// Retries as long as it is told to wait.
async fn patiently(order: &Order, mut last: Option<Answer>) -> Result<Option<Answer>, ShowError> {
    while let Some(wait) =
        last.as_ref().filter(|answer| answer.slug == "in-progress").and_then(|answer| answer.retry_after)
    {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        last = order.send().await?;
    }
    Ok(last)
}

fn is(answer: Option<&Answer>, brief: &str) -> bool {
    answer.is_some_and(|answer| answer.brief() == brief)
}

fn is_replay(answer: Option<&Answer>) -> bool {
    is(answer, "201 replayed") && answer.is_some_and(|answer| answer.replayed)
}

fn saw(answer: Option<&Answer>) -> String {
    match answer.and_then(|answer| answer.retry_after) {
        Some(seconds) => format!("{}, retry after {seconds} s", brief(answer)),
        None => brief(answer),
    }
}

fn brief(answer: Option<&Answer>) -> String {
    answer.map_or_else(|| "nothing, and gave up".to_owned(), Answer::brief)
}
