//! What is legal and still unwise, and what is worth knowing: warnings and notes about a valid configuration.

use http::{Method, header};

use super::{
    Env, Settings,
    problem::Severity,
    raw::{File, Rules},
    read::{Reader, Span, Table},
    units::{show_duration, show_size},
};
use crate::{
    idempotency::policy::{Mode, OnUnknown, ScopeSource},
    store::Location,
};

/// Reports everything unwise about `file`, which resolved to `settings`.
pub(super) fn advise(file: &File, settings: &Settings, env: Env<'_>, reader: &mut Reader<'_>) {
    let builtin = Rules::initial();
    advise_rules(&file.document.defaults, &builtin, settings, reader);
    for route in &file.routes {
        advise_rules(&route.rules, &file.document.defaults, settings, reader);
    }
    advise_store(file, settings, env, reader);
    advise_unreachable(file, settings, reader);
    note_opaque_credentials(file, settings, reader);
}

/// About one table of rules, as far as it differs from `base`, which was looked at before.
fn advise_rules(rules: &Rules, base: &Rules, settings: &Settings, reader: &mut Reader<'_>) {
    let mut warn = |place: Option<Span>, message: String, hint: &str| {
        reader.report(Severity::Warning, place, message, Some(hint.to_owned()));
    };
    let place = rules.lease.own_place(&base.lease).or_else(|| rules.retention.own_place(&base.retention));
    if place.is_some() && rules.lease.value.0 > rules.retention.value.0 {
        let (lease, retention) = (show_duration(rules.lease.value.0), show_duration(rules.retention.value.0));
        let message = format!("`lease` ({lease}) is longer than `retention` ({retention})");
        warn(place, message, "a claim is forgotten before it can lapse");
    }
    let place = rules.anonymous.own_place(&base.anonymous);
    if rules.scope.value.is_empty() && place.is_some() {
        let message = "`anonymous` means nothing here: with `scope = []` all callers are one".to_owned();
        warn(place, message, "leave one of the two out");
    }
    let posts = rules.methods.value.iter().find(|method| method.value == Method::POST);
    let place = rules.unknown.own_place(&base.unknown).or_else(|| {
        rules.methods.own_place(&base.methods)?;
        posts.and_then(|post| post.span.clone())
    });
    if rules.unknown.value == OnUnknown::Retry && posts.is_some() && place.is_some() {
        let message = "`unknown = \"retry\"` executes a POST again whose outcome nobody knows".to_owned();
        warn(place, message, "right only where the upstream tolerates a repetition; `hold` never repeats");
    }
    let largest = rules.max_request_body.value.0.max(rules.max_response_body.value.0);
    if largest > settings.proxy.body_memory {
        let own_size = if rules.max_request_body.value.0 == largest {
            rules.max_request_body.span.clone()
        } else {
            rules.max_response_body.span.clone()
        };
        let message = format!(
            "a body of {} does not fit into `limits.body_memory` ({})",
            show_size(largest),
            show_size(settings.proxy.body_memory)
        );
        warn(own_size, message, "such a request always gets 503");
    }
}

fn advise_store(file: &File, settings: &Settings, env: Env<'_>, reader: &mut Reader<'_>) {
    let place = || file.document.store.url.span.clone();
    match &settings.store.location {
        Location::Memory => {
            let hint = "keys are forgotten when the gate ends, and their retries run again; `file:PATH` is durable";
            reader.report(Severity::Warning, place(), "`memory:` is for tries and tests", Some(hint.to_owned()));
        }
        Location::File(_) if env("KUBERNETES_SERVICE_HOST").is_some() => {
            let hint = "on a volume that outlives the pod, with one replica and `strategy: Recreate`; else use Redis";
            let message = "an embedded store under Kubernetes";
            reader.report(Severity::Warning, place(), message, Some(hint.to_owned()));
        }
        Location::File(_) | Location::Redis(_) => {}
    }
}

fn advise_unreachable(file: &File, settings: &Settings, reader: &mut Reader<'_>) {
    for unreachable in settings.routes.unreachable() {
        // Every route of the file was resolved, or there would be no settings.
        let Some(route) = file.routes.get(unreachable.route) else { continue };
        let place = route.head.path.given().and_then(|path| path.span.clone());
        let names = unreachable.taken_by.iter().filter_map(|&index| settings.routes.routes.get(index));
        let names: Vec<_> = names.map(|route| format!("`{}`", route.name)).collect();
        let hint = if names.is_empty() {
            "it lists no method".to_owned()
        } else {
            format!("{} before it takes all its requests", names.join(" and "))
        };
        reader.report(Severity::Warning, place, "this route can never match", Some(hint));
    }
}

/// One note for the whole file: the default scope is right for most, and this is what to know about it.
fn note_opaque_credentials(file: &File, settings: &Settings, reader: &mut Reader<'_>) {
    let routes = settings.routes.routes.iter().chain([&settings.routes.defaults]);
    let by_token =
        |source: &ScopeSource| matches!(source, ScopeSource::Header(name) if name.0 == header::AUTHORIZATION);
    let concerned = routes
        .filter(|route| route.policy.mode == Mode::Enforce)
        .any(|route| route.policy.scope.sources.iter().any(by_token));
    if concerned {
        let scopes = [&file.document.defaults].into_iter().chain(file.routes.iter().map(|route| &route.rules));
        let sources = scopes.flat_map(|rules| &rules.scope.value);
        let place = sources.filter(|source| by_token(&source.value)).find_map(|source| source.span.clone());
        let hint = "keep the token for the retries of one operation, or name a source that stays the same";
        let message = "callers are told apart by `Authorization`: an opaque token that is refreshed between two tries \
                       is a new caller, and the retry runs again";
        reader.report(Severity::Note, place, message, Some(hint.to_owned()));
    }
}

#[cfg(test)]
mod tests;
