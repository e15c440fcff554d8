//! `cargo xtask install --prefix DIR`: installs `bin/ge`, `lib/ge/libge_*.so`,
//! `etc/ge/plugins.toml`, the crate for writing plugins in `share/ge/plugin-api`, the headers for
//! plugins in C in `share/ge/include`, and the symbols of each file in a folder `.debug` beside it.
//!
//! Symbols and line tables are three quarters of the build result. Installed files link to their
//! `.debug` files, which backtraces and debuggers follow. Without those files everything works, but
//! backtraces show only addresses.
use crate::process::{Result, cargo, root, run_quietly, target};
use crate::progress::{Steps, say};
use std::path::Path;

pub(crate) fn run(prefix: &Path, release: bool) -> Result<()> {
    let mut steps = Steps::new("install", 2);
    steps.next("build `ge` and its plugins");
    cargo(if release { &["build", "--release", "--workspace"] } else { &["build", "--workspace"] })?;
    steps.next(&format!("install to {}", prefix.display()));
    let built = target().join(if release { "release" } else { "debug" });
    let mut libraries: Vec<_> = std::fs::read_dir(&built)
        .map_err(|e| format!("cannot read {}: {e}", built.display()))?
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("libge_") && n.ends_with(".so"))
        })
        .collect();
    libraries.sort();
    place(&built.join("ge"), &prefix.join("bin"))?;
    for l in &libraries {
        place(l, &prefix.join("lib/ge"))?;
    }
    let (config, etc) = (root().join("plugins.toml"), prefix.join("etc/ge"));
    folder(&etc)?;
    std::fs::copy(&config, etc.join("plugins.toml")).map_err(|e| format!("cannot copy {}: {e}", config.display()))?;
    interface(&prefix.join("share/ge"))?;
    say(&format!("installed ge and {} libraries to {}", libraries.len(), prefix.display()));
    steps.end();
    Ok(())
}

/// Installs the headers for plugins in C, and the crate `ge-plugin-api` as it would be published:
/// it builds without this workspace.
fn interface(share: &Path) -> Result<()> {
    let include = share.join("include");
    folder(&include)?;
    for name in ["ge_plugin.h", "ge_plugin.hpp"] {
        let from = root().join("plugin-c").join(name);
        std::fs::copy(&from, include.join(name)).map_err(|e| format!("cannot copy {}: {e}", from.display()))?;
    }
    cargo(&["package", "--package", "ge-plugin-api", "--no-verify", "--allow-dirty", "--quiet"])?;
    let package = target().join("package");
    let named = |n: &str| n.strip_prefix("ge-plugin-api-").and_then(|v| v.strip_suffix(".crate")).map(str::to_owned);
    let versions =
        std::fs::read_dir(&package).map_err(|e| format!("cannot read {}: {e}", package.display()))?.flatten();
    let newest = versions
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, named(e.file_name().to_str()?)?)))
        .max()
        .ok_or_else(|| format!("cargo left no package in {}", package.display()))?;
    let (to, text) = (share.join("plugin-api"), |p: &Path| p.display().to_string());
    folder(share)?;
    // An older version is removed completely, so that its files do not mix with the new ones.
    if to.exists() {
        std::fs::remove_dir_all(&to).map_err(|e| format!("cannot replace {}: {e}", to.display()))?;
    }
    folder(&to)?;
    let archive = package.join(format!("ge-plugin-api-{}.crate", newest.1));
    run_quietly("tar", &["-xzf", &text(&archive), "--strip-components=1", "-C", &text(&to)])?;
    say(&format!("  share/ge/plugin-api {}", newest.1));
    Ok(())
}

fn folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| format!("cannot make {}: {e}", path.display()))
}

/// Copies a program or library into a folder and its symbols into `.debug` below it, and prints its
/// name and size.
fn place(from: &Path, to: &Path) -> Result<()> {
    let name = from.file_name().and_then(|n| n.to_str()).ok_or_else(|| format!("{} has no name", from.display()))?;
    let symbols = to.join(".debug");
    folder(&symbols)?;
    let debug = symbols.join(format!("{name}.debug"));
    // A file in use must not be overwritten, so a new file replaces it by name.
    let fresh = to.join(format!("{name}.new"));
    let text = |p: &Path| p.display().to_string();
    run_quietly("objcopy", &["--only-keep-debug", &text(from), &text(&debug)])?;
    run_quietly(
        "objcopy",
        &["--strip-all", &format!("--add-gnu-debuglink={}", text(&debug)), &text(from), &text(&fresh)],
    )?;
    let to = to.join(name);
    std::fs::rename(&fresh, &to).map_err(|e| format!("cannot put {} in place: {e}", to.display()))?;
    let size = std::fs::metadata(&to).map_err(|e| format!("cannot read {}: {e}", to.display()))?.len();
    say(&format!("  {name}: {:.1} MB", size as f64 / 1e6));
    Ok(())
}
