//! The request that is asked about, as the command line describes it.

use std::io::Read;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

/// A request, complete and never sent.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// The method.
    pub(super) method: Method,
    /// The effective authority; empty where neither URL nor Host names one.
    pub(super) authority: String,
    /// Path and query.
    pub(super) target: String,
    /// The header fields.
    pub(super) headers: HeaderMap,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum DescribeError {
    #[error("`{0}` is not a method")]
    Method(String),
    #[error("`{0}` is not a path like /payments?x=1, nor a URL")]
    Target(String),
    // The line is not repeated: it may hold a credential.
    #[error("header {0} is not of the form 'Name: value'")]
    Header(usize),
    #[error("cannot read the body: {0}")]
    Body(#[from] std::io::Error),
}

impl DescribeError {
    /// Whether the command line is at fault.
    pub(super) fn is_usage(&self) -> bool {
        match self {
            Self::Method(_) | Self::Target(_) | Self::Header(_) => true,
            Self::Body(_) => false,
        }
    }
}

impl Described {
    /// Reads the arguments of `explain`.
    pub(super) fn parse(
        method: &str,
        target: &str,
        lines: &[String],
        data: Option<&str>,
    ) -> Result<Self, DescribeError> {
        let wrong_target = || DescribeError::Target(target.to_owned());
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| DescribeError::Method(method.to_owned()))?;
        let uri: Uri = target.parse().map_err(|_| wrong_target())?;
        let path = uri.path_and_query().filter(|path| path.as_str().starts_with('/')).ok_or_else(wrong_target)?;
        if uri.authority().is_some() != uri.scheme().is_some() {
            return Err(wrong_target());
        }
        let mut headers = HeaderMap::new();
        for (index, line) in lines.iter().enumerate() {
            let (name, value) = header_line(line).ok_or(DescribeError::Header(index + 1))?;
            headers.append(name, value);
        }
        let authority = match (uri.authority(), headers.get(header::HOST)) {
            (Some(authority), _) => authority.as_str().to_owned(),
            (None, Some(host)) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
            (None, None) => String::new(),
        };
        Ok(Self { method, authority, target: path.as_str().to_owned(), headers, body: body(data)? })
    }

    /// The path alone.
    pub(super) fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }
}

fn header_line(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    Some((name.parse().ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
}

fn body(data: Option<&str>) -> std::io::Result<Vec<u8>> {
    match data.map(|data| (data, data.strip_prefix('@'))) {
        None => Ok(Vec::new()),
        Some((_, Some("-"))) => {
            let mut body = Vec::new();
            std::io::stdin().lock().read_to_end(&mut body)?;
            Ok(body)
        }
        Some((_, Some(file))) => std::fs::read(file),
        Some((data, None)) => Ok(data.as_bytes().to_vec()),
    }
}
