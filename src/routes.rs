//! Which route a request takes: method, host and canonical path → name and policy. Pure.
//!
//! The most specific path template that lists the method wins, then the order of the file (CONTRACT §3.1). A
//! route whose `methods` do not list the request's method is no match: the next one or the `[defaults]` decide.
//! `host` decides whether a route matches at all, never which of two matching routes is better. Where an encoded slash
//! makes two paths of one, a key that either of them requires is required.
//!
//! Not here: what is forwarded. The upstream gets the bytes that were sent; the canonical path is only looked at.

mod host;
mod path;

use std::{cell::OnceCell, sync::Arc};

use http::Method;

use crate::idempotency::{Policy, RouteName, policy::Mode};

pub use host::{HostError, HostPattern};
pub use path::{PathTemplate, TemplateError, canonical};

/// One `[[route]]`, or the `[defaults]`.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name.
    pub name: RouteName,
    /// What it matches.
    pub matcher: Matcher,
    /// Its rules.
    pub policy: Policy,
}

/// What a route matches, besides the methods of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    /// `path`
    pub path: PathTemplate,
    /// `host`; `None` matches any.
    pub host: Option<HostPattern>,
    /// `ignore_case`
    pub ignore_case: bool,
}

impl Matcher {
    /// Matches every path of every host.
    #[must_use]
    pub fn any() -> Self {
        Self { path: PathTemplate::any(), host: None, ignore_case: false }
    }

    /// Whether everything that `other` matches is matched by `self`, with a path template just as specific.
    fn covers(&self, other: &Self) -> bool {
        let host = match (&self.host, &other.host) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => ours.covers(theirs),
        };
        // A template that minds the case covers no template that does not.
        host && (self.ignore_case || !other.ignore_case) && self.path.is_twin(&other.path, self.ignore_case)
    }
}

/// All routes of a configuration.
#[derive(Clone, Debug)]
pub struct RouteTable {
    /// In file order.
    pub routes: Vec<Arc<Route>>,
    /// What decides where no route matches.
    pub defaults: Arc<Route>,
}

/// A route that no request can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Its place in [`RouteTable::routes`].
    pub route: usize,
    /// The earlier routes that take its requests, by their places; none where the route lists no method.
    pub taken_by: Vec<usize>,
}

impl RouteTable {
    /// The route of a request, the `[defaults]` where none matches.
    ///
    /// `authority` is the effective one, with or without a port; `path` is the path as sent (a query is ignored).
    /// The defaults are returned whatever the method: whether they protect it is theirs to say.
    ///
    /// An encoded slash is a slash to some upstreams and a character of its segment to others. The route is found by the
    /// first reading, unless only what the second one leads to requires a key: that cannot be walked around by `%2F`.
    #[must_use]
    pub fn find(&self, method: &Method, authority: &str, path: &str) -> &Arc<Route> {
        let route = self.find_canonical(method, authority, &canonical(path));
        if demands_key(route, method) {
            return route;
        }
        let Some(path) = path::canonical_of_pieces(path) else { return route };
        let other = self.find_canonical(method, authority, &path);
        if demands_key(other, method) { other } else { route }
    }

    fn find_canonical(&self, method: &Method, authority: &str, path: &str) -> &Arc<Route> {
        let request = Request { host: host::of_authority(authority), path, folded: OnceCell::new() };
        let mut best: Option<&Arc<Route>> = None;
        for route in &self.routes {
            let better = || best.is_none_or(|best| route.matcher.path.is_more_specific_than(&best.matcher.path));
            if route.policy.methods.contains(method) && better() && request.is_for(&route.matcher) {
                best = Some(route);
            }
        }
        best.unwrap_or(&self.defaults)
    }

    /// Whether a request with a method override would, sent with the method `overridden` itself, take an
    /// enforcing route that lists that method and requires a key (CONTRACT §8).
    ///
    /// Such a request walks around the requirement: the upstream may act on the override, the gate on the method.
    #[must_use]
    pub fn override_hits_required(&self, authority: &str, path: &str, overridden: &Method) -> bool {
        demands_key(self.find(overridden, authority, path), overridden)
    }

    /// The routes that can never match, because earlier ones take all their requests.
    #[must_use]
    pub fn unreachable(&self) -> Vec<Unreachable> {
        let dead = |(index, route): (usize, &Arc<Route>)| {
            let methods = &route.policy.methods;
            let takes = |other: &Route| {
                other.matcher.covers(&route.matcher) && other.policy.methods.iter().any(|one| methods.contains(one))
            };
            let earlier = self.routes.iter().take(index).enumerate();
            let taken_by: Vec<usize> = earlier.filter(|(_, other)| takes(other)).map(|(index, _)| index).collect();
            let taken = |method| taken_by.iter().any(|&other| self.routes[other].policy.methods.contains(method));
            methods.iter().all(taken).then_some(Unreachable { route: index, taken_by })
        };
        self.routes.iter().enumerate().filter_map(dead).collect()
    }
}

/// Whether a request with this method that takes this route is refused without a key.
fn demands_key(route: &Route, method: &Method) -> bool {
    let policy = &route.policy;
    policy.mode == Mode::Enforce && policy.key.required && policy.methods.contains(method)
}

/// What of a request is looked at.
struct Request<'a> {
    host: &'a str,
    path: &'a str,
    /// `path` without its letter case, made when the first route asks for it.
    folded: OnceCell<String>,
}

impl Request<'_> {
    fn is_for(&self, matcher: &Matcher) -> bool {
        let path = if matcher.ignore_case {
            matcher.path.matches_folded(self.folded.get_or_init(|| path::fold(self.path)))
        } else {
            matcher.path.matches(self.path)
        };
        path && matcher.host.as_ref().is_none_or(|host| host.matches(self.host))
    }
}

#[cfg(test)]
mod tests;
