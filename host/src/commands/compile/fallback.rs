//! Nodes that fall back to an AI CPU engine, and the check that rejects them.
use crate::session::{Compiled, Session};
use crate::{Diagnostic, ErrorKind, Result};
use ge_plugin_api::engine::flags;
use ge_plugin_api::fusion::ORIGINALS;

/// A node whose task is on an AI CPU engine although the node is not bound to it.
pub struct Fallback {
    pub node: String,
    pub op: String,
    /// The node's operator in the source model, if it differs.
    origin: Option<String>,
    pub engine: String,
    pub reasons: Vec<String>,
}

impl Fallback {
    /// The operator of the node, and that of the source model if it differs.
    pub fn types(&self) -> String {
        self.origin.as_ref().map_or_else(|| self.op.clone(), |o| format!("{}, {o} in the model", self.op))
    }
}

/// Checks that the operators of `--fail-on-fallback` are known to CANN or to a framework: with a
/// misspelt name the check could never fail.
pub fn known_operators(session: &Session, wanted: Option<&str>) -> Result<()> {
    let registry = session.registry();
    let mut known: Vec<&str> = registry.ops().iter().map(|o| o.proto.name.as_str()).collect();
    for f in registry.frontends() {
        known.extend(registry.mappings(&f.framework).map(|(i, _)| i.op.as_str()));
    }
    known.extend(["If", "Loop", "Scan"]);
    known.sort_unstable();
    known.dedup();
    for name in wanted.unwrap_or("").split(',').map(str::trim).filter(|n| !n.is_empty()) {
        if !known.contains(&name) {
            return Err(crate::options::unknown_name("operator of --fail-on-fallback", name, known.iter().copied()));
        }
    }
    Ok(())
}

fn fallbacks(session: &Session, c: &Compiled) -> Vec<Fallback> {
    let aicpu = |name: &str| session.registry().engine(name).is_some_and(|e| e.has(flags::AICPU));
    let kernels = c.model.tasks.iter().filter(|t| !t.kernel_name.is_empty());
    let with_task: std::collections::HashSet<(u32, u32)> = kernels.map(|t| (t.graph, t.node)).collect();
    let mut out = Vec::new();
    for (gi, g) in c.model.graphs.iter().enumerate() {
        for (i, n) in g.nodes.iter().enumerate() {
            let has_task = with_task.contains(&(gi as u32, i as u32));
            if has_task && aicpu(&n.engine) {
                let reasons = n
                    .refusals
                    .iter()
                    .filter_map(|(who, why)| who.strip_prefix("EnginePlacer/").map(|e| format!("{e}: {why}")))
                    .collect();
                let originals = n.attrs.strs(ORIGINALS).into_iter().flatten();
                let origin = std::iter::once(n.name.as_str()).chain(originals).find_map(|name| c.origins.get(name));
                let origin = origin.and_then(|o| o.split(',').next()).filter(|o| *o != n.op).map(str::to_owned);
                let (node, op, engine) = (n.name.clone(), n.op.clone(), n.engine.clone());
                out.push(Fallback { node, op, origin, engine, reasons });
            }
        }
    }
    out
}

/// Returns the nodes that fall back; fails if `--fail-on-fallback` rejects one of them.
pub fn gate(wanted: Option<&str>, session: &Session, c: &Compiled) -> Result<Vec<Fallback>> {
    let found = fallbacks(session, c);
    refuse(wanted, &found)?;
    Ok(found)
}

fn refuse(wanted: Option<&str>, fallbacks: &[Fallback]) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let names: Vec<&str> = wanted.split(',').map(str::trim).filter(|s| !s.is_empty()).collect();
    let bad: Vec<Diagnostic> = fallbacks
        .iter()
        .filter(|f| {
            let named = |n: &str| f.op == n || f.origin.as_deref() == Some(n);
            names.is_empty() || names.iter().any(|n| named(n))
        })
        .map(|f| {
            let mut d = Diagnostic::error(format!("`{}` ({}) falls back to {}", f.node, f.types(), f.engine))
                .code(ge_codes::FALLBACK)
                .node(f.node.clone(), f.op.clone());
            for r in &f.reasons {
                d = d.note(format!("asked: {r}"));
            }
            d
        })
        .collect();
    if bad.is_empty() { Ok(()) } else { Err(crate::Error::all(ErrorKind::FAILED, bad)) }
}
