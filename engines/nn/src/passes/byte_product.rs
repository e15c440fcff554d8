//! `ByteProductFusionPass`: a product by constant integers that become real numbers at run time reads
//! the integers directly.
//!
//! Before: `%w = Mul(Cast(%q), %scale)` or `%w = DequantizeLinear(%q, %scale, %zero?)`, and `%y =
//! MatMulV2(%x, %w)` or `FusedMatMul`, with constants `%q`, `%scale`, `%zero`
//! After: `%y = FusedWeightMatMul(%x, %panels, %scale, bias?, x3?, %offset?)`
//! When: integers have at most eight bits, and only the product reads what they become; they were too
//! many to be folded. They have one scale, one for each column, or one for each column and some
//! rows (`block_size`). Sizes of the product are known or have names.
//! Refuses: a transposed `x1`, a factor `alpha`, steps behind the product, scales of other axes.
use super::matmul::{PRODUCTS, swaps_last, turned};
use super::weights::{self, Weights};
use super::{only_reader, open, other_operand, out_desc};
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, ConstTensor, DType, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};

const NAME: &str = "ByteProductFusionPass";
/// Types in which the kernel reads and gives numbers.
const REAL: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The pass `ByteProductFusionPass`.
pub struct ByteProduct;

impl Pass for ByteProduct {
    fn info(&self) -> PassInfo {
        let help = "multiplies by constant integers where they are cast and scaled before a product";
        PassInfo::new(NAME, PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        for n in graph.nodes_of(&PRODUCTS) {
            let Some(found) = Found::before(graph, &n) else { continue };
            if let Err(why) = plain(&n) {
                rewriter.refuse(n.id(), &why);
                continue;
            }
            let nodes = found.nodes.iter().copied().chain([n.id()]).collect();
            rewriter.replace(&Boundary { nodes, outputs: vec![n.value(0)] }, |r| found.make(&n, r));
        }
        Ok(())
    }
}

/// Constant integers with the nodes that make real numbers of them.
struct Found<'g> {
    nodes: Vec<NodeId>,
    integers: &'g ConstTensor,
    scale: &'g ConstTensor,
    zero: Option<&'g ConstTensor>,
    /// Axis and block size of the scales of `DequantizeLinear`.
    blocks: Option<(i64, i64)>,
    /// Whether a transpose follows.
    swapped: bool,
}

impl<'g> Found<'g> {
    /// The second factor of a product, if it is made for this product only.
    fn before(g: &Graph<'g>, n: &Node<'g>) -> Option<Found<'g>> {
        let maker = |v: ValueRef| only_reader(g, v).and_then(|_| g.find(v.node));
        let (mut nodes, mut swapped) = (vec![], false);
        let mut m = n.input(1).filter(|v| Some(*v) != n.input(0)).and_then(maker)?;
        while matches!(m.op(), "Cast" | "TransposeD") {
            let turns = swaps_last(&m);
            let narrows = m.input_desc(0)?.dtype == DType::F32 && REAL.contains(&m.outputs().first()?.dtype);
            if !(turns || m.op() == "Cast" && narrows) {
                return None;
            }
            swapped ^= turns;
            nodes.push(m.id());
            m = m.input(0).and_then(maker)?;
        }
        nodes.push(m.id());
        if !m.outputs().first().is_some_and(|d| REAL.contains(&d.dtype)) {
            return None;
        }
        let (q, scale, zero, blocks) = match m.op() {
            "DequantizeLinear" => {
                let zero = m.input(2).filter(|v| !v.is_absent());
                let blocks = (m.int("axis").unwrap_or(1), m.int("block_size").unwrap_or(0));
                (m.input(0)?, m.input(1)?, zero, Some(blocks))
            }
            "Mul" => {
                let cast = m.inputs().iter().find_map(|v| g.find(v.node).filter(|c| c.op() == "Cast"))?;
                only_reader(g, cast.value(0))?;
                nodes.push(cast.id());
                (cast.input(0)?, other_operand(&m, cast.value(0))?, None, None)
            }
            _ => return None,
        };
        let zero = match zero {
            Some(z) => Some(g.constant(z)?),
            None => None,
        };
        nodes.reverse();
        Some(Found { nodes, integers: g.constant(q)?, scale: g.constant(scale)?, zero, blocks, swapped })
    }

    fn make(&self, n: &Node<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let turned = turned(n).1 != self.swapped;
        let w = Weights::of(self.integers, self.scale, self.zero, self.blocks, turned)?;
        let constant = |c: Option<ConstTensor>| c.ok_or("no constant can be made").map(|c| r.constant(c));
        let offset = w.offset().map(|c| r.constant(c));
        let mut attrs = AttrMap::default();
        for key in ["activation", "activation_params"] {
            if let Some(v) = n.attr(key) {
                attrs.set(key, v.clone());
            }
        }
        if w.group > 0 {
            attrs.set(weights::GROUP, w.group as i64);
        }
        let other = |i: usize| n.input(i).unwrap_or(ValueRef::ABSENT);
        let x1 = n.input(0).ok_or("x1 is missing")?;
        let mut inputs = vec![x1, constant(w.panels())?, constant(w.scale())?, other(2), other(3)];
        inputs.extend(offset);
        let mut made = r.op("FusedWeightMatMul", inputs);
        for a in &attrs {
            made = made.attr(a.key.as_str(), a.value.clone());
        }
        Ok(vec![made.desc(0, out_desc(n)?.clone()).into()])
    }
}

/// Refuses what the kernel does not support.
fn plain(n: &Node<'_>) -> Verdict {
    let real = n.input_desc(0).filter(|d| REAL.contains(&d.dtype) && open::is_named(&d.shape));
    let Some(x1) = real.filter(|_| !turned(n).0) else {
        return Err("x1 is no f32, f16 or bf16 of sizes that are known or have names, or it is turned".into());
    };
    if out_desc(n)?.dtype != x1.dtype {
        return Err("the product has a type of its own".into());
    }
    if n.float("alpha").is_some_and(|a| a != 1.0) || n.attr("steps").is_some() || n.attr("y_dtype").is_some() {
        return Err("the product has a factor, steps or a type of its own".into());
    }
    if n.op() != "FusedMatMul" && n.input(3).is_some_and(|v| !v.is_absent()) {
        return Err("input 3 is given".into());
    }
    Ok(())
}
