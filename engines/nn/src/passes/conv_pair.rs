//! `ConvPairFusionPass`: a depthwise and a pointwise convolution, one of which is the only reader
//! of the other, become `FusedConvPair`. The values between them are computed strip by strip and
//! stay in the caches.
//!
//! Before: `%d = FusedConv(%x, %v) {groups = C}`, `%y = FusedConv(%d, %w)` with a pointwise `%w`
//! After: `%y = FusedConvPair(%x, %v, _, %w) {depthwise = "first"}`; in the other order `"second"`
//! When: both are in single precision, and the values between them do not fit a cache anyway. Of
//! images of open sizes only depthwise ones are joined with what follows. A depthwise convolution
//! between two others is joined with the one after it; with stride two, with the one before it,
//! whose output is then larger.
//! Refuses: a residual or a type of its own in the first; steps behind one of the two; nodes for
//! which the op store has no kernel.
use super::open_weights::trials;
use super::{attrs_of, only_reader, open, out_desc, put, signature};
use crate::families::{conv, conv_pair};
use ge_kernels::conv::{ConvPair, ConvSpec};
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, SubgraphRewriter};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, DType, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// The pass `ConvPairFusionPass`.
pub struct ConvPairFusion;

const NAME: &str = "ConvPairFusionPass";
/// Convolutions of images.
const CONVOLUTIONS: [&str; 3] = ["Conv2D", "DepthwiseConv2D", "FusedConv"];
/// Minimum number of values between the two. Fewer values stay in the second-level cache from one
/// kernel to the next, or are cheap to read from the last-level cache.
const LEAST_BETWEEN: usize = 320 * 1024;
/// The same if the depthwise one is the first: strips of rows then cost nothing to begin.
const LEAST_PLANES: usize = 64 * 1024;

impl Pass for ConvPairFusion {
    fn info(&self) -> PassInfo {
        let help = "joins depthwise convolutions with those of one point before or behind them";
        PassInfo::new(NAME, PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        for n in graph.nodes_of(&CONVOLUTIONS) {
            let Some(spec) = (!rewriter.is_gone(n.id())).then(|| single(&n)).flatten() else { continue };
            if spec.groups == 1 || spec.groups != spec.channels_in || spec.channels_out != spec.channels_in {
                continue;
            }
            let behind = only_reader(graph, n.value(0)).filter(|r| r.input(0) == Some(n.value(0)));
            let behind = behind.filter(|r| CONVOLUTIONS.contains(&r.op())).map(|r| (n, r));
            let before = n.input(0).and_then(|v| Some((v, graph.find(v.node)?)));
            let before = before.filter(|(v, b)| {
                CONVOLUTIONS.contains(&b.op()) && only_reader(graph, *v).is_some_and(|r| r.id() == n.id())
            });
            let before = before.map(|(_, b)| (b, n));
            let pairs = if spec.stride == [1; 3] { [behind, before] } else { [before, behind] };
            for (first, second) in pairs.into_iter().flatten() {
                if rewriter.is_gone(first.id()) || rewriter.is_gone(second.id()) {
                    continue;
                }
                let nodes = vec![first.id(), second.id()];
                let b = Boundary { nodes, outputs: vec![second.value(0)] };
                let Some((attrs, inputs)) = joined(&first, &second, &spec, first.id() == n.id()) else { continue };
                rewriter
                    .replace(&b, |r| Ok(vec![put(r, "FusedConvPair", &inputs, &attrs, out_desc(&second)?)?.into()]));
                if rewriter.is_gone(n.id()) {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The parameters of a convolution in single precision; those that do not depend on the sizes of
/// its images, if these are open: its windows and channels are the same in each trial.
fn single(n: &Node<'_>) -> Option<ConvSpec> {
    let reals = || (0..n.inputs().len()).filter_map(|i| n.input_desc(i)).chain(n.outputs().first());
    if !reals().all(|d| d.dtype == DType::F32 && d.origin.is_none()) {
        return None;
    }
    let all: Option<Vec<ConvSpec>> = trials(n).iter().map(|sig| Some(conv::sizes(sig).ok()?.0)).collect();
    let windows = |s: &ConvSpec| ConvSpec { batch: 1, input: [1; 3], ..s.clone() };
    let all = all?;
    let first = all.first()?;
    all.iter().all(|s| windows(s) == windows(first)).then(|| first.clone())
}

/// The attributes and inputs of the joined node; `None` if the two are not such a pair or if
/// joining them does not pay.
fn joined(
    first: &Node<'_>,
    second: &Node<'_>,
    plane: &ConvSpec,
    depthwise_first: bool,
) -> Option<(AttrMap, Vec<ValueRef>)> {
    let (given, own) = (attrs_of(first), attrs_of(second));
    let fused = |n: &Node<'_>| n.op() == "FusedConv";
    if given.iter().chain(own.iter()).any(|a| a.key.as_str() == "steps") {
        return None;
    }
    // Input 3 of other convolutions is the offset of quantised ones.
    if first.input(3).is_some() || (!fused(second) && second.input(3).is_some()) {
        return None;
    }
    single(first)?;
    single(second)?;
    let mut attrs = AttrMap::default();
    attrs.set("depthwise", if depthwise_first { "first" } else { "second" });
    attrs.set("strides", plane.stride.iter().fold(vec![1i64], |v, s| [v, vec![*s as i64]].concat()));
    let pads = [plane.pad_before[1], plane.pad_after[1], plane.pad_before[2], plane.pad_after[2]];
    attrs.set("pads", pads.map(|p| p as i64).to_vec());
    let acts = [("first_activation", &given), ("activation", &own)];
    for (key, from) in acts {
        if let Some(name) = from.str("activation") {
            attrs.set(key, name);
        }
        if let Some(numbers) = from.floats("activation_params") {
            attrs.set(format!("{key}_params").as_str(), numbers.to_vec());
        }
    }
    let of = |n: &Node<'_>, i: usize| n.input(i).unwrap_or(ValueRef::ABSENT);
    let inputs = vec![of(first, 0), of(first, 1), of(first, 2), of(second, 1), of(second, 2), of(second, 3)];
    pays(&inputs, second, &attrs).then_some((attrs, inputs))
}

/// Whether the pair is faster than the two alone. With open images, it is if a depthwise one is the
/// first: strips of small images cost little more than the two, those of large ones far less. If
/// the number of images alone is open, one image counts.
fn pays(inputs: &[ValueRef], second: &Node<'_>, attrs: &AttrMap) -> bool {
    let graph = second.graph();
    let given: Vec<_> = inputs.iter().map(|v| graph.desc(*v)).chain([second.outputs().first()]).collect();
    let Some(x) = given[0] else { return false };
    let plan = |descs: &Vec<_>| conv_pair::plan(&signature("FusedConvPair", descs, 1, attrs).ok()?);
    let plans: Option<Vec<ConvPair>> = open::trials(&given).unwrap_or_default().iter().map(plan).collect();
    let Some(plans) = plans else { return false };
    let Some(least) = plans.iter().min_by_key(|p| p.between()) else { return false };
    if x.shape.dims().iter().skip(2).any(|d| !d.is_known()) {
        return least.is_depthwise_first();
    }
    least.stays() && least.between() >= if least.is_depthwise_first() { LEAST_PLANES } else { LEAST_BETWEEN }
}
