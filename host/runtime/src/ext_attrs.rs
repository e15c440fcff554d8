//! Extended attributes and tiling contexts of a loaded model's nodes.
use crate::error::RuntimeError;
use crate::load::LoadedModel;
use crate::sink::{CONTEXT_ADDR, addresses};
use crate::spot::Of;
use ge_plugin_api::author::tiling_sink::TilingContext;
use ge_plugin_api::device::AllocationKind;
use ge_plugin_api::types::AttrMap;
use std::collections::BTreeMap;

impl LoadedModel {
    /// Extended attributes by node name, for every node that has some: `_tiling_sink_task_info`
    /// lists, for each kernel of the node that waits for an UPDATE, its task id, stream and (for an
    /// FFTS+ task) handle; `_tiling_context_addr` holds addresses in the feature maps of the next
    /// run.
    pub fn ext_attrs(&self) -> Result<BTreeMap<String, AttrMap>, RuntimeError> {
        let mut all = self.ext.0.clone();
        if let Some(base) = self.context_base()? {
            for f in &self.contexts.list {
                all.entry(f.of).or_default().set(CONTEXT_ADDR, addresses(f.spot, base).to_attr());
            }
        }
        let name = |of: Of| self.compiled.node(of.0, of.1).map(|n| n.name.clone());
        Ok(all.into_iter().filter_map(|(of, attrs)| Some((name(of)?, attrs))).collect())
    }

    /// A node's tiling context in the feature maps of the next run: what the host wrote there, and
    /// what the last run left there. `None` if the node's tiling does not run on the device.
    pub fn tiling_context(&self, node: &str) -> Result<Option<TilingContext>, RuntimeError> {
        let named = |of: Of| self.compiled.node(of.0, of.1).is_some_and(|n| n.name == node);
        let Some(f) = self.contexts.list.iter().find(|f| named(f.of)) else { return Ok(None) };
        let mut bytes = vec![0u8; f.spot.bytes()];
        self.context.copy_out(self.context_base()?.unwrap_or(0) + f.spot.at, &mut bytes)?;
        Ok(TilingContext::decode(&bytes))
    }

    /// Address of the tiling contexts in an idle set of feature maps; `None` if there are no
    /// contexts.
    fn context_base(&self) -> Result<Option<u64>, RuntimeError> {
        if self.contexts.list.is_empty() {
            return Ok(None);
        }
        let maps = self.take_maps()?;
        let all = self.allocations.iter().enumerate().filter(|(_, a)| a.kind == AllocationKind::FEATURE_MAP);
        let found = all.zip(&maps).find(|((k, _), _)| *k == self.contexts.allocation as usize).map(|(_, b)| b.address);
        self.give_maps(maps);
        Ok(found)
    }
}
