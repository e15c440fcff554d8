//! `ElementwiseAutoFusionPass`: element-wise operators whose inner values have no other readers
//! become one `FusedElementwise`: a single launch, without the values in between in memory. All
//! steps have the shape of the result, so nothing is computed twice.
use super::{number, open, put};
use crate::families::maps::{MapRow, pair_named};
use crate::families::quant::divides_in_f32;
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, CONSISTENT, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, DType, Key, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::sync::LazyLock;

/// Maximum number of steps of a chain, so that its blocks stay in the cache.
const MOST_STEPS: usize = 24;
/// Maximum number of inputs of a chain.
const MOST_INPUTS: usize = 8;
const NAME: &str = "ElementwiseAutoFusionPass";

/// The pass `ElementwiseAutoFusionPass`.
pub struct ElementwiseFusion;

/// The numbers that follow the operand of a map, as `MapRow::make` takes them; `None` if the node
/// is not a map.
fn numbers(n: &Node<'_>) -> Option<Vec<f64>> {
    let row = MapRow::of(n.op())?;
    let v = row.numbers(|key| n.float(key), |key| n.str(key));
    let single: Vec<f32> = v.iter().map(|v| *v as f32).collect();
    row.make(&single).ok().map(|_| v)
}

/// An operand or a number behind a step's name.
#[derive(Clone, Copy)]
enum Word {
    Value(ValueRef),
    Number(f64),
}

/// A node as a step: the name of what it computes, its operands and its numbers.
pub(super) struct Step {
    name: &'static str,
    words: Vec<Word>,
}

impl Step {
    /// The step of a node; `None` if it cannot be one.
    pub fn of(n: &Node<'_>) -> Option<Step> {
        let g = n.graph();
        if n.outputs().len() != 1 {
            return None;
        }
        match (n.op(), n.inputs()) {
            ("ClipByValue", [x, low, high]) => {
                let (low, high) = (number(&g, *low)?, number(&g, *high)?);
                let words = vec![Word::Value(*x), Word::Number(low), Word::Number(high)];
                Some(Step { name: "Clip", words })
            }
            (op @ ("QuantizeLinear" | "DequantizeLinear"), [x, scale, rest @ ..]) => {
                let zero = match rest.first() {
                    Some(z) if !z.is_absent() => number(&g, *z)?,
                    _ => 0.0,
                };
                let quantises = op == "QuantizeLinear";
                let bytes = if quantises { &n.outputs()[0] } else { g.desc(*x)? };
                let taken = matches!(bytes.dtype, DType::I8 | DType::U8) && n.int("block_size").unwrap_or(0) == 0;
                let single = !quantises || divides_in_f32(n.attr("precision"), g.desc(*scale)?.dtype);
                (taken && single).then_some(())?;
                let words = vec![Word::Value(*x), Word::Number(number(&g, *scale)?), Word::Number(zero)];
                Some(Step { name: &op[..op.len() - 6], words })
            }
            (name, [a, b]) if pair_named(name).is_some() => {
                let word = |v: ValueRef| number(&g, v).map_or(Word::Value(v), Word::Number);
                Some(Step { name, words: vec![word(*a), word(*b)] })
            }
            (name, [x]) => {
                let numbers = numbers(n)?.into_iter().map(Word::Number);
                Some(Step { name, words: std::iter::once(Word::Value(*x)).chain(numbers).collect() })
            }
            _ => None,
        }
    }
    /// Its operands, in order.
    pub fn operands(&self) -> impl Iterator<Item = ValueRef> + '_ {
        self.words.iter().filter_map(|w| match w {
            Word::Value(v) => Some(*v),
            Word::Number(_) => None,
        })
    }
    /// Its text, with operands by name.
    pub fn text(&self, name: &mut dyn FnMut(ValueRef) -> String) -> String {
        let mut out = String::from(self.name);
        for w in &self.words {
            out.push(' ');
            match w {
                Word::Value(v) => out.push_str(&name(*v)),
                Word::Number(c) => out.push_str(&c.to_string()),
            }
        }
        out
    }
}

/// The step of a node whose operator and types (f32, f16, bf16) chains support.
pub(super) fn step(n: &Node<'_>) -> Option<Step> {
    let taken = |d: DType| matches!(d, DType::F32 | DType::F16 | DType::BF16);
    let of_bytes = matches!(n.op(), "QuantizeLinear" | "DequantizeLinear");
    let types = n.outputs().iter().all(|d| taken(d.dtype) || of_bytes)
        && (of_bytes || (0..n.inputs().len()).all(|i| n.input_desc(i).is_some_and(|d| taken(d.dtype))));
    let fits = types && n.outputs().iter().all(|d| open::is_named(&d.shape));
    fits.then(|| Step::of(n)).flatten()
}

/// Whether a node can be a step.
pub(super) fn is_step(n: &Node<'_>) -> bool {
    step(n).is_some()
}

/// Whether two nodes agree in the attributes that bind them to an engine.
pub(super) fn agree(a: &Node<'_>, b: &Node<'_>) -> bool {
    static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| CONSISTENT.iter().map(|key| Key::new(key)).collect());
    let one = |a: &Node<'_>, b: &Node<'_>| {
        let mut bound = a.attrs().iter().filter(|x| KEYS.contains(&x.key));
        bound.all(|x| b.attr(x.key) == Some(&x.value))
    };
    one(a, b) && one(b, a)
}

/// Marks the nodes that can be steps and are not yet in a chain.
struct Free(Vec<bool>);

impl Free {
    fn of(g: &Graph<'_>) -> Free {
        let mut free = vec![false; g.next_id().index()];
        for n in g.nodes().filter(is_step) {
            if let Some(f) = free.get_mut(n.id().index()) {
                *f = true;
            }
        }
        Free(free)
    }
    fn has(&self, id: NodeId) -> bool {
        self.0.get(id.index()).is_some_and(|f| *f)
    }
    fn take(&mut self, ids: &[NodeId]) {
        for id in ids {
            self.0[id.index()] = false;
        }
    }
}

impl ElementwiseFusion {
    /// The steps of the chain that ends in `root`, in order; each is read only by other steps of
    /// the set.
    fn set(g: &Graph<'_>, root: &Node<'_>, free: &Free) -> Vec<NodeId> {
        let mut set = vec![root.id()];
        let shape = &root.outputs()[0].shape;
        let mut at = 0;
        while at < set.len() && set.len() < MOST_STEPS {
            for v in g.node(set[at]).inputs() {
                if v.is_absent() || !free.has(v.node) || set.contains(&v.node) {
                    continue;
                }
                let Some(n) = g.find(v.node) else { continue };
                let fits = n.outputs().len() == 1
                    && open::same(&n.outputs()[0].shape, shape)
                    && n.op() != "QuantizeLinear"
                    && g.users(n.value(0)).iter().all(|u| set.contains(&u.node))
                    && n.controls().is_empty()
                    && g.control_users(n.id()).is_empty()
                    && agree(root, &n);
                if fits && set.len() < MOST_STEPS {
                    set.push(n.id());
                    // Start again: all readers of an earlier operand may be in the set only now.
                    at = 0;
                }
            }
            at += 1;
        }
        set
    }

    fn replacement(g: &Graph<'_>, nodes: &[NodeId], r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let mut inputs: Vec<ValueRef> = Vec::new();
        let made = |v: ValueRef| nodes.iter().position(|n| *n == v.node);
        let forms = nodes.iter().map(|n| Step::of(&g.node(*n))).collect::<Option<Vec<_>>>();
        let forms = forms.ok_or("a node is no step")?;
        for v in forms.iter().flat_map(Step::operands) {
            if made(v).is_none() && !inputs.contains(&v) {
                inputs.push(v);
            }
        }
        if inputs.is_empty() || inputs.len() > MOST_INPUTS {
            return Err(format!("the chain has {} inputs, it takes up to {MOST_INPUTS}", inputs.len()));
        }
        let mut named = |v: ValueRef| match made(v) {
            Some(k) => format!("%{}", inputs.len() + k),
            None => format!("%{}", inputs.iter().position(|i| *i == v).unwrap_or(0)),
        };
        let steps: Vec<String> = forms.iter().map(|f| f.text(&mut named)).collect();
        let last = g.node(nodes[nodes.len() - 1]);
        let out = super::out_desc(&last)?;
        // A number written into a step has no axes, although its constant may have some with one
        // element.
        let widest = inputs.iter().filter_map(|v| g.desc(*v)?.shape.rank()).max();
        if widest != out.shape.rank() {
            return Err(format!("a constant gives the result its {} axes", out.shape.dims().len()));
        }
        let mut attrs = AttrMap::default();
        attrs.set("steps", steps);
        if g.desc(inputs[0]).is_some_and(|d| d.dtype != out.dtype) {
            attrs.set("dtype", out.dtype);
        }
        Ok(vec![put(r, "FusedElementwise", &inputs, &attrs, out)?.into()])
    }
}

impl Pass for ElementwiseFusion {
    fn info(&self) -> PassInfo {
        let help = "makes one kernel of element-wise operators that follow each other";
        PassInfo::new(NAME, PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        let mut free = Free::of(graph);
        let mut sets = Vec::new();
        for &id in graph.order().iter().rev() {
            if !free.has(id) {
                continue;
            }
            let set = Self::set(graph, &graph.node(id), &free);
            if set.len() > 1 {
                free.take(&set);
                sets.push(set);
            }
        }
        for set in sets.into_iter().rev() {
            // Producers first: a node comes after all nodes of the set that it reads.
            let mut nodes: Vec<NodeId> = Vec::with_capacity(set.len());
            while nodes.len() < set.len() {
                let before = nodes.len();
                for n in set.iter().rev().filter(|n| !nodes.contains(n)).copied().collect::<Vec<_>>() {
                    let reads =
                        graph.node(n).inputs().iter().any(|v| set.contains(&v.node) && !nodes.contains(&v.node));
                    if !reads {
                        nodes.push(n);
                    }
                }
                if nodes.len() == before {
                    break;
                }
            }
            let Some(last) = nodes.last().copied() else { continue };
            let b = Boundary { nodes: nodes.clone(), outputs: vec![ValueRef::new(last, 0)] };
            rewriter.replace(&b, |r| Self::replacement(graph, &nodes, r));
        }
        Ok(())
    }
}
