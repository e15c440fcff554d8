//! Outputs that are not tensors: a sequence is compared by its length and element by element, named
//! `out[3]`; an optional is compared by its content.
use super::OUTPUT;
use super::keys::element;
use crate::Result;
use crate::commands::tensors::Computed;
use crate::session::model::Item;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::fmt;

/// Kind of value that an output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A tensor.
    Tensor,
    /// A sequence of this many tensors.
    Sequence(usize),
    /// Nothing: the optional is empty.
    Nothing,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Tensor => write!(f, "a tensor"),
            Held::Sequence(n) => write!(f, "a sequence of {n}"),
            Held::Nothing => write!(f, "nothing"),
        }
    }
}

/// One output as a whole.
pub struct Form {
    /// The kind of value that it holds.
    pub held: Held,
    /// The entry that stands for it in the report if it is not a tensor.
    pub whole: Computed,
}

impl Form {
    /// Number of elements of this output among the names of a file.
    pub fn elements_in(&self, names: &[String]) -> usize {
        let own = [self.whole.node.clone(), format!("output_{}", self.whole.output)];
        let of = |n: &str| {
            own.iter().any(|o| {
                let at = n.strip_prefix(o.as_str()).and_then(|n| n.strip_prefix('[')?.strip_suffix(']'));
                at.is_some_and(|k| k.parse::<usize>().is_ok())
            })
        };
        names.iter().filter(|n| of(n)).count()
    }
}

/// The tensors of a model's outputs, and the form of each output.
///
/// # Errors
/// Fails if memory cannot be allocated.
pub fn outputs(names: &[&str], made: Vec<Item>) -> Result<(Vec<Computed>, Vec<Form>)> {
    let one = |k: usize, at: Option<usize>, tensor: HostTensor| {
        let name = element(names.get(k).copied().unwrap_or(""), at);
        Computed {
            names: vec![name.clone()],
            node: name,
            output: u32::try_from(k).unwrap_or(u32::MAX),
            element: at,
            op: OUTPUT.into(),
            engine: String::new(),
            no_task: true,
            turn: 1,
            tensor,
        }
    };
    let (mut tensors, mut forms) = (Vec::new(), Vec::new());
    for (k, item) in made.into_iter().enumerate() {
        let held = match item {
            Item::Tensor(t) => {
                tensors.push(one(k, None, t));
                Held::Tensor
            }
            Item::Sequence(l) => {
                let length = l.len();
                tensors.extend(l.into_iter().enumerate().map(|(n, t)| one(k, Some(n), t)));
                Held::Sequence(length)
            }
            Item::Nothing => Held::Nothing,
        };
        forms.push(Form { held, whole: one(k, None, HostTensor::zeroed(DType::I64, &[0])?) });
    }
    Ok((tensors, forms))
}
