//! Tests of `routes::path`.

use proptest::prelude::*;

use super::*;

#[test]
fn every_look_alike_of_a_path_has_its_canonical_form() {
    // The list of RELIABILITY §4.4, T-31, as far as CONTRACT §8 folds it.
    for look_alike in [
        "/payments",
        "//payments",
        "/./payments",
        "/x/../payments",
        "/payments/",
        "/payments//",
        "/payments/.",
        "/payments;a=b",
        "/payments/;a=b",
        "/..;/payments",
        "/..;x=1/payments",
        "/%70ayments",
        "/payments%2f",
        "/payments%2F",
        "/%2e/payments",
        "/%2E%2e/payments",
        "/x%2f..%2fpayments",
        "%2Fpayments",
        "/payments?",
        "/payments?a=/..",
        "/payments#x",
        "/;/payments",
        "/a/b/../../payments",
        "/../../payments",
        "payments",
        "/payments/x/..",
        "/payments/%2e",
        "/%50ayments/../payments",
    ] {
        assert_eq!(canonical(look_alike), "/payments", "{look_alike}");
    }
}

#[test]
fn what_section_8_does_not_fold_stays_another_path() {
    for (path, expected) in [
        ("/PAYMENTS", "/PAYMENTS"),
        ("/payments%20", "/payments%20"),
        ("/payments%00", "/payments%00"),
        ("/%252e/payments", "/%252e/payments"),
        ("/payments%252f", "/payments%252f"),
        ("\\payments", "/\\payments"),
        ("/payments\\", "/payments\\"),
        ("/payments.json", "/payments.json"),
        ("/payments%3Ba=b", "/payments%3Ba=b"),
        ("/%c0%afpayments", "/%C0%AFpayments"),
        ("/ｐayments", "/%EF%BD%90ayments"),
        ("/a%3fb", "/a%3Fb"),
        ("/...", "/..."),
    ] {
        assert_eq!(canonical(path), expected, "{path}");
    }
}

#[test]
fn the_root_and_the_asterisk_stay_themselves() {
    for path in ["/", "", "//", "/.", "/..", "/a/..", "?x", "/;a", "%2F"] {
        assert_eq!(canonical(path), "/", "{path}");
    }
    assert_eq!(canonical("*"), "*");
    assert!(matches!(canonical("/api/payments/42?x=1"), Cow::Borrowed("/api/payments/42")));
}

#[test]
fn a_percent_sign_that_encodes_nothing_cannot_team_up() {
    assert_eq!(canonical("/%%32e"), "/%252e");
    assert_eq!(canonical("/%2%65"), "/%252e");
    assert_eq!(canonical("/a%"), "/a%25");
    assert_eq!(canonical("/a%zz"), "/a%25zz");
}

#[test]
fn a_path_with_an_encoded_slash_has_a_second_reading() {
    for (path, expected) in [
        ("/acc/1%2fx/transfers", "/acc/1%2Fx/transfers"),
        ("/acc/%2F/transfers/", "/acc/%2F/transfers"),
        ("//%61cc/1%2Fx;v=1/./transfers?a=b", "/acc/1%2Fx/transfers"),
        ("/acc/1%2f../transfers", "/acc/1%2F../transfers"),
        ("/%2f", "/%2F"),
        ("%2Fpay", "/%2Fpay"),
    ] {
        assert_eq!(canonical_of_pieces(path).as_deref(), Some(expected), "{path}");
    }
    for path in ["/", "*", "/acc/1/transfers", "/acc/%252f/x", "/a%2", "/a%2e%20", "/a?b=%2f", "/a#%2F"] {
        assert_eq!(canonical_of_pieces(path), None, "{path}");
    }
}

fn matches(template: &str, path: &str) -> bool {
    PathTemplate::parse(template).unwrap().matches(&canonical(path))
}

#[test]
fn a_parameter_is_one_segment_and_a_rest_is_any_number() {
    assert!(matches("/accounts/{id}/transfers", "/accounts/42/transfers"));
    assert!(matches("/accounts/{id}/transfers", "/accounts/a%20b/transfers/"));
    assert!(!matches("/accounts/{id}/transfers", "/accounts/transfers"));
    assert!(!matches("/accounts/{id}/transfers", "/accounts//transfers"));
    assert!(!matches("/accounts/{id}/transfers", "/accounts/a%2Fb/transfers"));
    assert!(!matches("/accounts/{id}", "/accounts"));
    for path in ["/files", "/files/", "/files/a", "/files/a/b/c"] {
        assert!(matches("/files/{*rest}", path), "{path}");
    }
    assert!(!matches("/files/{*rest}", "/file"));
    assert!(!matches("/files/{*rest}", "/filesystem"));
    assert!(matches("/{*rest}", "/"));
    assert!(matches("/", "/"));
    assert!(!matches("/", "/a"));
    assert!(!matches("/{*rest}", "*"));
}

#[test]
fn the_text_of_a_template_is_canonical_too() {
    for template in ["/payments", "/payments/", "//payments", "/%70ayments", "/x/../payments"] {
        assert!(matches(template, "/payments"), "{template}");
    }
    assert!(matches("/café", "/caf%c3%a9"));
    assert!(matches("/caf%C3%A9", "/café"));
}

#[test]
fn letter_case_is_ignored_on_both_sides_and_beyond_ascii() {
    let matches =
        |template: &str, path: &str| PathTemplate::parse(template).unwrap().matches_folded(&fold(&canonical(path)));
    assert!(matches("/API/Payments", "/api/PAYMENTS/"));
    assert!(matches("/café", "/CAF%C3%89"));
    assert!(matches("/CAFÉ", "/caf%c3%a9"));
    assert!(matches("/strasse/{id}", "/ſTRASSE/1"));
    assert!(matches("/kilo", "/%E2%84%AAilo"));
    assert!(!matches("/payments", "/payment"));
    // Bytes that are not UTF-8 are compared as they are.
    assert!(matches("/%FF", "/%ff"));
    // An encoded slash or percent sign keeps its meaning.
    assert!(!matches("/a/b", "/a%252Fb"));
}

#[test]
fn text_beats_a_parameter_beats_the_end_beats_a_rest() {
    let ranked = [
        "/a/b/c",
        "/a/b/{x}",
        "/a/b",
        "/a/b/{*x}",
        "/a/{x}/c",
        "/a/{x}",
        "/a",
        "/a/{*x}",
        "/{x}/b",
        "/{x}",
        "/",
        "/{*x}",
    ];
    let parse = |text: &str| PathTemplate::parse(text).unwrap();
    for (place, one) in ranked.iter().enumerate() {
        for (other_place, other) in ranked.iter().enumerate() {
            assert_eq!(parse(one).is_more_specific_than(&parse(other)), place < other_place, "{one} and {other}");
        }
    }
}

#[test]
fn what_is_not_a_template_is_refused_with_a_reason() {
    let parse = |text: &str| PathTemplate::parse(text).unwrap_err();
    assert_eq!(parse(""), TemplateError::NotAbsolute);
    assert_eq!(parse("payments"), TemplateError::NotAbsolute);
    assert_eq!(parse("/a?b"), TemplateError::Query('?'));
    assert_eq!(parse("/a#b"), TemplateError::Query('#'));
    assert_eq!(parse("/a;b"), TemplateError::Parameters);
    assert_eq!(parse("/a b"), TemplateError::Space);
    for mixed in ["{id}.json", "a{id}", "{a}{b}", "{", "}", "{a", "a}"] {
        assert_eq!(parse(&format!("/{mixed}")), TemplateError::Mixed(mixed.to_owned()));
    }
    for nameless in ["{}", "{*}", "{a.b}", "{**}"] {
        assert_eq!(parse(&format!("/{nameless}")), TemplateError::Name(nameless.to_owned()));
    }
    assert_eq!(parse("/{a}/{a}"), TemplateError::Twice("a".to_owned()));
    assert_eq!(parse("/{a}/{*a}"), TemplateError::Twice("a".to_owned()));
    assert_eq!(parse("/{*a}/b"), TemplateError::RestNotLast("{*a}".to_owned()));
}

/// Texts in which everything that the canonical form looks at is frequent.
fn paths() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[/.;%aA2eEfF5?#\\\\é*]{0,24}", "(/|//|%2[fF]|\\.|%2[eE]|;|;a=b|%25|%|[a-c]){0,16}"]
}

proptest! {
    #[test]
    fn the_canonical_form_of_a_canonical_form_is_itself(path in paths()) {
        let once = canonical(&path).into_owned();
        prop_assert_eq!(canonical(&once), once.as_str());
        prop_assert!(once == "*" || once.starts_with('/'));
        prop_assert!(once.is_ascii() && !once.contains("//") && !once.contains(['?', '#', ';']));
        prop_assert!(once == "/" || !once.ends_with('/'));
    }

    #[test]
    fn the_short_cut_agrees_with_the_long_way(path in paths()) {
        if is_canonical(&path) && !path.contains(['?', '#']) {
            let detour = format!("/.{path}");
            prop_assert_eq!(canonical(&detour), path);
        }
    }

    #[test]
    fn any_text_is_a_template_or_an_error_and_a_template_matches_without_a_panic(text in paths(), path in paths()) {
        if let Ok(template) = PathTemplate::parse(&text) {
            let path = canonical(&path);
            if template.matches(&path) {
                prop_assert!(template.matches_folded(&fold(&path)));
            }
        }
    }

    #[test]
    fn decoration_does_not_lead_to_another_path(
        segments in prop::collection::vec("[a-zA-Z0-9._~-]{1,6}", 1..5),
        decorations in prop::collection::vec(0..7usize, 5),
    ) {
        prop_assume!(segments.iter().all(|segment| segment != "." && segment != ".."));
        let plain: String = segments.iter().map(|segment| format!("/{segment}")).collect();
        let mut decorated = String::new();
        for (segment, decoration) in segments.iter().zip(decorations) {
            let encoded: String = segment.bytes().map(|byte| format!("%{byte:02x}")).collect();
            decorated += &match decoration {
                0 => format!("//{segment}"),
                1 => format!("/./{segment}"),
                2 => format!("/x/../{segment}"),
                3 => format!("/{segment};v=1"),
                4 => format!("/{encoded}"),
                5 => format!("%2f{segment}"),
                // Above the root there is nothing to leave.
                _ if decorated.is_empty() => format!("/..;/../{segment}"),
                _ => format!("/{segment}"),
            };
        }
        let decorated = decorated + "/";
        prop_assert_eq!(canonical(&decorated), plain.as_str(), "{}", decorated);
    }
}
