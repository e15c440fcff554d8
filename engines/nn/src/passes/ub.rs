//! `ChainEpilogueUbFusionPass`: element-wise steps that read only the output of a convolution or a
//! product, and numbers, become part of its kernel, which applies them to each part of the output
//! that it has just written. The pass runs on the engine's own subgraph, after formats and
//! precision have inserted or removed nodes between the two.
use super::cluster_steps::op_named;
use super::elementwise::{agree, is_step};
use super::{attrs_of, conv, matmul, no_growing_state, only_reader, open, out_desc, put};
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, DType, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// Minimum number of steps behind a kernel: a launch of its own is at least as fast for a single
/// step.
const FEWEST_STEPS: usize = 2;
/// Maximum number of steps behind a kernel.
const MOST_STEPS: usize = 24;
const NAME: &str = "ChainEpilogueUbFusionPass";

/// The pass `ChainEpilogueUbFusionPass`.
pub struct ChainEpilogue;

/// The steps of a node that reads only the value `of`, which steps call `%base`. The numbers of the
/// other operands follow it.
fn steps(n: &Node<'_>, of: ValueRef, base: usize) -> Option<Vec<String>> {
    let reads_it_alone = |n: &Node<'_>| n.inputs().iter().all(|v| *v == of);
    if n.op() == "FusedElementwise" {
        let texts = n.attr("steps")?.as_strs()?;
        let word = |w: &str| match w.strip_prefix('%') {
            Some(k) => Some(format!("%{}", base + k.parse::<usize>().ok()?)),
            None => Some(w.to_owned()),
        };
        let text = |t: &&str| Some(t.split(' ').map(word).collect::<Option<Vec<_>>>()?.join(" "));
        return (reads_it_alone(n) && n.inputs().len() == 1).then(|| texts.iter().map(text).collect())?;
    }
    if !is_step(n) || matches!(n.op(), "QuantizeLinear" | "DequantizeLinear") {
        return None;
    }
    let mut alone = true;
    let text = op_named(n, &mut |v| {
        alone &= v == of;
        format!("%{base}")
    })?;
    alone.then(|| vec![text])
}

/// Whether a result is in single precision and in a plain layout.
fn is_plain(d: &TensorDesc) -> bool {
    d.dtype == DType::F32 && d.origin.as_ref().into_option().is_none() && open::is_named(&d.shape)
}

/// The operator that can have steps behind it, and its attributes.
fn fused(n: &Node<'_>) -> Verdict<(&'static str, AttrMap)> {
    match n.op() {
        "FusedConv" => Ok(("FusedConv", attrs_of(n))),
        op if conv::CONVOLUTIONS.contains(&op) && n.input(3).is_none() => Ok(("FusedConv", conv::fused_attrs(n)?)),
        op if matmul::PRODUCTS.contains(&op) => {
            no_growing_state(&n.graph(), &n.inputs()[..2])?;
            Ok(("FusedMatMul", matmul::fused_attrs(n)))
        }
        op => Err(format!("{op} has an offset")),
    }
}

impl ChainEpilogue {
    /// The nodes that follow a node, and their steps.
    fn chain(n: &Node<'_>) -> Option<(Vec<NodeId>, ValueRef, Vec<String>)> {
        let g = n.graph();
        let out = n.outputs().first().filter(|d| n.outputs().len() == 1 && is_plain(d))?;
        let (mut nodes, mut last, mut all) = (vec![n.id()], n.value(0), Vec::new());
        while let Some(next) = only_reader(&g, last) {
            let fits = next.outputs().first().is_some_and(|d| is_plain(d) && open::same(&d.shape, &out.shape))
                && next.controls().is_empty()
                && g.control_users(next.id()).is_empty()
                && agree(n, &next);
            let Some(more) = fits.then(|| steps(&next, last, all.len())).flatten() else { break };
            if all.len() + more.len() > MOST_STEPS {
                break;
            }
            all.extend(more);
            nodes.push(next.id());
            last = next.value(0);
        }
        (all.len() >= FEWEST_STEPS).then_some((nodes, last, all))
    }
}

impl Pass for ChainEpilogue {
    fn info(&self) -> PassInfo {
        let help = "puts element-wise steps behind a convolution or a product into its kernel";
        PassInfo::new(NAME, PassStage::OPTIMIZE_FUSED_GRAPH, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        let ops = [
            "Conv2D",
            "DepthwiseConv2D",
            "FusedConv",
            "MatMul",
            "MatMulV2",
            "BatchMatMul",
            "BatchMatMulV2",
            "FusedMatMul",
        ];
        for n in graph.nodes_of(&ops) {
            if n.attr("steps").is_some() {
                continue;
            }
            let Some((nodes, last, steps)) = Self::chain(&n) else { continue };
            let b = Boundary { nodes, outputs: vec![last] };
            rewriter.replace(&b, |r| {
                let (op, mut attrs) = fused(&n)?;
                attrs.set("steps", steps);
                Ok(vec![put(r, op, n.inputs(), &attrs, out_desc(&graph.node(last.node))?)?.into()])
            });
        }
        Ok(())
    }
}
