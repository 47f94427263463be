//! What a configuration may look like, as data: for hints on unknown keys and for editors (JSON Schema).

use serde_json::{Map, Value, json};

use super::{raw, read::Table};

/// One key of a table.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// What it does; lines joined by spaces.
    pub(super) doc: &'static str,
    /// TOML; `None` for tables and for what must be given.
    pub(super) default: Option<&'static str>,
    pub(super) required: bool,
    pub(super) shape: Shape,
}

/// What a value looks like.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Boolean,
    Whole {
        min: u64,
        max: u64,
    },
    /// One of these numbers.
    Numbers(&'static [u64]),
    Text {
        expected: &'static str,
        choices: &'static [&'static str],
        pattern: &'static str,
    },
    List(Box<Shape>),
    Either(Box<Shape>, Box<Shape>),
    Table(Vec<Field>),
}

/// Keys and tables of later versions, by their full names: unknown like any other, with a better hint.
const LATER: [(&str, &str); 14] = [
    ("server.tls", "TLS on the listener"),
    ("upstream.tls", "TLS to the upstream"),
    ("upstream.http", "the choice of the upstream's HTTP version"),
    ("store.wait_replicas", "waiting for replicas"),
    ("store.sentinel_auth", "Redis Sentinel"),
    ("store.tls", "TLS to the store"),
    ("store.max_size", "a limit on the size of the embedded store"),
    ("store.encryption_key", "encryption of stored answers"),
    ("defaults.probe", "probing the upstream"),
    ("defaults.replay.authorize", "asking the upstream before a replay"),
    ("defaults.max_executions", "a limit on concurrent executions"),
    ("jwt", "verification of JSON Web Tokens"),
    ("limits.new_keys_per_caller", "a limit on new keys per caller"),
    ("telemetry", "OTLP export"),
];

/// What may help with the unknown key `name` of the table `path`, which has `fields`.
pub(super) fn hint_for(path: &str, name: &str, fields: &[Field]) -> Option<String> {
    let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let as_default = full.strip_prefix("route.").map(|rest| format!("defaults.{rest}"));
    if let Some((_, what)) = LATER.iter().find(|(key, _)| *key == full || Some(*key) == as_default.as_deref()) {
        return Some(format!("{what} is not supported by this version"));
    }
    if let Some(meant) = closest(name, fields.iter().map(|field| field.name)) {
        return Some(format!("did you mean `{meant}`?"));
    }
    let everywhere = all_keys();
    let owners = |name: &str| {
        let owners = everywhere.iter().filter(|(_, key)| *key == name).map(|(table, _)| format!("`{table}`"));
        owners.collect::<Vec<_>>().join(" or ")
    };
    if everywhere.iter().any(|(_, key)| *key == name) {
        return Some(format!("`{name}` belongs in {}", owners(name)));
    }
    if let Some(meant) = closest(name, everywhere.iter().map(|(_, key)| *key)) {
        return Some(format!("did you mean `{meant}`? It belongs in {}", owners(meant)));
    }
    let known: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
    // More than that is a manual, not a hint.
    (known.len() <= 8).then(|| format!("the keys here are {}", known.join(", ")))
}

/// The known name that `name` is most likely a slip of: a few letters apart, or one the beginning of the other.
pub(super) fn closest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let folded = name.to_ascii_lowercase().replace('-', "_");
    // Names are compared whole: quadratic work is not spent on a text that is no name.
    if name.len() > 64 {
        return None;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(&folded, &known.to_ascii_lowercase().replace('-', "_"));
    let near = |known: &str| {
        let far = distance(known);
        let begins = known.len() >= 4 && folded.starts_with(known);
        begins || (far <= known.chars().count().div_ceil(3).min(3) && far < folded.chars().count())
    };
    known.into_iter().filter(|known| near(known)).min_by_key(|known| distance(known))
}

/// Every key and the table that has it, as its header is written. Keys of rules are named by `[defaults]` alone.
pub(super) fn all_keys() -> Vec<(String, &'static str)> {
    fn collect(fields: &[Field], path: &str, keys: &mut Vec<(String, &'static str)>) {
        for field in fields {
            if !path.is_empty() {
                keys.push((format!("[{path}]"), field.name));
            }
            if let Shape::Table(inner) = &field.shape {
                let dot = if path.is_empty() { "" } else { "." };
                collect(inner, &format!("{path}{dot}{}", field.name), keys);
            }
        }
    }
    let mut keys = Vec::new();
    collect(&raw::Document::fields(), "", &mut keys);
    keys.extend(raw::Head::fields().iter().map(|field| ("[[route]]".to_owned(), field.name)));
    keys
}

/// The JSON Schema (draft-07) of a configuration file: for editors (`#:schema` of Taplo and others).
#[must_use]
pub fn schema() -> Value {
    let mut properties = properties(&raw::Document::fields());
    let route: Vec<_> = raw::Head::fields().into_iter().chain(raw::Rules::fields()).collect();
    let mut items = table(&route);
    // What a route does not say is as in `[defaults]`: a default of its own would mislead.
    if let Some(Value::Object(keys)) = items.get_mut("properties") {
        for field in raw::Rules::fields() {
            if let Some(Value::Object(key)) = keys.get_mut(field.name) {
                key.remove("default");
            }
        }
    }
    properties.insert("route".to_owned(), json!({ "type": "array", "items": items, "description": raw::ROUTE_DOC }));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "oncegate configuration",
        "type": "object",
        "properties": properties,
        "required": ["upstream"],
        "additionalProperties": false,
    })
}

fn table(fields: &[Field]) -> Value {
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut table = json!({ "type": "object", "properties": properties(fields), "additionalProperties": false });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn properties(fields: &[Field]) -> Map<String, Value> {
    let property = |field: &Field| {
        let mut property = value(&field.shape);
        property["description"] = json!(field.doc);
        if let Some(default) = field.default.and_then(default_of) {
            property["default"] = default;
        }
        (field.name.to_owned(), property)
    };
    fields.iter().map(property).collect()
}

fn value(shape: &Shape) -> Value {
    /// A string that is filled in from elsewhere can stand for anything.
    fn or_filled(value: Value) -> Value {
        json!({ "anyOf": [value, { "type": "string", "pattern": r"\$\{.*\}" }] })
    }
    match shape {
        Shape::Boolean => or_filled(json!({ "type": "boolean" })),
        Shape::Whole { min, max } => or_filled(json!({ "type": "integer", "minimum": min, "maximum": max })),
        Shape::Numbers(numbers) => or_filled(json!({ "type": "integer", "enum": numbers })),
        Shape::Text { expected, choices: [], pattern: "" } => json!({ "type": "string", "title": expected }),
        Shape::Text { expected, choices: [], pattern } => {
            or_filled(json!({ "type": "string", "title": expected, "pattern": pattern }))
        }
        Shape::Text { choices, .. } => or_filled(json!({ "type": "string", "enum": choices })),
        Shape::List(element) => json!({ "type": "array", "items": value(element) }),
        Shape::Either(one, other) => json!({ "anyOf": [value(one), value(other)] }),
        Shape::Table(fields) => table(fields),
    }
}

/// A default as JSON.
fn default_of(toml: &str) -> Option<Value> {
    fn convert(value: &toml::de::DeValue<'_>) -> Option<Value> {
        use toml::de::DeValue;
        Some(match value {
            DeValue::String(text) => json!(text),
            DeValue::Integer(number) => json!(number.as_str().parse::<i64>().ok()?),
            DeValue::Boolean(boolean) => json!(boolean),
            DeValue::Array(elements) => {
                Value::Array(elements.iter().map(|element| convert(element.get_ref())).collect::<Option<_>>()?)
            }
            DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => return None,
        })
    }
    convert(toml::de::DeValue::parse(toml).ok()?.get_ref())
}

#[cfg(test)]
mod tests;
