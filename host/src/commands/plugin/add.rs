//! `ge plugin add LIB`: adds the library's entry, with its digest, to a plugins.toml, or updates
//! the existing entry.
use crate::commands::flags::Global;
use crate::commands::talk::{print_json, say};
use crate::files::write_atomic;
use crate::{Diagnostic, Result};
use clap::Args;
use ge_plugin::config::{self, Config};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub struct AddArgs {
    /// The library (libge_NAME.so)
    library: PathBuf,
}

/// Adds the entry to the configuration named by `--plugins` or `$GE_PLUGINS`, else to
/// `./plugins.toml`. If that file does not exist, it starts as a copy of the configuration in use.
pub fn run(global: &Global, a: &AddArgs) -> Result<u8> {
    let manifest = ge_plugin::set::look(&a.library)?;
    let library = std::fs::canonicalize(&a.library).unwrap_or_else(|_| a.library.clone());
    let digest = ge_plugin::digest(&library).map_err(|e| {
        Diagnostic::error(format!("cannot read `{}`: {e}", library.display())).raise(ge_codes::UNREADABLE)
    })?;
    let named = std::env::var_os("GE_PLUGINS").filter(|v| !v.is_empty()).map(PathBuf::from);
    let file = global.plugins.clone().or(named).unwrap_or_else(|| PathBuf::from("plugins.toml"));
    // A trusted file stays trusted; an existing untrusted file must not become trusted by one more
    // entry.
    let trusted = !file.exists() || ge_plugin::trust::is_trusted(&file);
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|e| {
            Diagnostic::error(format!("cannot read `{}`: {e}", path.display())).raise(ge_codes::UNREADABLE)
        })
    };
    let (old, made) = match file.exists() {
        true => (read(&file)?, false),
        false => match config::find(None) {
            Ok(used) => (read(&used)?, true),
            Err(_) => ("schema = 1\n".to_owned(), true),
        },
    };
    let text = entered(&old, &manifest.name, &library.display().to_string(), &digest);
    Config::parse(&file, &text)?;
    write_atomic(&file, text.as_bytes())?;
    if trusted {
        ge_plugin::trust::trust(&file)?;
    }
    if global.json {
        print_json(
            &serde_json::json!({"schema": 1, "config": file.display().to_string(), "name": manifest.name, "version": manifest.version.to_string(), "sha256": digest, "made": made, "trusted": trusted}),
        )?;
    } else {
        let (shown, name, version) = (file.display(), &manifest.name, &manifest.version);
        let how = if made { ", which was made of the configuration in use" } else { "" };
        say(global, &format!("plugin `{name}` {version} stands in `{shown}`{how}, with its digest"));
        if !trusted {
            say(
                global,
                &format!("`{shown}` is not trusted where it lies in the working folder: `ge plugin trust {shown}`"),
            );
        }
    }
    Ok(0)
}

/// The text with the entry: updates path and digest of an existing one, or appends a new one.
fn entered(old: &str, name: &str, library: &str, digest: &str) -> String {
    let text = |s: &str| serde_json::Value::from(s).to_string();
    let (path, sha256) = (format!("path = {}", text(library)), format!("sha256 = {}", text(digest)));
    let lines: Vec<&str> = old.lines().collect();
    let key = |line: &str| line.split('=').next().unwrap_or("").trim().to_owned();
    let is_head = |line: &&str| line.trim_start().starts_with('[');
    let mut out: Vec<String> = Vec::new();
    let mut found = false;
    let mut i = 0;
    while i < lines.len() {
        if lines[i].trim() != "[[plugin]]" {
            out.push(lines[i].to_owned());
            i += 1;
            continue;
        }
        let end = lines[i + 1..].iter().position(is_head).map_or(lines.len(), |n| i + 1 + n);
        let entry = &lines[i..end];
        let named = |l: &&str| {
            key(l) == "name" && l.split('=').nth(1).is_some_and(|v| v.trim().trim_matches(['"', '\'']) == name)
        };
        if entry.iter().any(named) {
            found = true;
            for l in entry.iter().filter(|l| !["path", "sha256"].contains(&key(l).as_str())) {
                out.push((*l).to_owned());
                if named(l) {
                    out.extend([path.clone(), sha256.clone()]);
                }
            }
        } else {
            out.extend(entry.iter().map(|l| (*l).to_owned()));
        }
        i = end;
    }
    if !found {
        if out.last().is_some_and(|l| !l.trim().is_empty()) {
            out.push(String::new());
        }
        out.extend(["[[plugin]]".to_owned(), format!("name = {}", text(name)), path, sha256]);
    }
    out.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::entered;

    #[test]
    fn a_new_entry_stands_last_and_an_old_one_is_brought_up_to_date() {
        let first = entered("schema = 1\n\n[[plugin]]\nname = \"ops\"\n", "acme", "/a/libge_acme.so", "00ff");
        let want = "schema = 1\n\n[[plugin]]\nname = \"ops\"\n\n[[plugin]]\nname = \"acme\"\npath = \"/a/libge_acme.so\"\nsha256 = \"00ff\"\n";
        assert_eq!(first, want);
        let more = first + "optional = true\n[plugin.options]\npath = \"mine\"\n";
        let second = entered(&more, "acme", "/b/libge_acme.so", "11ee");
        assert_eq!(second, more.replace("/a/", "/b/").replace("00ff", "11ee"));
        assert_eq!(entered("", "acme", "x", "0").lines().count(), 4);
    }
}
