//! Tests of `idempotency::status`.

use http::StatusCode;
use proptest::prelude::*;

use super::{
    StatusClass::{Release, Store, Unknown},
    StatusClasses, StatusConflict,
    StatusPattern::{Class, Exact, Range},
};

fn class(classes: &StatusClasses, status: u16) -> super::StatusClass {
    classes.class(StatusCode::from_u16(status).unwrap(), false)
}

/// The row `release` of the default table.
const RELEASED: [u16; 25] = [
    307, 308, 401, 403, 407, 408, 409, 411, 412, 413, 414, 415, 417, 421, 423, 425, 426, 428, 429, 431, 521, 523, 525,
    526, 503,
];

/// The row `unknown`.
const UNKNOWN: [u16; 8] = [502, 503, 504, 520, 522, 524, 530, 600];

#[test]
fn by_default_the_named_statuses_release() {
    let classes = StatusClasses::default();
    for status in RELEASED.into_iter().filter(|&status| status != 503) {
        assert_eq!(class(&classes, status), Release, "{status}");
    }
}

#[test]
fn by_default_the_named_statuses_and_all_above_599_are_unknown() {
    let classes = StatusClasses::default();
    for status in UNKNOWN.into_iter().chain(601..=999) {
        assert_eq!(class(&classes, status), Unknown, "{status}");
    }
}

#[test]
fn by_default_everything_else_from_200_to_599_is_stored() {
    let classes = StatusClasses::default();
    for status in (200..=599).filter(|status| !RELEASED.contains(status) && !UNKNOWN.contains(status)) {
        assert_eq!(class(&classes, status), Store, "{status}");
    }
}

#[test]
fn an_interim_status_proves_nothing() {
    for status in 100..=199 {
        assert_eq!(class(&StatusClasses::default(), status), Unknown, "{status}");
    }
}

#[test]
fn a_503_releases_if_it_says_when_to_retry() {
    let classes = StatusClasses::default();
    assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, true), Release);
    assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, false), Unknown);
}

#[test]
fn retry_after_says_nothing_about_any_other_status() {
    let classes = StatusClasses::default();
    for status in (100..=999).filter(|&status| status != 503) {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(classes.class(status, true), classes.class(status, false), "{status}");
    }
}

#[test]
fn a_503_that_a_route_lists_is_what_the_route_says_with_or_without_retry_after() {
    for (pattern, listed) in [(Exact(503), Unknown), (Range(500, 510), Store), (Class(5), Store), (Exact(503), Release)]
    {
        let classes = StatusClasses::new(&[(pattern, listed)]).unwrap();
        assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, true), listed, "{pattern:?}");
        assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, false), listed, "{pattern:?}");
    }
}

#[test]
fn lists_that_do_not_name_503_leave_its_rule_alone() {
    let classes = StatusClasses::new(&[(Exact(500), Release), (Class(4), Store), (Range(504, 599), Store)]).unwrap();
    assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, true), Release);
    assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, false), Unknown);
}

#[test]
fn an_integer_beats_a_range_beats_a_class_beats_the_default_in_whatever_order() {
    let mut lists = [(Class(4), Release), (Range(402, 410), Unknown), (Exact(404), Store)];
    for _ in 0..lists.len() {
        lists.rotate_left(1);
        for lists in [lists, [lists[2], lists[1], lists[0]]] {
            let classes = StatusClasses::new(&lists).unwrap();
            assert_eq!(class(&classes, 400), Release);
            assert_eq!(class(&classes, 402), Unknown);
            assert_eq!(class(&classes, 404), Store);
            assert_eq!(class(&classes, 410), Unknown);
            assert_eq!(class(&classes, 411), Release);
            assert_eq!(class(&classes, 499), Release);
            assert_eq!(class(&classes, 500), Store, "the default");
        }
    }
}

#[test]
fn patterns_cover_both_their_ends_and_nothing_more() {
    let classes = StatusClasses::new(&[(Range(500, 501), Release), (Class(2), Release)]).unwrap();
    for (status, expected) in
        [(499, Store), (500, Release), (501, Release), (502, Unknown), (200, Release), (299, Release), (300, Store)]
    {
        assert_eq!(class(&classes, status), expected, "{status}");
    }
}

#[test]
fn a_status_in_two_lists_is_an_error_that_names_it() {
    let conflict = |lists: &[_]| StatusClasses::new(lists).unwrap_err();
    assert_eq!(
        conflict(&[(Exact(404), Store), (Exact(404), Release)]),
        StatusConflict { status: 404, first: Store, second: Release }
    );
    assert_eq!(
        conflict(&[(Range(400, 410), Store), (Range(410, 420), Unknown)]),
        StatusConflict { status: 410, first: Store, second: Unknown }
    );
    assert_eq!(
        conflict(&[(Class(5), Store), (Class(5), Unknown)]),
        StatusConflict { status: 500, first: Store, second: Unknown }
    );
}

#[test]
fn a_status_twice_in_one_list_is_no_conflict() {
    let classes = StatusClasses::new(&[(Exact(404), Release), (Exact(404), Release), (Range(400, 410), Release)]);
    assert_eq!(class(&classes.unwrap(), 404), Release);
}

#[test]
fn a_conflict_that_a_more_specific_pattern_settles_is_none_in_whatever_order() {
    let mut lists = [(Range(404, 404), Release), (Range(400, 404), Store), (Exact(404), Unknown)];
    for _ in 0..lists.len() {
        lists.rotate_left(1);
        assert_eq!(class(&StatusClasses::new(&lists).unwrap(), 404), Unknown);
    }
}

#[test]
fn the_stripe_preset_stores_everything_but_four_statuses() {
    let classes = StatusClasses::stripe();
    for status in 200..=599 {
        let expected = if [401, 403, 409, 429].contains(&status) { Release } else { Store };
        assert_eq!(class(&classes, status), expected, "{status}");
    }
    assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, true), Store);
}

#[test]
fn the_preset_success_only_stores_2xx_and_3xx_releases_4xx_and_holds_5xx() {
    let classes = StatusClasses::success_only();
    for status in 200..=999 {
        let expected = match status {
            200..=399 => Store,
            400..=499 => Release,
            _ => Unknown,
        };
        assert_eq!(class(&classes, status), expected, "{status}");
    }
    assert_eq!(classes.class(StatusCode::SERVICE_UNAVAILABLE, true), Unknown);
}

#[test]
fn debug_output_shows_ranges() {
    let shown = format!("{:?}", StatusClasses::success_only());
    assert_eq!(shown, "{100-199: Unknown, 200-399: Store, 400-499: Release, 500-999: Unknown}");
}

proptest! {
    #[test]
    fn no_pattern_makes_it_panic(exact: u16, first: u16, last: u16, digit: u8) {
        let lists = [(Exact(exact), Store), (Range(first, last), Release), (Class(digit), Unknown)];
        prop_assert!(StatusClasses::new(&lists).is_ok());
    }
}
