//! `outcome`: what the status of an answer proves, as lists or as a preset.

use toml::de::DeValue;

use super::{
    raw::List,
    read::{Found, Node, Reader, Span, Table, table},
    schema::Shape,
    values::Preset,
};
use crate::config::read::{At, Value};
use crate::idempotency::policy::{StatusClass, StatusClasses, StatusPattern};

table! {
    /// `outcome` as lists
    Lists {
        /// Executed, and this is the answer: it is kept and replayed.
        store: List<StatusPattern> = "[]";
        /// By the upstream's word not executed: the answer is passed on, the key is free again.
        release: List<StatusPattern> = "[]";
        /// Nobody knows whether it was executed.
        unknown: List<StatusPattern> = "[]";
    }
}

/// `outcome`
#[derive(Clone, PartialEq)]
pub(super) enum Outcome {
    /// `outcome = "stripe"`
    Preset(At<Preset>),
    /// `outcome = { store = […], … }`
    Lists(Lists),
}

impl Node for Outcome {
    fn shape() -> Shape {
        Shape::Either(Box::new(<Preset as Value>::shape()), Box::new(Shape::Table(Lists::fields())))
    }

    fn builtin(_: Option<&str>) -> Self {
        Self::Lists(<Lists as Table>::initial())
    }

    fn read(found: &Found<'_>, base: &Self, reader: &mut Reader<'_>) -> Self {
        match (found.get_ref(), base) {
            (DeValue::String(_), _) => {
                let preset = Preset::read(found, reader);
                preset.map_or_else(|| base.clone(), |preset| Self::Preset(At::given(preset, found.span())))
            }
            (DeValue::Table(_), Self::Preset(_)) => {
                let hint = "a preset is complete: name presets in the routes that want them, not in `[defaults]`";
                reader.error(found.span(), "a table of statuses over a preset", Some(hint.to_owned()));
                base.clone()
            }
            (DeValue::Table(_), Self::Lists(lists)) => Self::Lists(Lists::read(found, lists, reader)),
            (other, _) => {
                let expected = "a table of statuses, or one of `stripe`, `success-only`";
                reader.wrong_type::<()>(expected, other, found.span());
                base.clone()
            }
        }
    }
}

impl Outcome {
    /// The classes; a status in two lists is reported, as often as there are such pairs.
    pub(super) fn classes(&self, reader: &mut Reader<'_>) -> StatusClasses {
        match self {
            Self::Preset(preset) => match preset.value {
                Preset::Stripe => StatusClasses::stripe(),
                Preset::SuccessOnly => StatusClasses::success_only(),
            },
            Self::Lists(lists) => lists.classes(reader),
        }
    }
}

impl Lists {
    fn classes(&self, reader: &mut Reader<'_>) -> StatusClasses {
        let lists = [
            (&self.store, StatusClass::Store),
            (&self.release, StatusClass::Release),
            (&self.unknown, StatusClass::Unknown),
        ];
        let mut given: Vec<(StatusPattern, StatusClass, Option<Span>)> = Vec::new();
        for (list, class) in lists {
            given.extend(list.value.iter().map(|at| (at.value, class, at.span.clone())));
        }
        // In the order of the text, so that the later one of two is the one that is too many.
        given.sort_by_key(|(_, _, span)| span.as_ref().map(|span| span.start));
        loop {
            let plain: Vec<_> = given.iter().map(|&(pattern, class, _)| (pattern, class)).collect();
            let conflict = match StatusClasses::new(&plain) {
                Ok(classes) => return classes,
                Err(conflict) => conflict,
            };
            let claims = |(pattern, class, _): &(StatusPattern, StatusClass, Option<Span>)| {
                let (first, last) = pattern.bounds();
                (*class == conflict.first || *class == conflict.second) && (first..=last).contains(&conflict.status)
            };
            let strongest = given.iter().filter(|entry| claims(entry)).map(|(pattern, ..)| pattern.rank()).max();
            let last = given.iter().rposition(|entry| claims(entry) && Some(entry.0.rank()) == strongest);
            // There is one, or there would be no conflict.
            let Some(last) = last else { return StatusClasses::default() };
            let (_, class, span) = given.remove(last);
            let other = if class == conflict.first { conflict.second } else { conflict.first };
            let message = format!("{} is in `{}` and in `{}`", conflict.status, name(other), name(class));
            // A list of `[defaults]` is looked at again with every route that takes it over.
            if !reader.has_error_at(&span) {
                let hint = "a status is in one list; lists of `[defaults]` count too";
                reader.error(span, message, Some(hint.to_owned()));
            }
        }
    }
}

fn name(class: StatusClass) -> &'static str {
    match class {
        StatusClass::Store => "store",
        StatusClass::Release => "release",
        StatusClass::Unknown => "unknown",
    }
}
