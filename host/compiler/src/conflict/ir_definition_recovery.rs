//! `IrDefinitionRecovery`: before the build, attributes that a node leaves out are written into it
//! with the values of its operator's definition.
//!
//! Before: `%y = LeakyRelu(%x)`   After: `%y = LeakyRelu(%x) {negative_slope = 0.01}`
//! When: the prototype gives the attribute a value and the node does not. Kernels, tasks and the OM
//! then see the whole definition, as the prototypes of this compilation have it, whoever wrote the
//! graph and whenever.
//! Keeps: every attribute that is given; optional attributes without a default stay absent.
//! Source: 003 §1.2 (E2). Cost: visits each node once, and each attribute of its operator.
use crate::error::Result;
use crate::pass::PassContext;
use crate::pass::declare::graph_pass;
use ge_ir::Model;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{Attr, Key};
use std::collections::HashMap;

graph_pass!(
    IrDefinitionRecovery, O1,
    "`%y = Op(%x)` -> `%y = Op(%x) {attribute = its value by the prototype}`",
    needs "the prototype gives the attribute a value where none is given",
    keeps "every attribute that is given",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    // The attributes with a default, by type; found once per type.
    let mut known: HashMap<Key, Vec<Attr>> = HashMap::new();
    let mut edits = Vec::new();
    for n in g.nodes() {
        let defaults = known.entry(n.op_key()).or_insert_with(|| {
            let specs = cx.toolbox.op(n.op_key()).map_or(&[][..], |o| o.proto.attrs.as_slice());
            let given = specs.iter().filter_map(|a| match &a.default {
                ROption::RSome(v) => Some(Attr { key: Key::new(a.name.as_str()), value: v.clone() }),
                ROption::RNone => None,
            });
            given.collect()
        });
        cx.visits += 1;
        let before = edits.len();
        let left_out = defaults.iter().filter(|d| n.attrs().get(d.key).is_none());
        edits.extend(left_out.map(|d| Edit::SetAttr(n.id(), d.clone())));
        cx.changes += u64::from(edits.len() > before);
    }
    Ok(edits)
}
