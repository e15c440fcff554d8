//! Equality of models. Graphs, nodes and edges are compared by order, whatever their ids; constants
//! by their bytes, wherever those are stored; dictionaries and attributes as sets; floats bit by
//! bit.
use super::{Graph, Model};
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, NodeId, TensorDesc};

impl PartialEq for Model {
    fn eq(&self, other: &Model) -> bool {
        self.difference(other).is_none()
    }
}
impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        graphs(self, other).is_none()
    }
}

impl Model {
    /// Describes the first difference in words; `None` if the models are equal.
    pub fn difference(&self, other: &Model) -> Option<String> {
        if self.graphs.len() != other.graphs.len() {
            return Some(format!("{} graphs against {}", self.graphs.len(), other.graphs.len()));
        }
        self.graphs.iter().zip(&other.graphs).find_map(|(a, b)| graphs(a, b))
    }
}

fn graphs(a: &Graph, b: &Graph) -> Option<String> {
    if a.name != b.name {
        return Some(format!("graph `{}` against `{}`", a.name, b.name));
    }
    if !same_attrs(&a.attrs, &b.attrs) {
        return Some(format!("graph `{}`: attributes differ", a.name));
    }
    if a.len() != b.len() {
        return Some(format!("graph `{}`: {} nodes against {}", a.name, a.len(), b.len()));
    }
    let places = |g: &Graph| {
        let mut at = vec![u32::MAX; g.id_bound()];
        for (i, id) in (0u32..).zip(g.order()) {
            at[id.index()] = i;
        }
        at
    };
    let (pa, pb) = (places(a), places(b));
    let at = |p: &[u32], id: NodeId| p.get(id.index()).copied();
    for (x, y) in a.nodes().zip(b.nodes()) {
        let what = if x.name != y.name {
            "name"
        } else if x.op != y.op {
            "operator type"
        } else if x.inputs.len() != y.inputs.len()
            || x.inputs.iter().zip(&y.inputs).any(|(v, w)| at(&pa, v.node) != at(&pb, w.node) || v.output != w.output)
        {
            "inputs"
        } else if x.controls().len() != y.controls().len()
            || x.controls().iter().zip(y.controls()).any(|(v, w)| at(&pa, *v) != at(&pb, *w))
        {
            "control inputs"
        } else if !same_attrs(&x.attrs, &y.attrs) {
            "attributes"
        } else if x.outputs.len() != y.outputs.len() || !x.outputs.iter().zip(&y.outputs).all(|(d, e)| same_desc(d, e))
        {
            "outputs"
        } else {
            continue;
        };
        return Some(format!("graph `{}`: node `{}` against `{}`: {what} differ", a.name, x.name, y.name));
    }
    None
}

fn same_desc(a: &TensorDesc, b: &TensorDesc) -> bool {
    a.dtype == b.dtype
        && a.format == b.format
        && a.container == b.container
        && a.shape == b.shape
        && a.origin == b.origin
        && same_attrs(&a.attrs, &b.attrs)
}

/// Whether two sets of attributes are equal.
pub fn same_attrs(a: &AttrMap, b: &AttrMap) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // Small maps are searched and large ones sorted, which avoids quadratic time for wide maps.
    if a.len() <= 32 {
        return a.iter().all(|x| b.get(x.key).is_some_and(|y| same_value(&x.value, y)));
    }
    a.sorted().iter().zip(b.sorted()).all(|(x, y)| x.key == y.key && same_value(&x.value, &y.value))
}

/// Whether two attribute values are equal. A homogeneous list is equal in either variant, and
/// dictionaries are compared as sets. The recursion is as deep as the values are nested.
pub fn same_value(a: &AttrValue, b: &AttrValue) -> bool {
    match (a, b) {
        (AttrValue::Float(x), AttrValue::Float(y)) => same_float(*x, *y),
        (AttrValue::Floats(x), AttrValue::Floats(y)) => {
            x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| same_float(*x, *y))
        }
        (AttrValue::Tensor(x), AttrValue::Tensor(y)) => same_tensor(x, y),
        (AttrValue::Dict(x), AttrValue::Dict(y)) => {
            x.len() == y.len() && x.iter().all(|e| y.iter().any(|f| e.key == f.key && same_value(&e.value, &f.value)))
        }
        (AttrValue::List(x), AttrValue::List(y)) => {
            x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| same_value(x, y))
        }
        (a, b) if a == b => true,
        (a, b) => match (members(a), members(b)) {
            (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| same_value(x, y)),
            _ => false,
        },
    }
}

/// Compares bit by bit: a NaN equals itself, and the two zeros differ.
fn same_float(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

fn same_tensor(a: &ConstTensor, b: &ConstTensor) -> bool {
    a.dtype == b.dtype && a.dims == b.dims && a.data == b.data
}

fn members(v: &AttrValue) -> Option<Vec<AttrValue>> {
    Some(match v {
        AttrValue::Ints(l) => l.iter().map(|v| AttrValue::Int(*v)).collect(),
        AttrValue::Floats(l) => l.iter().map(|v| AttrValue::Float(*v)).collect(),
        AttrValue::Strs(l) => l.iter().map(|v| AttrValue::Str(v.clone())).collect(),
        AttrValue::List(l) => l.to_vec(),
        _ => return None,
    })
}
