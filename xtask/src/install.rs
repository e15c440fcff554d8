//! `cargo xtask install --prefix DIR`: `bin/ge`, `lib/ge/libge_*.so`, `etc/ge/plugins.toml`.
use crate::process::{Result, cargo, root, target};
use std::path::Path;

pub(crate) fn run(prefix: &Path) -> Result<()> {
    cargo(&["build", "--release", "--workspace"])?;
    let built = target().join("release");
    let copy = |from: &Path, to: &Path| -> Result<()> {
        if let Some(dir) = to.parent() {
            std::fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
        }
        // A file in use must not be written over: a new one takes its name.
        let fresh = to.with_extension("new");
        std::fs::copy(from, &fresh).map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()))?;
        std::fs::rename(&fresh, to).map_err(|e| format!("cannot put {} in place: {e}", to.display()))
    };
    copy(&built.join("ge"), &prefix.join("bin/ge"))?;
    let mut libraries: Vec<_> = std::fs::read_dir(&built)
        .map_err(|e| format!("cannot read {}: {e}", built.display()))?
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("libge_") && n.ends_with(".so"))
        })
        .collect();
    libraries.sort();
    for l in &libraries {
        let name = l.file_name().unwrap_or_default();
        copy(l, &prefix.join("lib/ge").join(name))?;
    }
    copy(&root().join("plugins.toml"), &prefix.join("etc/ge/plugins.toml"))?;
    eprintln!("installed ge and {} libraries to {}", libraries.len(), prefix.display());
    Ok(())
}
