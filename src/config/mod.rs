//! From TOML to the `Settings` of every room.

use crate::{admin, proxy, routes::RouteTable, store, telemetry::log, upstream};

/// Everything a gate is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[server]`, `[limits]`
    pub proxy: proxy::Settings,
    /// `[upstream]`
    pub upstream: upstream::Settings,
    /// `[store]`
    pub store: store::Settings,
    /// `[[route]]`, `[defaults]`
    pub routes: RouteTable,
    /// `[admin]`
    pub admin: admin::Settings,
    /// `[log]`
    pub log: log::Settings,
}
