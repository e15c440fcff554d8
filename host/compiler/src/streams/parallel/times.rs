//! Run times of nodes for planning: the time that the engine gives, but at least one launch, or the
//! time that a profile measured.
//!
//! A profile is a document of `ge bench --per-node --json`. Its `nodes` are used, each with `name`
//! (`graph/name` if a name occurs in several graphs) and `us`. Nodes that it does not name keep
//! their engine's time.
use crate::error::{CompileError, Result};
use crate::feature::kernel_cache::KernelTimes;
use crate::ids::{ModelMap, NodeKey};
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::diagnostic::Diagnostic;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// Longest accepted run time of a node in ns (one hour); longer times are reduced to it.
const LONGEST_NS: u64 = 3_600_000_000_000;

#[derive(Deserialize)]
struct ProfileForm {
    nodes: Vec<NodeForm>,
}

#[derive(Deserialize)]
struct NodeForm {
    name: String,
    us: f64,
}

/// Run times in ns by node name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    ns: HashMap<String, u64>,
}

impl Profile {
    /// Reads the document. Other fields are ignored; the times of nodes with the same name are
    /// added.
    ///
    /// # Errors
    /// Fails if the file cannot be read (usage), or is not such a document (damaged); the error
    /// tells where.
    pub fn read(path: &Path) -> Result<Profile> {
        let fail = |message: String, code| {
            let d = Diagnostic::error(message).help("`ge bench MODEL --per-node --json` writes a profile");
            CompileError::model(code, d)
        };
        let text = std::fs::read(path)
            .map_err(|e| fail(format!("the profile `{}` cannot be read: {e}", path.display()), ge_codes::UNREADABLE))?;
        Profile::parse(&text).map_err(|why| {
            fail(format!("the profile `{}` is not what it should be: {why}", path.display()), ge_codes::STREAM_PROFILE)
        })
    }

    fn parse(text: &[u8]) -> Result<Profile, String> {
        let form: ProfileForm = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        let mut ns: HashMap<String, u64> = HashMap::with_capacity(form.nodes.len());
        for n in form.nodes {
            if !(n.us >= 0.0 && n.us.is_finite()) {
                return Err(format!("`{}` takes {} us, which is no time", n.name, n.us));
            }
            // A cast from a float saturates.
            let time = ((n.us * 1e3).round() as u64).min(LONGEST_NS);
            let sum = ns.entry(n.name).or_default();
            *sum = sum.saturating_add(time).min(LONGEST_NS);
        }
        if ns.is_empty() {
            return Err("it names no node; was it written without `--per-node`?".into());
        }
        Ok(Profile { ns })
    }

    fn of(&self, graph: &str, name: &str) -> Option<u64> {
        if self.ns.is_empty() {
            return None;
        }
        self.ns.get(name).or_else(|| self.ns.get(&format!("{graph}/{name}"))).copied()
    }
}

/// The run time of every node of every graph in ns; 0 for nodes for which `runs` is false.
pub fn times(
    model: &Model,
    placement: &Placement,
    toolbox: &Toolbox,
    profile: &Profile,
    runs: &dyn Fn(NodeKey) -> bool,
) -> ModelMap<u64> {
    let soc = &toolbox.target.soc;
    let alike = KernelTimes::default();
    let mut out = ModelMap::new(model, 0u64);
    for (gi, g) in model.graphs().iter().enumerate() {
        let context = toolbox.lend(model, gi);
        let view = context.graph();
        for n in g.nodes() {
            let key = NodeKey::new(gi, n.id());
            if !runs(key) {
                continue;
            }
            out[key] = profile.of(g.name(), n.name()).unwrap_or_else(|| {
                let says = alike.of(toolbox, placement.engine[key], &view.node(n.id()));
                says.max(soc.task_launch_ns).min(LONGEST_NS)
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Profile;

    #[test]
    fn a_profile_is_what_bench_writes_and_nothing_else() {
        let read = Profile::parse(
            br#"{"schema": 1, "nodes": [{"name": "a", "engine": "X", "us": 1.5}, {"name": "g/b", "us": 2}]}"#,
        );
        let read = read.expect("read");
        assert_eq!((read.of("main", "a"), read.of("g", "b"), read.of("h", "b")), (Some(1500), Some(2000), None));
        let why = |text: &str| Profile::parse(text.as_bytes()).expect_err("refused");
        assert!(why("{").contains("line 1"));
        assert!(why(r#"{"nodes": []}"#).contains("--per-node"));
        assert!(why(r#"{"nodes": [{"name": "a", "us": -1}]}"#).contains("no time"));
    }
}
