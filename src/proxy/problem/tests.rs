//! The words clients see.

use http_body_util::BodyExt;

use super::*;

async fn document(problem: Problem) -> (http::response::Parts, String) {
    let (parts, body) = problem.into_response("urn:oncegate:problem:").into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (parts, text)
}

#[tokio::test]
async fn a_problem_is_an_rfc_9457_document_that_nobody_stores() {
    let (parts, text) = document(Problem::still_running(7)).await;
    assert_eq!(parts.status, 504);
    assert_eq!(parts.headers["content-type"], "application/problem+json");
    assert_eq!(parts.headers["content-language"], "en");
    assert_eq!(parts.headers["cache-control"], "no-store");
    assert_eq!(parts.headers["retry-after"], "7");
    assert_eq!(
        text,
        "{\"type\":\"urn:oncegate:problem:outcome-unknown\",\"title\":\"Outcome unknown yet\",\"status\":504,\
         \"detail\":\"The upstream has not answered in time; the request still runs. Ask again later with the same key for its answer.\"}"
    );
}

#[tokio::test]
async fn a_broken_off_answer_says_what_its_status_was() {
    let (parts, text) = document(Problem::broken_off(StatusCode::CREATED, Mark::Executed)).await;
    assert_eq!(parts.status, 502);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["original_status"], 201);
}

#[tokio::test]
async fn what_is_out_of_service_says_when_to_come_back() {
    assert_eq!(document(Problem::given_up()).await.0.headers.get("retry-after"), None);
    let (parts, _) = document(Problem::flaw(Flaw::Method { close: false })).await;
    assert_eq!(parts.headers["allow"], METHODS);
}

#[test]
fn times_are_rfc_3339() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_709_164_800, "2024-02-29T00:00:00Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(rfc3339_seconds(WallMillis(seconds * 1000 + 999)), text);
    }
}
