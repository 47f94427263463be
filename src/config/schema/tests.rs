//! Tests of `config::schema`.

use toml::de::DeTable;

use super::*;
use crate::config::raw::{Document, Head, Rules};

/// The full names of all keys, those of `[[route]]` only where they are its own.
fn keys() -> Vec<String> {
    fn collect(fields: &[Field], path: &str, keys: &mut Vec<String>) {
        for field in fields {
            let path = format!("{path}{}", field.name);
            match &field.shape {
                Shape::Table(inner) => collect(inner, &format!("{path}."), keys),
                Shape::Either(_, other) if matches!(**other, Shape::Table(_)) => {
                    if let Shape::Table(inner) = &**other {
                        collect(inner, &format!("{path}."), keys);
                    }
                }
                Shape::Boolean
                | Shape::Whole { .. }
                | Shape::Numbers(_)
                | Shape::Text { .. }
                | Shape::List(_)
                | Shape::Either(..) => keys.push(path),
            }
        }
    }
    let mut keys = Vec::new();
    collect(&Document::fields(), "", &mut keys);
    collect(&Head::fields(), "route.", &mut keys);
    keys.sort();
    keys
}

fn written(table: &DeTable<'_>, path: &str, keys: &mut Vec<String>) {
    for (key, value) in table {
        let path = format!("{path}{}", key.get_ref());
        match (value.get_ref().as_table(), value.get_ref().as_array()) {
            (Some(inner), _) => written(inner, &format!("{path}."), keys),
            (None, Some(elements)) if path == "route" => {
                for element in elements {
                    written(element.get_ref().as_table().unwrap(), "route.", keys);
                }
            }
            (None, _) => keys.push(path),
        }
    }
}

#[test]
fn the_commented_file_has_every_key() {
    let text = include_str!("../../../config/oncegate.toml");
    let mut found = Vec::new();
    written(DeTable::parse(text).unwrap().get_ref(), "", &mut found);
    let rules: Vec<_> = Rules::fields().iter().map(|field| format!("route.{}", field.name)).collect();
    found.retain(|key| !rules.iter().any(|rule| key == rule || key.starts_with(&format!("{rule}."))));
    found.sort();
    assert_eq!(found, keys());
}

#[test]
fn every_key_is_documented_and_has_a_default_or_must_be_given() {
    fn check(fields: &[Field], path: &str) {
        for field in fields {
            assert!(field.doc.len() > 10 && !field.doc.starts_with(' '), "{path}{}: {:?}", field.name, field.doc);
            match &field.shape {
                Shape::Table(inner) => check(inner, &format!("{path}{}.", field.name)),
                Shape::Either(..) => assert!(field.default.is_none()),
                Shape::Boolean | Shape::Whole { .. } | Shape::Numbers(_) | Shape::Text { .. } | Shape::List(_) => {
                    assert!(field.default.is_some() != field.required, "{path}{}", field.name);
                }
            }
        }
    }
    check(&Document::fields(), "");
    check(&Head::fields(), "route.");
}

#[test]
fn a_slip_of_the_pen_is_recognised() {
    let known = ["listen", "retention", "wait_timeout", "url", "x-forwarded"];
    let closest = |name: &str| closest(name, known);
    assert_eq!(closest("lisen"), Some("listen"));
    assert_eq!(closest("Listen"), Some("listen"));
    assert_eq!(closest("retension"), Some("retention"));
    assert_eq!(closest("wait-timeout"), Some("wait_timeout"));
    assert_eq!(closest("ulr"), Some("url"));
    assert_eq!(closest("xforwarded"), Some("x-forwarded"));
    assert_eq!(closest("retention_time"), Some("retention"));
    for name in ["", "a", "zzz", "completely_different", &"l".repeat(1000)] {
        assert_eq!(closest(name), None, "{name}");
    }
}

#[test]
fn a_hint_leads_to_where_the_key_belongs() {
    let server = Document::fields().remove(0);
    let Shape::Table(fields) = server.shape else { panic!("a table") };
    let hint = |name: &str| hint_for("server", name, &fields);
    assert_eq!(hint("lisen").unwrap(), "did you mean `listen`?");
    assert_eq!(hint("tls").unwrap(), "TLS on the listener is not supported by this version");
    assert_eq!(hint("url").unwrap(), "`url` belongs in `[upstream]` or `[store]`");
    assert_eq!(hint("retension").unwrap(), "did you mean `retention`? It belongs in `[defaults]`");
    assert_eq!(hint("zzzzzz"), None);
    let rules = Rules::fields();
    assert_eq!(hint_for("defaults", "name", &rules).unwrap(), "`name` belongs in `[[route]]`");
    for path in ["defaults", "route"] {
        assert_eq!(hint_for(path, "probe", &rules).unwrap(), "probing the upstream is not supported by this version");
    }
}

#[test]
fn the_json_schema_says_what_the_reader_does() {
    let schema = schema();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["upstream"]));
    let server = &schema["properties"]["server"];
    assert_eq!(server["additionalProperties"], false);
    assert_eq!(server["description"], "How clients are served.");
    assert_eq!(server["properties"]["max_connections"]["default"], 10000);
    assert_eq!(server["properties"]["max_connections"]["anyOf"][0]["maximum"], 1_000_000);
    assert_eq!(server["properties"]["trusted_proxies"]["type"], "array");
    assert_eq!(schema["properties"]["upstream"]["required"], json!(["url"]));
    let defaults = &schema["properties"]["defaults"]["properties"];
    assert_eq!(defaults["mode"]["anyOf"][0]["enum"], json!(["enforce", "off"]));
    assert_eq!(defaults["scope"]["default"], json!(["header:Authorization", "header:X-API-Key"]));
    assert_eq!(defaults["mismatch_status"]["anyOf"][0]["enum"], json!([422, 409]));
    assert_eq!(defaults["outcome"]["anyOf"][0]["anyOf"][0]["enum"], json!(["stripe", "success-only"]));
    let route = &schema["properties"]["route"]["items"];
    assert_eq!(route["required"], json!(["name", "path"]));
    assert_eq!(route["properties"]["retention"]["default"], Value::Null);
    assert_eq!(route["properties"]["ignore_case"]["default"], false);
}
