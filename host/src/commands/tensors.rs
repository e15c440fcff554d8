//! What nodes computed in a run: written to files, searched for the first value that is no number.
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_model::CompiledModel;
use ge_runtime::Captured;
use std::collections::BTreeSet;
use std::path::Path;

/// A node's name as a file name: separators and control characters become `_`.
pub fn file_name(node: &str, output: u32) -> String {
    let safe: String =
        node.chars().map(|c| if c.is_control() || matches!(c, '/' | '\\' | ':') { '_' } else { c }).collect();
    let safe = safe.strip_prefix('.').map(|rest| format!("_{rest}")).unwrap_or(safe.clone());
    format!("{safe}_{output}.npy")
}

/// Writes every captured tensor that `.npy` has a form for.
pub fn dump(dir: &Path, m: &CompiledModel, captured: &[Captured]) -> Result<()> {
    let fail = |p: &Path, e: std::io::Error| {
        Diagnostic::error(format!("cannot write `{}`: {e}", p.display())).code("GE-E0403").of(ErrorKind::FAILED)
    };
    std::fs::create_dir_all(dir).map_err(|e| fail(dir, e))?;
    let mut seen = BTreeSet::new();
    for c in captured {
        let Some(n) = m.node(c.graph, c.node) else { continue };
        let Some(bytes) = ge_runtime::npy::write(&c.tensor) else { continue };
        let mut name = file_name(&n.name, c.output);
        // Two names that differ only in their separators: the later one says which node it is.
        if !seen.insert(name.clone()) {
            name = format!("{}.{}.{name}", c.graph, c.node);
        }
        super::write_atomic(&dir.join(name), &bytes)?;
    }
    Ok(())
}

/// The first node, in the graph's order, that computed a NaN or an infinity.
pub fn first_not_finite(m: &CompiledModel, captured: &[Captured]) -> Option<Diagnostic> {
    for c in captured {
        let values = super::run::values(&c.tensor);
        let Some(at) = values.iter().position(|v| !v.is_finite()) else { continue };
        let count = values.iter().filter(|v| !v.is_finite()).count();
        let Some(n) = m.node(c.graph, c.node) else { continue };
        return Some(
            Diagnostic::error(format!("`{}` ({}) is the first node that computes no finite number", n.name, n.op))
                .code("GE-E0803")
                .node(n.name.clone(), n.op.clone())
                .subject(format!("output {} element {at}", c.output))
                .found(format!("{} ({count} of {} elements)", values[at], values.len()), "a finite number")
                .note(format!("engine: {}", n.engine))
                .help("`--dump-tensors DIR` writes what every node computed"),
        );
    }
    None
}

/// Fails with the first node, in the graph's order, that computed a NaN or an infinity.
pub fn check(m: &CompiledModel, captured: &[Captured]) -> Result<()> {
    if let Some(d) = first_not_finite(m, captured) {
        return Err(d.of(ErrorKind::FAILED));
    }
    if captured.is_empty() {
        return Err(Error::failed("the model has no node that computes anything"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_files_stay_in_the_folder() {
        assert_eq!(super::file_name("/a/b:0", 1), "_a_b_0_1.npy");
        assert_eq!(super::file_name("../x", 0), "_._x_0.npy");
    }
}
