//! `SetInputOutputOffsetPass`: turns the places of symbols into the offset of every output and
//! workspace (document 000, 4.4.3). A concat without a task lies at its first input, and the parts
//! of a split lie inside its input; symbols represent both, so one rule sets all offsets.
use super::plan::{MemoryPlan, Slot, Space};
use super::symbols::{Home, Place, Symbols};
use crate::ids::NodeKey;

/// Writes the slots of a plan. `offsets[s]` is the offset of symbol `s` in its feature map;
/// `guests[s]` says whether that is memory of the caller.
pub fn run(plan: &mut MemoryPlan, symbols: &Symbols, (offsets, guests): (&[u64], &[bool]), line: &[NodeKey]) {
    let slot = |p: &Place| {
        let s = &symbols.list[p.symbol];
        let (space, base) = match s.home {
            Home::Feature => (Space::Feature(s.memory), offsets[p.symbol]),
            Home::Weights(at) => (Space::Weights, at),
            Home::Variables(at) => (Space::Variables, at),
        };
        let zero_copy = (s.io.is_some() || guests[p.symbol]) && s.home == Home::Feature;
        Slot { space, offset: base + p.inside, size: p.size, zero_copy, ref_input: p.ref_input }
    };
    for &key in line {
        plan.outputs[key] = symbols.outputs[key].iter().map(slot).collect();
        plan.workspaces[key] = symbols.workspaces[key].iter().map(slot).collect();
    }
}
