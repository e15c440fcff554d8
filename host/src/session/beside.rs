//! Files that a model refers to; they must lie in the model's own folder.
use crate::{Diagnostic, Result};
use ge_plugin_api::frontend::RelativeFiles;
use ge_plugin_api::types::Blob;
use std::path::{Component, Path, PathBuf};

/// Maps a file and returns its bytes without copying.
pub fn map(path: &Path) -> Result<Blob> {
    let shown = path.display().to_string();
    ge_om::map_file(path).map(Blob::from_owner).map_err(|e| {
        Diagnostic::error(format!("cannot read `{shown}`: {e}"))
            .atc("E13003")
            .help("check the path")
            .raise(ge_codes::UNREADABLE)
    })
}

/// The folder beside a model.
pub(super) struct Beside {
    folder: PathBuf,
}

impl Beside {
    /// The folder of the model at `path`.
    pub(super) fn of(path: &Path) -> Beside {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Beside { folder: folder.to_path_buf() }
    }
}

/// A path relative to a folder, without `.` and `..`; `None` if it leaves the folder.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for c in path.components() {
        match c {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => out.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

impl RelativeFiles for Beside {
    fn open_relative(&self, path: &str) -> Result<Blob> {
        let refuse = |why: &str| {
            Diagnostic::error(format!("the model names the file `{path}`, which {why}"))
                .help("external data must lie in the model's own folder")
                .raise(ge_codes::DATA_OUTSIDE)
        };
        let inside = inside(Path::new(path)).ok_or_else(|| refuse("leaves the model's folder"))?;
        let full = self.folder.join(inside);
        // A symbolic link inside the folder may still point outside of it.
        let real = full.canonicalize().map_err(|e| {
            Diagnostic::error(format!("the model names the file `{path}`, which cannot be read: {e}"))
                .at(full.display().to_string(), 0, 0)
                .help("put the file beside the model")
                .raise(ge_codes::DATA_MISSING)
        })?;
        let home = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        if !real.starts_with(&home) {
            return Err(refuse("leads out of the model's folder"));
        }
        map(&real)
    }
}

impl ge_ir::text::SideFiles for Beside {
    fn open(&self, path: &str) -> Result<Blob> {
        self.open_relative(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_go_up_as_far_as_it_went_down() {
        let of = |p: &str| inside(Path::new(p)).map(|p| p.display().to_string());
        assert_eq!(of("sub/../d.bin").as_deref(), Some("d.bin"));
        assert_eq!(of("./a/b/../../c/d.bin").as_deref(), Some("c/d.bin"));
        for out in ["../d.bin", "a/../../d.bin", "/d.bin"] {
            assert_eq!(of(out), None, "{out}");
        }
    }
}
