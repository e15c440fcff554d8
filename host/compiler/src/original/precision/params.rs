//! Finds the prototype parameter of an input or output.
use ge_plugin_api::ops::{ParamKind, ParamSpec};

fn param<T>(specs: &[T], i: usize, kind: impl Fn(&T) -> ParamKind) -> Option<&T> {
    let mut dynamic = specs.iter().enumerate().filter(|(_, s)| kind(s) == ParamKind::DYNAMIC);
    match (dynamic.next(), dynamic.next()) {
        (None, _) => specs.get(i),
        (Some((d, s)), None) if i >= d => Some(s),
        (Some(_), None) => specs.get(i),
        _ => None,
    }
}

/// The parameter to which input or output `i` belongs; `None` if that is not clear.
pub(super) fn spec(specs: &[ParamSpec], i: usize) -> Option<&ParamSpec> {
    param(specs, i, |s| s.kind)
}
