//! From a spanned TOML tree to typed values with their places, collecting every problem on the way.
//!
//! A table is declared once, with [`table!`]: name, type, default and documentation of each key. The reader, the
//! check for unknown keys, the hints and the JSON Schema all come from that declaration.

use std::{collections::HashMap, ops::Range, sync::Arc};

use toml::de::{DeTable, DeValue};

use super::{
    problem::{Problem, Severity},
    schema::{Field, Shape},
    source::Source,
};

/// A TOML value and its place.
pub(super) type Found<'v> = toml::Spanned<DeValue<'v>>;

/// A place in the text, in bytes.
pub(super) type Span = Range<usize>;

/// What is wrong with a text, without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Complaint {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A value and where it was given: `None` where it is the built-in default.
#[derive(Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Option<Span>,
}

impl<T: PartialEq> PartialEq for At<T> {
    /// By value: where it was given does not change what it means.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> At<T> {
    pub(super) fn given(value: T, span: Span) -> Self {
        Self { value, span: Some(span) }
    }

    /// Where it was given, unless `base` has it from there.
    pub(super) fn own_place(&self, base: &Self) -> Option<Span> {
        self.span.clone().filter(|_| self.span != base.span)
    }
}

/// A value that has a type of its own in the text.
pub(super) trait Value: Clone + PartialEq {
    /// What it looks like.
    fn shape() -> Shape;
    /// Reads it. `None`: it is wrong, and that was reported.
    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

/// A value that is written as a string.
pub(super) trait Text: Clone + PartialEq {
    /// With its article: `a duration like "250ms"`.
    const EXPECTED: &'static str;
    /// The strings there are, where they can be listed.
    const CHOICES: &'static [&'static str] = &[];
    /// A regular expression for editors, empty for none.
    const PATTERN: &'static str = "";
    /// Whether complaints never show the text.
    const DISCREET: bool = false;
    /// Parses it. Complaints that may show the text are withheld where it is not the file's own.
    fn parse(text: &str) -> Result<Self, Complaint>;
}

impl<T: Text> Value for T {
    fn shape() -> Shape {
        Shape::Text { expected: T::EXPECTED, choices: T::CHOICES, pattern: T::PATTERN }
    }

    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match found.get_ref().as_str() {
            Some(text) => reader.parse(text, found.span()),
            None => reader.wrong_type(T::EXPECTED, found.get_ref(), found.span()),
        }
    }
}

/// What stands under a key: a value, or a table.
pub(super) trait Node: Clone + PartialEq {
    /// Whether the key must be there.
    const REQUIRED: bool = false;
    /// What it looks like.
    fn shape() -> Shape;
    /// What it is where nothing is given. `default` is TOML.
    fn builtin(default: Option<&str>) -> Self;
    /// Reads it; what is not given, or wrong, is as in `base`.
    fn read(found: &Found<'_>, base: &Self, reader: &mut Reader<'_>) -> Self;
}

impl<T: Value> Node for At<T> {
    fn shape() -> Shape {
        T::shape()
    }

    fn builtin(default: Option<&str>) -> Self {
        let source = Arc::new(Source::new("defaults", ""));
        let mut reader = Reader { placeless: true, ..Reader::new(&source) };
        let value = default
            .and_then(|default| DeValue::parse(default).ok())
            .and_then(|found| T::read(&found, &mut reader))
            .expect("invariant: every declared default is valid, a test reads them all");
        Self { value, span: None }
    }

    fn read(found: &Found<'_>, base: &Self, reader: &mut Reader<'_>) -> Self {
        T::read(found, reader).map_or_else(|| base.clone(), |value| reader.at(value, found.span()))
    }
}

/// A value without a default.
#[derive(Clone, PartialEq)]
pub(super) enum Needed<T> {
    /// Its key is not there.
    Missing,
    /// Its key is there and its value is wrong; that was reported.
    Wrong,
    Given(At<T>),
}

impl<T> Needed<T> {
    pub(super) fn given(&self) -> Option<&At<T>> {
        match self {
            Self::Given(value) => Some(value),
            Self::Missing | Self::Wrong => None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

impl<T: Value> Node for Needed<T> {
    const REQUIRED: bool = true;

    fn shape() -> Shape {
        T::shape()
    }

    fn builtin(_: Option<&str>) -> Self {
        Self::Missing
    }

    fn read(found: &Found<'_>, _: &Self, reader: &mut Reader<'_>) -> Self {
        T::read(found, reader).map_or(Self::Wrong, |value| Self::Given(At::given(value, found.span())))
    }
}

/// A list; each element has its place.
impl<T: Value> Value for Vec<At<T>> {
    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn read(found: &Found<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Array(elements) = found.get_ref() else {
            return reader.wrong_type("a list in brackets", found.get_ref(), found.span());
        };
        let read = |element: &Found<'_>| T::read(element, reader).map(|value| reader.at(value, element.span()));
        let read: Vec<_> = elements.iter().map(read).collect();
        // A list without its wrong elements would be another list: the one below stays.
        read.into_iter().collect()
    }
}

/// A table whose keys are known.
pub(super) trait Table: Clone + PartialEq {
    /// Its keys.
    fn fields() -> Vec<Field>;
    /// As it is where nothing is given.
    fn initial() -> Self;
    /// Reads its keys from `found`, whatever else is there.
    fn read_fields(found: &DeTable<'_>, base: &Self, reader: &mut Reader<'_>) -> Self;
}

impl<T: Table> Node for T {
    fn shape() -> Shape {
        Shape::Table(T::fields())
    }

    fn builtin(_: Option<&str>) -> Self {
        <T as Table>::initial()
    }

    fn read(found: &Found<'_>, base: &Self, reader: &mut Reader<'_>) -> Self {
        let DeValue::Table(table) = found.get_ref() else {
            reader.wrong_type::<()>("a table", found.get_ref(), found.span());
            return base.clone();
        };
        reader.refuse_unknown(table, &T::fields());
        T::read_fields(table, base, reader)
    }
}

/// Declares a [`Table`]: `key: Type = "default as TOML";`, documented as a struct is.
macro_rules! table {
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    (
        $(#[doc = $about:literal])*
        $table:ident { $( $(#[doc = $doc:literal])+ $key:ident: $node:ty $(= $default:literal)?; )+ }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, PartialEq)]
        pub(super) struct $table { $( $(#[doc = $doc])+ pub(super) $key: $node, )+ }

        impl $crate::config::read::Table for $table {
            fn fields() -> Vec<$crate::config::schema::Field> {
                vec![$( $crate::config::schema::Field {
                    name: stringify!($key),
                    doc: concat!($($doc),+).trim_start(),
                    default: table!(@default $($default)?),
                    required: <$node as $crate::config::read::Node>::REQUIRED,
                    shape: <$node as $crate::config::read::Node>::shape(),
                }, )+]
            }

            fn initial() -> Self {
                Self { $( $key: <$node as $crate::config::read::Node>::builtin(table!(@default $($default)?)), )+ }
            }

            fn read_fields(
                found: &toml::de::DeTable<'_>,
                base: &Self,
                reader: &mut $crate::config::read::Reader<'_>,
            ) -> Self {
                Self { $( $key: reader.field(found, stringify!($key), &base.$key), )+ }
            }
        }
    };
}
pub(super) use table;

/// What became of a string that had `${…}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Filled in, first of all from this expression. Its value is not shown.
    From(String),
    /// Could not be; that was reported.
    Failed,
}

/// Reads one text.
pub(super) struct Reader<'a> {
    source: &'a Arc<Source>,
    /// Strings that had `${…}` in them, by where they begin.
    filled: HashMap<usize, Filled>,
    /// The keys on the way to what is being read.
    path: Vec<&'static str>,
    /// Whether what is read has no place: the built-in defaults.
    placeless: bool,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Arc<Source>) -> Self {
        Self { source, filled: HashMap::new(), path: Vec::new(), placeless: false, problems: Vec::new() }
    }

    pub(super) fn source(&self) -> &Source {
        self.source
    }

    fn at<T>(&self, value: T, span: Span) -> At<T> {
        At { value, span: (!self.placeless).then_some(span) }
    }

    /// Whether something wrong at this very place was reported already.
    pub(super) fn has_error_at(&self, span: &Option<Span>) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error && problem.span == *span)
    }

    pub(super) fn mark(&mut self, start: usize, filled: Filled) {
        self.filled.insert(start, filled);
    }

    pub(super) fn error(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>, hint: Option<String>) {
        self.report(Severity::Error, span, message, hint);
    }

    pub(super) fn report(
        &mut self,
        severity: Severity,
        span: impl Into<Option<Span>>,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.problems.push(Problem::new(self.source, severity, span.into(), message, hint));
    }

    /// Reports that something else was found than expected.
    pub(super) fn wrong_type<T>(&mut self, expected: &str, found: &DeValue<'_>, span: Span) -> Option<T> {
        self.error(span, format!("expected {expected}, found {}", found.type_str()), None);
        None
    }

    /// Parses the string at `span`.
    pub(super) fn parse<T: Text>(&mut self, text: &str, span: Span) -> Option<T> {
        let complaint = match (self.filled.get(&span.start), T::parse(text)) {
            (Some(Filled::Failed), _) => return None,
            (_, Ok(value)) => return Some(value),
            (None, Err(complaint)) => complaint,
            (Some(Filled::From(expression)), Err(complaint)) if T::DISCREET => {
                Complaint { message: format!("what `{expression}` gives here: {}", complaint.message), ..complaint }
            }
            (Some(Filled::From(expression)), Err(_)) => {
                Complaint::new(format!("what `{expression}` gives here is not {}", T::EXPECTED))
            }
        };
        self.error(span, complaint.message, complaint.hint);
        None
    }

    /// What a string came from, if not from the file itself: such a one may also stand where a number or a
    /// boolean is expected, since only strings are filled in.
    pub(super) fn filled(&self, span: &Span) -> Option<&Filled> {
        self.filled.get(&span.start)
    }

    /// Reads the value of `key`, if it is there.
    pub(super) fn field<N: Node>(&mut self, table: &DeTable<'_>, key: &'static str, base: &N) -> N {
        let Some(found) = table.get(key) else { return base.clone() };
        self.path.push(key);
        let read = N::read(found, base, self);
        self.path.pop();
        read
    }

    /// Reports the keys that are not among `fields`.
    pub(super) fn refuse_unknown(&mut self, table: &DeTable<'_>, fields: &[Field]) {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if fields.iter().any(|field| field.name == name) {
                continue;
            }
            let path = self.path.join(".");
            let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
            let hint = super::schema::hint_for(&path, name, fields);
            self.error(key.span(), format!("unknown key `{name}`{place}"), hint);
        }
    }

    /// Reads within the table `key`.
    pub(super) fn within<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key);
        let value = read(self);
        self.path.pop();
        value
    }
}
