//! Attached streams, events and notifies that engines want for their nodes' own tasks (001 §4.2,
//! facts 1.7), as the attributes that stream allocation and sync read. That they wait for what
//! their node waits for, producers of values included, is `sync`'s doing.
use crate::ids::{ModelMap, NodeKey};
use ge_ir::{AttrValue, Model};
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::types::attr::DictEntry;

/// Writes `_attached_stream_info_list` and `_attached_sync_res_info_list` of the nodes whose engine
/// wants them, where the user gave none.
pub fn ask(model: &mut Model, params: &ModelMap<RunningParams>) {
    let entry = |key: &str, value: AttrValue| DictEntry { key: key.into(), value };
    for gi in 0..model.graphs().len() {
        for id in model.graphs()[gi].order().to_vec() {
            let wishes = &params[NodeKey::new(gi, id)];
            let streams = wishes.attached.iter().map(|w| {
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
            let sync = wishes.sync.iter().map(|w| {
                AttrValue::Dict(
                    vec![
                        entry("_attached_resource_name", w.name.as_str().into()),
                        entry("_attached_resource_reuse_key", w.reuse_key.as_str().into()),
                        entry("_attached_resource_type", i64::from(w.notify).into()),
                    ]
                    .into(),
                )
            });
            let lists: [(&str, Vec<AttrValue>); 2] =
                [("_attached_stream_info_list", streams.collect()), ("_attached_sync_res_info_list", sync.collect())];
            let g = &mut model.graphs_mut()[gi];
            for (name, list) in lists {
                if !list.is_empty() && g.get(id).is_some_and(|n| n.attr(name).is_none()) {
                    g.set_attr(id, name, AttrValue::list(list));
                }
            }
        }
    }
}
