//! Tests of `config::mask`.

use proptest::prelude::*;

use super::*;
use crate::config::schema::all_keys;

#[test]
fn secrets_that_are_written_into_a_file_are_not_shown() {
    for (text, masked) in [
        ("token = \"abc\"", "token = \"***\""),
        ("token='abc' # x", "token='***'****"),
        ("\"token\" = \"abc\"", "\"token\" = \"***\""),
        ("token = \"abc", "token = \"***"),
        ("token = \"a\\\"c\"", "token = \"****\""),
        ("token = \"abc\"def\" # x", "token = \"***\"********"),
        ("token = abc", "token = ***"),
        ("token abc", "token ***"),
        ("token: \"abc\"", "token: \"***\""),
        ("admin = { listen = \"off\", token = \"abc\" }", "admin = { listen = \"off\", token = \"***\" }"),
        ("admin.token = \"hé€🔑\"\r\n", "admin.token = \"*·•🞄\"\r\n"),
        ("# token = \"abc\"", "# token = \"***\""),
        ("encryption_key = [\"abc\", 'def']", "encryption_key = [\"***\", '***']"),
        ("sentinel_auth = \"user:abc\"", "sentinel_auth = \"********\""),
        ("token = \"\"\"abc\ndef\"\"\"\nx = \"y\"", "token = \"\"\"***\n***\"\"\"\nx = \"y\""),
    ] {
        assert_eq!(mask(text), masked);
    }
}

#[test]
fn what_resembles_the_name_of_a_secret_is_one() {
    for key in ["tokn", "tokens", "Token", "my_token", "admin-token", "pasword", "secrets", "client_secret", "pass"] {
        assert_eq!(mask(&format!("{key} = \"abc\"")), format!("{key} = \"***\""));
    }
    for key in ["encription_key", "encryption-key", "encryptionkey", "redis_password", "passphrase", "credentials"] {
        assert_eq!(mask(&format!("x = {{ {key} = \"abc\" }}")), format!("x = {{ {key} = \"***\" }}"));
    }
}

#[test]
fn no_other_key_that_there_is_counts_as_a_secret_or_as_the_admins_table() {
    for (table, key) in all_keys() {
        assert_eq!(is_secret(key), key == "token", "{table} {key}");
        assert!(!is_admin(key), "{table} {key}");
        let table = table.trim_matches(['[', ']']);
        assert_eq!(is_admin(table), table == "admin", "{table}");
    }
}

#[test]
fn every_string_of_the_admins_table_is_hidden_but_where_it_listens() {
    for (text, masked) in [
        ("[admin]\nlisten = \"off\"\nx = \"abc\"\n", "[admin]\nlisten = \"off\"\nx = \"***\"\n"),
        ("[admn]\nbearer = \"abc\"\n", "[admn]\nbearer = \"***\"\n"),
        ("[admin]\nabc\n[server]\nlisten = \"x\"\n", "[admin]\n***\n[server]\nlisten = \"x\"\n"),
        (
            "[admin]\nx = [\n  [\"abc\"],\n]\n[log]\nlevel = \"x\"",
            "[admin]\nx = [\n  [\"***\"],\n]\n[log]\nlevel = \"x\"",
        ),
        ("admin.x = \"abc\"", "admin.x = \"***\""),
        ("admin = { listen = \"off\", x = \"abc\" }", "admin = { listen = \"off\", x = \"***\" }"),
        ("[admin]\nlisten = \"off\" # token = \"abc\"", "[admin]\nlisten = \"off\" # token = \"***\""),
    ] {
        assert_eq!(mask(text), masked);
    }
}

#[test]
fn all_strings_within_the_value_of_a_secret_are_hidden() {
    for (text, masked) in [
        ("token = [\"abc\"]", "token = [\"***\"]"),
        ("token = [\n  \"abc\", # one\n  'def',\n]\nx = \"y\"", "token = [\n  \"***\", # one\n  '***',\n]\nx = \"y\""),
        ("token = { env = \"abc\", x = [\"d\"] }", "token = { env = \"***\", x = [\"*\"] }"),
        ("token = [abc, 123]", "token = [***, ***]"),
        ("token = [\"abc\"", "token = [\"***\""),
    ] {
        assert_eq!(mask(text), masked);
    }
}

#[test]
fn user_password_and_query_of_a_url_are_not_shown() {
    for (text, masked) in [
        ("url = \"redis://:abc@h:1/0\"", "url = \"redis://:***@h:1/0\""),
        ("url = \"redis://user:a@c@h\"", "url = \"redis://****:***@h\""),
        ("url = \"redis://abc@h\"", "url = \"redis://***@h\""),
        ("url = \"redis://u:a c'd@h\"", "url = \"redis://*:*****@h\""),
        ("url = \"redis://u:abc@h:1/0?x=abc\"", "url = \"redis://*:***@h:1/0?*****\""),
        ("url = \"http://h/p#abc\"", "url = \"http://h/p#***\""),
        ("url = \"redis+unix:/x?db=1&pass=abc\"", "url = \"redis+unix:/x?*************\""),
        ("x = [\"a\", \"http://h/?abc\"]", "x = [\"a\", \"http://h/?***\"]"),
    ] {
        assert_eq!(mask(text), masked);
    }
}

#[test]
fn references_to_secrets_and_everything_else_are_shown() {
    for text in [
        "token = \"${ONCEGATE_TOKEN}\"",
        "token = \"${file:/run/secrets/t}\"",
        "[admin]\ntoken = \"${ONCEGATE_TOKEN}\"",
        "url = \"redis://:${PASSWORD}@h\"",
        "url = \"http://127.0.0.1:9000\"",
        "# see https://example.com/a and me@example.com",
        "key = { header = \"Idempotency-Key\", pattern = \"\" }",
        "scope = [\"header:Authorization\", \"cookie:__Host-Session\"]",
        "problem_base = \"urn:oncegate:problem:\"",
        "path = \"/files/{*rest}\"",
    ] {
        assert_eq!(mask(text), text);
    }
    assert_eq!(mask("token = \"${T:-abc}\""), "token = \"${T:-***}\"");
    assert_eq!(mask("token = \"${T}abc\""), "token = \"${T}***\"");
    assert_eq!(mask("token = \"$${T}\""), "token = \"*****\"");
}

proptest! {
    #[test]
    fn masking_moves_nothing(
        text in "[a-z\"'=:/@{}$\n\r é🔑]{0,60}|(token|pass|admin|listen| = |\"|'|\"\"\"|x://|:|@|\\?|\\[|\\]|\\{|\\}|#|,|\\$\\{|é|🔑|\\\\|\n|\r){0,20}"
    ) {
        let masked = mask(&text);
        prop_assert_eq!(masked.len(), text.len());
        for ((a, one), (b, other)) in masked.char_indices().zip(text.char_indices()) {
            prop_assert_eq!(a, b);
            prop_assert_eq!(one == '\n', other == '\n');
        }
    }

    #[test]
    fn a_token_is_never_shown_whatever_is_in_it(token in "[a-z \"'=:/@{}#\\[\\],é?&-]{0,20}") {
        let canary = "CANARY";
        for text in [
            format!("token = \"{canary}{token}\"\n"),
            format!("token = \"{token}{canary}\"\n"),
            format!("[admin]\ntokn = \"{token}{canary}\"\n"),
            format!("[admin]\ntoken = ['{canary}', '{token}']\n"),
        ] {
            prop_assert!(!mask(&text).contains(canary), "{}", mask(&text));
        }
    }
}
