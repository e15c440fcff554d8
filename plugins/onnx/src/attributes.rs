//! Converts attributes of nodes to ABI values, and guesses the kind of attributes in old files.
use crate::proto::AttributeProto;
use crate::tensor::Source;
use ge_plugin_api::diagnostic::{Diagnostic, Result};
use ge_plugin_api::types::{AttrValue, Blob, ConstTensor};

/// The value of an attribute; `None` for kinds that mappings cannot take (graphs, types).
pub fn value(a: &AttributeProto, source: &Source<'_>) -> Result<Option<AttrValue>> {
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).ok();
    let kind = if a.type_() != 0 { a.type_() } else { guess(a) };
    Ok(match kind {
        1 => Some(AttrValue::Float(f64::from(a.f))),
        2 => Some(AttrValue::Int(a.i)),
        3 => Some(match text(&a.s) {
            Some(s) => AttrValue::Str(s.into()),
            None => AttrValue::Tensor(
                ConstTensor::new(ge_plugin_api::types::DType::U8, &[a.s.len() as u64], Blob::copy_of(&a.s))
                    .ok_or("bytes of an attribute do not fit")?,
            ),
        }),
        4 => match &a.t {
            Some(t) => Some(AttrValue::Tensor(source.tensor(t)?)),
            None => None,
        },
        6 => Some(AttrValue::Floats(a.floats.iter().map(|&f| f64::from(f)).collect())),
        7 => Some(AttrValue::Ints(a.ints.iter().copied().collect())),
        8 => {
            let v: Option<Vec<String>> = a.strings.iter().map(|s| text(s)).collect();
            let v = v.ok_or_else(|| {
                Diagnostic::error(format!("attribute `{}` has a string that is not UTF-8", a.name))
                    .raise(ge_plugin_api::diagnostic::BROKEN_MODEL)
            })?;
            Some(AttrValue::from(v))
        }
        9 => {
            let v = a.tensors.iter().map(|t| source.tensor(t).map(AttrValue::Tensor)).collect::<Result<Vec<_>>>()?;
            Some(AttrValue::List(v.into()))
        }
        11 => match &a.sparse_tensor {
            Some(s) => Some(AttrValue::Tensor(source.sparse(s)?)),
            None => None,
        },
        _ => None,
    })
}

/// Why the attributes of a node contradict themselves: one of them stands twice, or states a kind
/// and has a value of another. `None` if they do not.
pub fn fault(attrs: &[AttributeProto]) -> Option<Diagnostic> {
    let of = |a: &AttributeProto, what: &str| {
        Diagnostic::error(format!("attribute `{}` {what}", a.name)).subject(a.name.as_str())
    };
    attrs.iter().enumerate().find_map(|(k, a)| {
        if attrs[..k].iter().any(|b| b.name == a.name) {
            return Some(of(a, "stands twice").found("two values", "one"));
        }
        let stated = a.type_();
        let held = if stated == 0 || !a.ref_attr_name.is_empty() { stated } else { guess(a) };
        // What has only default values looks like an integer.
        let other = held != stated && (held != 2 || a.i != 0) && !has(a, stated);
        other.then(|| {
            of(a, "states another type than its value has")
                .found(format!("type {stated} and a value of type {held}"), "a value of the type that is stated")
                .help("`onnx.checker.check_model` finds such mistakes")
        })
    })
}

/// Whether an attribute has a value of a kind that is not the default one.
fn has(a: &AttributeProto, kind: i32) -> bool {
    match kind {
        1 => a.f != 0.0,
        2 => a.i != 0,
        3 => !a.s.is_empty(),
        4 => a.t.is_some(),
        5 => a.g.is_some(),
        6 => !a.floats.is_empty(),
        7 => !a.ints.is_empty(),
        8 => !a.strings.is_empty(),
        9 => !a.tensors.is_empty(),
        10 => !a.graphs.is_empty(),
        11 => a.sparse_tensor.is_some(),
        _ => true,
    }
}

/// The kind of an attribute in an old file that does not state it.
fn guess(a: &AttributeProto) -> i32 {
    if a.t.is_some() {
        4
    } else if a.g.is_some() {
        5
    } else if !a.floats.is_empty() {
        6
    } else if !a.ints.is_empty() {
        7
    } else if !a.strings.is_empty() {
        8
    } else if !a.s.is_empty() {
        3
    } else if a.f != 0.0 {
        1
    } else {
        2
    }
}

trait Kind {
    fn type_(&self) -> i32;
}
impl Kind for AttributeProto {
    fn type_(&self) -> i32 {
        self.r#type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_contradict_themselves_are_told() {
        let of =
            |kind: i32, f: f32, i: i64| AttributeProto { name: "a".into(), r#type: kind, f, i, ..Default::default() };
        let told = |a: &[AttributeProto]| fault(a).map(|d| d.message.to_string());
        assert_eq!(told(&[of(2, 0.5, 0)]).as_deref(), Some("attribute `a` states another type than its value has"));
        assert_eq!(told(&[of(1, 0.0, 3)]).as_deref(), Some("attribute `a` states another type than its value has"));
        assert_eq!(told(&[of(1, 0.5, 0), of(1, 0.1, 0)]).as_deref(), Some("attribute `a` stands twice"));
        let floats = AttributeProto { name: "b".into(), floats: vec![1.0], r#type: 7, ..Default::default() };
        assert!(told(&[floats]).is_some());
    }

    #[test]
    fn default_values_and_unstated_kinds_are_no_contradiction() {
        let of = |kind: i32| AttributeProto { name: "a".into(), r#type: kind, ..Default::default() };
        for kind in 0..=13 {
            assert_eq!(fault(&[of(kind)]).map(|d| d.message), None, "{kind}");
        }
        let unstated = AttributeProto { f: 0.5, ..of(0) };
        let both = AttributeProto { f: 0.5, i: 1, ..of(1) };
        let reference = AttributeProto { ref_attr_name: "alpha".into(), i: 1, ..of(1) };
        assert!([unstated, both, reference].into_iter().all(|a| fault(&[a]).is_none()));
    }
}
