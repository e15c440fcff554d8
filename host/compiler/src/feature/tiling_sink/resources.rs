//! Attached streams that engines want for their nodes' own tasks (001 §4.2, facts 1.7), as the attributes that stream
//! allocation reads. That they wait for what their node waits for, producers of values included, is `sync`'s doing.
use crate::ids::{ModelMap, NodeKey};
use ge_ir::{AttrValue, Model};
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::types::attr::DictEntry;

/// Writes `_attached_stream_info_list` of the nodes whose engine wants attached streams, where the user gave none.
pub fn ask_streams(model: &mut Model, params: &ModelMap<RunningParams>) {
    for gi in 0..model.graphs().len() {
        for id in model.graphs()[gi].order().to_vec() {
            let wishes = &params[NodeKey::new(gi, id)].attached;
            let g = &mut model.graphs_mut()[gi];
            if wishes.is_empty() || g.get(id).is_none_or(|n| n.attr("_attached_stream_info_list").is_some()) {
                continue;
            }
            let entry = |key: &str, value: AttrValue| DictEntry { key: key.into(), value };
            let list = wishes.iter().map(|w| {
                let depends: Vec<i64> = w.depend_value_inputs.iter().map(|i| i64::from(*i)).collect();
                AttrValue::Dict(
                    vec![
                        entry("_attached_resource_name", w.name.as_str().into()),
                        entry("_attached_resource_reuse_key", w.reuse_key.as_str().into()),
                        entry("_attached_resource_depend_value_list_int", depends.into()),
                        entry("_attached_resource_required_flag", w.required.into()),
                        entry("_attached_resource_force_reuse", w.force_reuse.into()),
                    ]
                    .into(),
                )
            });
            g.set_attr(id, "_attached_stream_info_list", AttrValue::list(list.collect()));
        }
    }
}
