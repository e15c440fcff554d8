//! Attached streams, events and notifies that engines request for the tasks of their nodes (001
//! §4.2, facts 1.7), written as the attributes that stream allocation and sync read. The stage
//! `sync` makes them wait for what their node waits for, including the producers of values.
use crate::ids::{ModelMap, NodeKey};
use ge_ir::{AttrValue, Model};
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::types::attr::DictEntry;

/// Writes `_attached_stream_info_list` and `_attached_sync_res_info_list` on the nodes whose engine
/// requests them, unless the user has set them.
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
