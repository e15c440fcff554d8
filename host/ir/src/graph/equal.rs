//! When two models are the same: graphs, nodes and edges by order, whatever the ids; constants by
//! their bytes, wherever those lie; dictionaries and attributes as sets; real numbers bit by bit.
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
    /// The first difference in words; None if they are the same.
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

/// Whether two sets of attributes are the same.
pub fn same_attrs(a: &AttrMap, b: &AttrMap) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // Few are searched, many are sorted: linear but for the sorting, however wide the map.
    if a.len() <= 32 {
        return a.iter().all(|x| b.get(x.key).is_some_and(|y| same_value(&x.value, y)));
    }
    a.sorted().iter().zip(b.sorted()).all(|(x, y)| x.key == y.key && same_value(&x.value, &y.value))
}

/// Whether two attribute values are the same: a list of one kind is the same in either variant, a
/// dictionary is a set. Recursion goes as deep as the values are nested.
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

/// Bit by bit: a NaN is the same as itself, the zeros differ.
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
