//! Branches that a plan takes itself: sizes determine the choice, and the branch only reshapes
//! values and computes with sizes (as in an exporter's `Squeeze` that depends on whether there is
//! an axis for it). Such a branch needs no launch, and the nodes after it belong to the same round.
use super::decide::{FOLD_BYTES, Plain};
use super::graph::Node;
use super::plan::{Draft, Home, Planner};
use ge_plugin_api::types::{ConstTensor, DType};

impl Planner<'_> {
    /// The results of a choice if the plan can determine them; `None` if the host must take the
    /// branch.
    pub(crate) fn settled(&self, n: &Node) -> Option<Vec<Plain>> {
        let mut inputs = n.inputs.iter().copied();
        let cond = self.d.known(self.graph, inputs.next()??)?;
        let at = taken(n, cond)?;
        let basis = self.basis.of(*n.graphs.get(at)?);
        let branch = basis.graph();
        let mut d = Draft::new(&basis);
        // The outer value of each parameter.
        let mut given: Vec<(u32, u32)> = Vec::with_capacity(branch.inputs.len());
        for (param, value) in branch.inputs.iter().zip(inputs) {
            let Some(param) = *param else { continue };
            let value = value?;
            let desc = self.d.desc(self.graph, value)?;
            let in_place = matches!(self.d.home[self.root(value) as usize], Home::InPlace(_));
            if in_place || desc.dtype == DType::STRING || desc.container != Default::default() {
                return None;
            }
            d.home[param as usize] = Home::Before;
            d.desc[param as usize] = Some(desc.clone());
            d.known[param as usize] = self.d.known(self.graph, value).cloned();
            given.push((param, value));
        }
        let mut p = Planner::new(&basis, d, &vec![false; branch.nodes.len()]);
        p.alone = true;
        p.walk(&vec![false; branch.nodes.len()]).ok()?;
        if !p.d.is_plain() || branch.outputs.len() != n.outputs.len() {
            return None;
        }
        let of = |param: u32| given.iter().find(|g| g.0 == param).map(|g| self.root(g.1));
        let out = |v: &u32| {
            let (desc, known) = (p.d.desc(branch, *v)?.clone(), p.d.known(branch, *v).cloned());
            let root = match p.d.home[*v as usize] {
                Home::Before => of(*v),
                Home::ViewOf(root) => of(root),
                Home::Known => None,
                _ => return None,
            };
            let home = root.map_or(Home::Known, Home::ViewOf);
            // Values that the plan has to store must be small.
            let kept = || known.is_some() && desc.data_bytes().is_some_and(|b| b <= FOLD_BYTES);
            (root.is_some() || kept()).then_some(Plain { home, desc, known })
        };
        branch.outputs.iter().map(out).collect()
    }
}

/// The branch that a choice takes; the same rule as in a run.
fn taken(n: &Node, cond: &ConstTensor) -> Option<usize> {
    if n.op.as_str().ends_with("If") {
        let one = cond.dims.iter().product::<u64>() == 1;
        let truth = cond.bytes()?.iter().any(|b| *b != 0);
        return one.then_some(usize::from(!truth));
    }
    let last = n.graphs.len().checked_sub(1)?;
    let index = cond.to_i64(1).and_then(|all| all.first().copied());
    Some(index.and_then(|k| usize::try_from(k).ok()).map_or(last, |k| k.min(last)))
}
