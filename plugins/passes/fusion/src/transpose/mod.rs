//! `TransposeMotionFusionPass`: operators between transposes work on the tensors as they lie in
//! front of them, and transposes that then meet their inverse are gone.
//!
//! Before: `%a = TransposeD(%x) {perm = [0,2,3,1]}  %b = Tanh(%a)  %c = Neg(%b)  %y = TransposeD(%c) {perm = [0,3,1,2]}`
//! After: `%b = Tanh(%x)  %y = Neg(%b)`
//! When: element-wise operators, reductions that keep their axes, paddings, concatenations and
//! splits read each other, and fewer numbers are transposed at their rim and among them than
//! before. Which of them move is a least cut between the two layouts. Operands along one axis are
//! reshaped, single numbers stay; axes, paddings and split axes are those of the other layout.
//! Refuses: operators with control edges, operands of another rank with several long axes, tensors
//! without elements, groups of more than 4,096 operators.
//! Keeps: the values of all that reads the operators. Cost: each node and edge once for each of at
//! most four permutations, and a cut for each group of operators that a transpose touches.

/// The least cut between two layouts.
mod cut;
/// Layouts of values, and which operators hang together.
mod frames;
/// Operators that can work in another layout.
mod member;
/// The operators in their new layouts.
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

/// The pass.
pub struct TransposeMotion;

/// Permutations that are tried at most, each with its inverse.
const TRIED: usize = 4;
/// Size that stands for an open one where amounts are compared.
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
        // What one group changes another neither changes nor reads, nor the reverse.
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

/// How many numbers a tensor has, about where sizes are open.
fn amount(d: &TensorDesc) -> u64 {
    d.shape.dims().iter().fold(1, |all: u64, n| all.saturating_mul(n.size().unwrap_or(OPEN))).clamp(1, 1 << 40)
}

/// Whether a tensor is one that may lie otherwise: of this rank, in no other format, with elements.
fn is_plain(d: &TensorDesc, rank: usize) -> bool {
    d.origin.is_none() && d.shape.rank() == Some(rank) && d.shape.dims().iter().all(|n| n.size() != Some(0))
}

/// The permutation of a transpose that may go.
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

/// A descriptor whose tensor was transposed.
fn permuted(d: &TensorDesc, perm: &[usize]) -> TensorDesc {
    let dims = d.shape.dims();
    TensorDesc { shape: Shape::new(perm.iter().map(|p| dims[*p])), ..d.clone() }
}
