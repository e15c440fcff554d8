//! `VariableMemoryAssigner`: every variable has a place of its own that outlives the run (facts
//! 2.1). Variables of one name are one variable. Places are block-aligned, in the order of the
//! graphs.
use crate::error::Result;
use crate::error::VariableFault;
use crate::feature::shared_memory::rules::block_bytes;
use crate::ids::NodeKey;
use ge_ir::Model;
use std::collections::HashMap;

/// Places of the variables.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// Offset of each variable node in bytes.
    pub of: HashMap<NodeKey, u64>,
    /// Total size in bytes.
    pub bytes: u64,
}

impl Variables {
    /// Gives every variable its place.
    ///
    /// # Errors
    /// Fails if the size of a variable is not known or too large, or if two variables of one name
    /// differ in size.
    pub fn assign(model: &Model) -> Result<Variables> {
        let mut out = Variables::default();
        let mut by_name: HashMap<&str, (u64, u64)> = HashMap::new();
        for (gi, g) in model.graphs().iter().enumerate() {
            for n in g.nodes().filter(|n| n.op() == "Variable") {
                let bytes = n.outputs().first().and_then(|d| d.data_bytes());
                let name = || n.name().to_owned();
                let bytes = bytes.ok_or_else(|| VariableFault::NoSize { name: name() })?;
                let at = match by_name.get(n.name()) {
                    Some((at, known)) if *known == bytes => *at,
                    Some((_, known)) => {
                        let (here, there) = (format!("of {bytes} bytes"), format!("of {known}"));
                        return Err(VariableFault::Differs { name: name(), here, there }.into());
                    }
                    None => {
                        let at = out.bytes;
                        let end = block_bytes(bytes).and_then(|b| at.checked_add(b));
                        out.bytes = end.ok_or_else(|| VariableFault::TooLarge { name: name() })?;
                        by_name.insert(n.name(), (at, bytes));
                        at
                    }
                };
                out.of.insert(NodeKey::new(gi, n.id()), at);
            }
        }
        Ok(out)
    }
}
