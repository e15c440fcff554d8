//! The manifest: TOML in the section `.ge.plugin`, readable without running any code of the
//! library.
use ge_plugin_api::abi::root::{API_VERSION, MANIFEST_SECTION};
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::{Diagnostic, Result};
use semver::Version;
use serde::Deserialize;
use std::path::Path;

/// The interface through which a library is entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Abi {
    /// `ge-plugin-api`, for plugins in Rust.
    #[default]
    Rust,
    /// `ge_plugin.h`, for plugins in C.
    C,
}

/// What a plugin says of itself. Unknown keys, such as those of a newer interface, are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// Kinds: `engine`, `ops`, `frontend`, `pass`, `device`.
    pub kinds: Vec<String>,
    /// Names of the engines, front ends and devices that it provides.
    pub provides: Vec<String>,
    /// Version of the plugin interface that it was built with.
    pub api: Version,
    /// Panic strategy: `unwind` or `abort`.
    pub panic: String,
    /// Target machine (`x86_64`).
    pub target: String,
    /// The interface of the library; C plugins have `abi = "c"` in the manifest.
    pub abi: Abi,
}

#[derive(Deserialize)]
struct Raw {
    name: String,
    version: String,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    provides: Vec<String>,
    api: String,
    panic: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    abi: String,
}

/// Maximum size of a manifest in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Whether a text is a valid plugin name: 1 to 64 letters, digits, `-` and `_`.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl Manifest {
    /// Parses the contents of the section.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let bad = |what: String| {
            Diagnostic::error(format!("the manifest in `{}` is damaged: {what}", path.display()))
                .help(format!("build the plugin again (`ge_plugin!` writes the section {MANIFEST_SECTION})"))
                .raise(ge_codes::BAD_MANIFEST)
        };
        if bytes.len() > MAX_BYTES {
            return Err(bad(format!("{} bytes, at most {MAX_BYTES} are read", bytes.len())));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not text".into()))?;
        // The section may be padded with zero bytes.
        let raw: Raw = toml::from_str(text.trim_end_matches('\0')).map_err(|e| bad(e.message().to_owned()))?;
        if !is_name(&raw.name) {
            return Err(bad(format!("`{}` is no name", raw.name.escape_debug())));
        }
        let version = |what: &str, v: &str| {
            Version::parse(v).map_err(|e| bad(format!("{what} `{}` is no version ({e})", v.escape_debug())))
        };
        for kind in &raw.kinds {
            if !["engine", "ops", "frontend", "pass", "device"].contains(&kind.as_str()) {
                return Err(bad(format!("`{}` is no kind of plugin", kind.escape_debug())));
            }
        }
        for (i, p) in raw.provides.iter().enumerate() {
            if p.is_empty() || raw.provides[..i].contains(p) {
                return Err(bad(format!(
                    "it provides `{}` {}",
                    p.escape_debug(),
                    if p.is_empty() { "without a name" } else { "twice" }
                )));
            }
        }
        let abi = match raw.abi.as_str() {
            "" | "rust" => Abi::Rust,
            "c" => Abi::C,
            other => return Err(bad(format!("`{}` is no abi: there are rust and c", other.escape_debug()))),
        };
        Ok(Manifest {
            abi,
            version: version("version", &raw.version)?,
            api: version("api", &raw.api)?,
            name: raw.name,
            kinds: raw.kinds,
            provides: raw.provides,
            panic: raw.panic,
            target: raw.target,
        })
    }

    /// Refuses what can be refused before the library is opened: another major version of the
    /// interface, or panics that abort.
    pub fn gate(&self, path: &Path) -> Result<()> {
        let (host, what) = match self.abi {
            Abi::Rust => (host_api(), "ge-plugin-api"),
            Abi::C => (crate::cdoor::abi::version(), "ge_plugin.h"),
        };
        let refuse = |d: Diagnostic| Err(d.of(ErrorKind::PLUGIN));
        if self.api.major != host.major {
            let side =
                if self.api.major > host.major { "a newer ge".to_owned() } else { format!("this version of {what}") };
            return refuse(
                ge_codes::API_VERSION
                    .say(format!(
                        "plugin `{}` ({}) is made for interface {}, this ge has {host}",
                        self.name,
                        path.display(),
                        self.api
                    ))
                    .found(self.api.to_string(), format!("{}.x", host.major))
                    .help(format!("use {side}, or build the plugin with {what} {}", host.major)),
            );
        }
        match self.panic.as_str() {
            "unwind" => Ok(()),
            "abort" => refuse(
                ge_codes::PANIC_ABORT
                    .say(format!(
                        "plugin `{}` ({}) is built with panic = \"abort\": a panic in it would end ge",
                        self.name,
                        path.display()
                    ))
                    .help("build it with panic = \"unwind\" in its Cargo profile"),
            ),
            other => refuse(ge_codes::BAD_MANIFEST.say(format!(
                "plugin `{}` ({}) names the panic strategy `{}`",
                self.name,
                path.display(),
                other.escape_debug()
            ))),
        }
    }
}

/// Version of the plugin interface of this host.
pub fn host_api() -> Version {
    Version::parse(API_VERSION).unwrap_or(Version::new(1, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    const GOOD: &str = "name = \"acme\"\nversion = \"0.3.1\"\nkinds = [\"engine\", ]\nprovides = [\"A\", ]\npanic = \"unwind\"\napi = \"1.0.0\"\ntarget = \"x86_64\"\n";

    fn parse(s: &str) -> Result<Manifest> {
        Manifest::parse(Path::new("lib.so"), s.as_bytes())
    }
    #[test]
    fn reads_what_the_macro_writes() {
        let m = parse(&format!("{GOOD}\0\0\0")).unwrap();
        assert_eq!((m.name.as_str(), m.version.to_string().as_str()), ("acme", "0.3.1"));
        assert_eq!(m.provides, ["A"]);
        assert!(m.gate(Path::new("lib.so")).is_ok());
    }
    #[test]
    fn refuses_what_is_damaged_in_one_line() {
        for (from, to) in [
            ("acme", "a/b"),
            ("0.3.1", "x"),
            ("engine", "motor"),
            ("\"A\", ", "\"A\", \"A\", "),
            ("version", "vorsion"),
        ] {
            let e = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(e.message().contains("lib.so") && !e.message().contains('\n'), "{e}");
        }
        assert!(Manifest::parse(Path::new("x"), &[0xff, 0xfe]).is_err());
    }
    #[test]
    fn other_majors_and_abort_are_gated() {
        for (from, to, code) in
            [("1.0.0", "2.0.0", "GE-E0509"), ("1.0.0", "0.9.0", "GE-E0509"), ("unwind", "abort", "GE-E0510")]
        {
            let e = parse(&GOOD.replace(from, to)).unwrap().gate(Path::new("lib.so")).unwrap_err();
            assert_eq!(e.diagnostics[0].code.as_str(), code);
        }
        assert!(parse(&GOOD.replace("1.0.0", "1.7.0")).unwrap().gate(Path::new("x")).is_ok());
    }
}
