//! Which route a request takes: method, host and canonical path → name and policy. Pure.

use std::sync::Arc;

use crate::idempotency::{Policy, RouteName};

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
#[derive(Clone, Debug)]
pub struct Matcher {
    /// `path`
    pub path: PathTemplate,
    /// `host`; `None` matches any.
    pub host: Option<HostPattern>,
    /// `ignore_case`
    pub ignore_case: bool,
}

/// A path template: `/accounts/{id}/transfers`, `/files/{*rest}`.
#[derive(Clone, Debug)]
pub struct PathTemplate(String);

/// `api.example.com` or `*.example.com`.
#[derive(Clone, Debug)]
pub struct HostPattern(String);

/// All routes of a configuration.
#[derive(Clone, Debug)]
pub struct RouteTable {
    /// In file order.
    pub routes: Vec<Arc<Route>>,
    /// What decides where no route matches.
    pub defaults: Arc<Route>,
}
