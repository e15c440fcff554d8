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
