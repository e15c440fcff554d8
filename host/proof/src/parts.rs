//! Checks where related tensors lie in a compiled model (part of the ReuseChecker, document 000,
//! 5.2): parts of a whole at the running sum of their data sizes, references on their inputs, runs
//! with padding block by block, variables apart, and constants never written. Reads only the
//! compiled model.
use super::PlanFault;
use ge_model::{CompiledModel, NodeInfo, SlotInfo};
use ge_plugin_api::types::TensorDesc;

type Found = Result<(), PlanFault>;

/// Checks all graphs.
///
/// # Errors
/// Returns the first tensor that lies in the wrong place.
pub(crate) fn check(m: &CompiledModel) -> Found {
    let mut variables: Vec<(u64, u64, &str)> = Vec::new();
    let writers: std::collections::HashSet<(u32, u32)> =
        m.tasks.iter().filter(|t| t.args_format.contains("{o")).map(|t| (t.graph, t.node)).collect();
    for (gi, g) in m.graphs.iter().enumerate() {
        for (i, n) in g.nodes.iter().enumerate() {
            let parts = Parts { nodes: &g.nodes, n };
            parts.wholes()?;
            parts.references()?;
            parts.padded()?;
            if writers.contains(&(gi as u32, i as u32)) && n.slots.iter().any(|s| s.space == SlotInfo::WEIGHTS) {
                return Err(fault(n, "it would write over a constant"));
            }
            if n.op == "Variable" {
                variables.extend(n.slots.iter().map(|s| (s.offset, s.offset.saturating_add(s.size), n.name.as_str())));
            }
        }
    }
    variables.sort_unstable();
    variables.dedup();
    for pair in variables.windows(2) {
        if pair[0].1 > pair[1].0 && pair[0].2 != pair[1].2 {
            let what = format!("it lies over variable `{}`", pair[0].2);
            return Err(PlanFault::Place { node: pair[1].2.to_owned(), what });
        }
    }
    Ok(())
}

fn fault(n: &NodeInfo, what: impl Into<String>) -> PlanFault {
    PlanFault::Place { node: n.name.clone(), what: what.into() }
}

struct Parts<'m> {
    nodes: &'m [NodeInfo],
    n: &'m NodeInfo,
}

impl Parts<'_> {
    fn input(&self, i: usize) -> Option<(&TensorDesc, &SlotInfo)> {
        let v = self.n.inputs.get(i).copied().flatten()?;
        let p = self.nodes.get(v.node as usize)?;
        Some((p.outputs.get(v.output as usize)?, p.slots.get(v.output as usize)?))
    }
    fn flag(&self, words: &str) -> bool {
        self.n.attrs.flag(format!("_nopadding_{words}").as_str())
            || self.n.attrs.flag(format!("_no_padding_{words}").as_str())
    }

    /// Checks the inputs of a concat and the outputs of a split without a task.
    fn wholes(&self) -> Found {
        let n = self.n;
        if n.attrs.int("_reuse_input_on_dim_index").is_some_and(|d| d != 0) {
            return Ok(());
        }
        let apart = |what: &str, k: usize, s: &SlotInfo, whole: &SlotInfo, at: u64| {
            let wanted = whole.offset.checked_add(at);
            if Some(s.offset) == wanted && (s.space, s.memory) == (whole.space, whole.memory) {
                return Ok(());
            }
            Err(fault(n, format!("{what} {k} lies at {}, {} is wanted", s.offset, wanted.unwrap_or(u64::MAX))))
        };
        let mut at = 0u64;
        if n.op == "PhonyConcat" || (n.attrs.flag("_no_task") && self.flag("continuous_input")) {
            let Some(whole) = n.slots.first() else { return Ok(()) };
            for i in 0..n.inputs.len() {
                let Some((d, s)) = self.input(i) else { continue };
                apart("input", i, s, whole, at)?;
                at = at.saturating_add(d.data_bytes().unwrap_or(0));
            }
        } else if n.op == "PhonySplit" || (n.attrs.flag("_no_task") && self.flag("continuous_output")) {
            let Some((_, whole)) = self.input(0) else { return Ok(()) };
            for (k, (d, s)) in n.outputs.iter().zip(&n.slots).enumerate() {
                apart("output", k, s, whole, at)?;
                at = at.saturating_add(d.data_bytes().unwrap_or(0));
            }
        }
        Ok(())
    }

    /// Checks that output 0, if it reuses an input, lies on that input.
    fn references(&self) -> Found {
        let Some(s) = self.n.slots.first() else { return Ok(()) };
        let Some((_, up)) = s.ref_input.and_then(|i| self.input(i as usize)) else { return Ok(()) };
        if (s.space, s.memory, s.offset) == (up.space, up.memory, up.offset) {
            return Ok(());
        }
        Err(fault(self.n, format!("output 0 lies at {}, the input that it is at {}", s.offset, up.offset)))
    }

    /// Checks runs with padding: each block begins where the one before it ends.
    fn padded(&self) -> Found {
        let n = self.n;
        let next = |at: &mut Option<u64>, what: &str, k: usize, s: &SlotInfo| {
            if at.is_some_and(|at| at != s.offset) {
                let wanted = at.unwrap_or(0);
                return Err(fault(n, format!("{what} {k} lies at {}, its run goes on at {wanted}", s.offset)));
            }
            *at = s.offset.checked_add(s.size);
            Ok(())
        };
        if n.attrs.flag("continuous_input") {
            let mut at = None;
            for i in 0..n.inputs.len() {
                if let Some((_, s)) = self.input(i) {
                    next(&mut at, "input", i, s)?;
                }
            }
        }
        if n.attrs.flag("continuous_output") && n.slots.iter().all(|s| s.ref_input.is_none()) {
            let mut at = None;
            for (k, s) in n.slots.iter().enumerate() {
                next(&mut at, "output", k, s)?;
            }
        }
        Ok(())
    }
}
