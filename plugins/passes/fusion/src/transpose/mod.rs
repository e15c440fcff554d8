//! `TransposeMotionFusionPass`: operators between transposes work on the tensors in the layout
//! before the transposes, and transposes that then meet their inverse are removed.
//!
//! Before: `%a = TransposeD(%x) {perm = [0,2,3,1]}  %b = Tanh(%a)  %c = Neg(%b)  %y = TransposeD(%c) {perm = [0,3,1,2]}`
//! After: `%b = Tanh(%x)  %y = Neg(%b)`
//! When: element-wise operators, reductions that keep their axes, paddings, concatenations and
//! splits read each other, and fewer numbers need to be transposed at the boundary of the group and
//! inside it than before. Which operators move is decided by a minimum cut between the two layouts.
//! Operands with one long axis are reshaped, single numbers stay; axes, paddings and split axes are
//! converted to the other layout.
//! Refuses: operators with control edges, operands of another rank with several long axes, tensors
//! without elements, groups of more than 4,096 operators.
//! Keeps: the values of everything that reads the operators. Cost: each node and edge is visited
//! once for each of at most four permutations, plus one cut for each group of operators that a
//! transpose touches.

/// The minimum cut between two layouts.
mod cut;
/// Layouts of values, and which operators are connected.
mod frames;
/// Operators that can work in another layout.
mod member;
/// Writes the operators in their new layouts.
mod write;

use crate::edit;
use frames::{Frames, Perm};
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{NodeId, Shape, TensorDesc};
use ge_plugin_api::view::{Graph, Node};
use member::Member;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The pass that this module describes.
pub struct TransposeMotion;

/// Most permutations that are tried, each together with its inverse.
const TRIED: usize = 4;
/// The size that stands for an open one when amounts are compared.
const OPEN: u64 = 8;

impl Pass for TransposeMotion {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "TransposeMotionFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "operators between a transpose and its inverse work without both".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let transposes: HashMap<NodeId, Vec<usize>> =
            graph.nodes_of(&["TransposeD"]).filter_map(|n| Some((n.id(), permutation(&n)?))).collect();
        if transposes.len() < 2 {
            return Ok(());
        }
        let members: Vec<Member<'_>> = graph
            .order()
            .iter()
            .filter(|id| !transposes.contains_key(id))
            .filter_map(|id| Member::of(graph.node(*id)))
            .collect();
        let names = graph.nodes().map(|n| n.name()).collect();
        // A group is skipped if it changes what an earlier group changed or reads, or reads what
        // one changed.
        let (mut changed, mut read) = (BTreeSet::new(), BTreeSet::new());
        for perm in most_moved(graph, &transposes) {
            for group in Frames::new(*graph, &transposes, &members, &perm).groups() {
                let Some(layouts) = cut::best(&group) else { continue };
                let (own, reads) = (group.own(), group.reads());
                if own.is_disjoint(&changed) && own.is_disjoint(&read) && reads.is_disjoint(&changed) {
                    write::write(&group, &layouts, &transposes, &names, patch);
                    changed.extend(own);
                    read.extend(reads);
                }
            }
        }
        Ok(())
    }
}

/// The permutations that move the most numbers.
fn most_moved(g: &Graph<'_>, transposes: &HashMap<NodeId, Vec<usize>>) -> Vec<Perm> {
    let mut moved: BTreeMap<Perm, u64> = BTreeMap::new();
    for (id, perm) in transposes.iter().collect::<BTreeMap<_, _>>() {
        *moved.entry(Perm::of(perm)).or_default() += g.node(*id).outputs().first().map_or(0, amount);
    }
    let mut all: Vec<(Perm, u64)> = moved.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.into_iter().take(TRIED).map(|(p, _)| p).collect()
}

/// How many numbers a tensor has; an estimate if sizes are open.
fn amount(d: &TensorDesc) -> u64 {
    d.shape.dims().iter().fold(1, |all: u64, n| all.saturating_mul(n.size().unwrap_or(OPEN))).clamp(1, 1 << 40)
}

/// Whether a tensor may have another layout: it has this rank, no other format, and elements.
fn is_plain(d: &TensorDesc, rank: usize) -> bool {
    d.origin.is_none() && d.shape.rank() == Some(rank) && d.shape.dims().iter().all(|n| n.size() != Some(0))
}

/// The permutation of a transpose that may be removed.
fn permutation(n: &Node<'_>) -> Option<Vec<usize>> {
    let ([_], [y]) = (n.inputs(), n.outputs()) else { return None };
    let x = n.input_desc(0)?;
    let perm = n.ints("perm")?.iter().map(|p| usize::try_from(*p).ok()).collect::<Option<Vec<usize>>>()?;
    let all: BTreeSet<usize> = perm.iter().copied().collect();
    let whole = all.len() == perm.len() && all.last().is_none_or(|l| *l < perm.len());
    let plain = [x, y].iter().all(|d| is_plain(d, perm.len()));
    (whole && plain && !perm.is_sorted() && edit::is_free(n)).then_some(perm)
}

fn inverse(perm: &[usize]) -> Vec<usize> {
    let mut out = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(i, p)| out[*p] = i);
    out
}

/// The descriptor of a transposed tensor.
fn permuted(d: &TensorDesc, perm: &[usize]) -> TensorDesc {
    let dims = d.shape.dims();
    TensorDesc { shape: Shape::new(perm.iter().map(|p| dims[*p])), ..d.clone() }
}
