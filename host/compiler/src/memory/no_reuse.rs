//! Switches that exclude memory from reuse (facts 2.4): `ge.exec.disableReuseMemory`, the
//! environment variable `OP_NO_REUSE_MEM` (names or types, given as the option
//! `ge.x.no_reuse_ops`), `no_reuse_mem_flag`, `workspace_reuse_flag` and
//! `_workspace_memory_no_reuse_scope`.
use crate::error::OptionFault;
use crate::error::Result;
use crate::options::Options;
use ge_ir::Node;
use ge_plugin_api::types::AttrValue;

/// Maximum number of names in `ge.x.no_reuse_ops`.
const MOST_NAMES: usize = 10;
/// Maximum length of `ge.x.no_reuse_ops` in bytes.
const MOST_LETTERS: usize = 2000;

/// Which memory is not reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoReuse {
    all: bool,
    names: Vec<String>,
}

impl NoReuse {
    /// Reads the options.
    ///
    /// # Errors
    /// Fails if `ge.x.no_reuse_ops` has too many names or is too long.
    pub fn new(options: &Options) -> Result<NoReuse> {
        let text = options.no_reuse_ops.as_str();
        let names: Vec<String> = text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect();
        if names.len() > MOST_NAMES || text.len() > MOST_LETTERS {
            return Err(OptionFault::Value {
                option: "ge.x.no_reuse_ops",
                what: format!("has {} names in {} letters", names.len(), text.len()),
                help: format!("it takes up to {MOST_NAMES} names or types in {MOST_LETTERS} letters"),
            }
            .into());
        }
        Ok(NoReuse { all: options.no_reuse, names })
    }
    /// Whether the outputs of a node are excluded from reuse.
    pub fn output(&self, n: &Node) -> bool {
        self.all || n.attrs().flag("no_reuse_mem_flag") || self.names.iter().any(|s| s == n.name() || s == n.op())
    }
    /// Whether workspace `k` of a node is excluded from reuse.
    pub fn workspace(&self, n: &Node, k: usize) -> bool {
        let flag = match n.attr("workspace_reuse_flag") {
            Some(AttrValue::Ints(l)) => l.get(k).copied() == Some(0),
            Some(AttrValue::List(l)) => matches!(l.get(k), Some(AttrValue::Bool(false))),
            _ => false,
        };
        let scope = n.attrs().ints("_workspace_memory_no_reuse_scope").and_then(|l| l.get(k).copied());
        self.output(n) || flag || scope.is_some_and(|s| s != 0)
    }
}
