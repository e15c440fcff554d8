//! Checks what an imported graph states about memory against what its operators do.
use super::rules::Rules;
use crate::error::MemoryFault;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::ops::flags;

/// The first node that is told to have no task (`_no_task`) although nothing else would write its
/// output: it is not a view, and its memory is neither a part nor a whole of memory that others
/// fill; or it computes each element, so that lying where its inputs lie is not enough.
pub fn idle(model: &Model, toolbox: &Toolbox) -> Option<MemoryFault> {
    let rules = Rules::new(toolbox);
    let told = model.graphs().iter().flat_map(|g| g.nodes()).filter(|n| n.attrs().flag("_no_task"));
    let mut told = told.filter(|n| {
        let computes = toolbox.op_flags(n.op_key()) & (flags::ELEMENTWISE | flags::VIEW) == flags::ELEMENTWISE;
        let filled = rules.is_view(n) || Rules::joins_inputs(n) || Rules::splits_input(n);
        !n.outputs().is_empty() && (computes || !filled)
    });
    told.next().map(|n| MemoryFault::NoTask { node: n.name().into(), op: n.op().into() })
}
