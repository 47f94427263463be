//! The control plane, on its own listener: health and drain.

/// The admin listener (`[admin]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it is; `None` is `"off"`.
    pub listen: Option<String>,
    /// The bearer token; `None` where it is empty.
    pub token: Option<String>,
}
