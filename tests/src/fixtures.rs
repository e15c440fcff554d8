//! Fixture plugins and hosts. The sources in `tests/bad_plugins` and `tests/fixtures` become
//! members of a workspace in the target folder, which is built once with one target folder. Changed
//! sources are built again; unchanged ones are up to date.
//!
//! Other versions of the interface are copies of `plugin-api` (and of the loader) with a few lines
//! changed. Each copy has its own package version, so that cargo tells them apart.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// The folder of the running test's build (`target/debug`).
pub fn profile_folder() -> PathBuf {
    let mut p = std::env::current_exe().unwrap_or_default();
    p.pop();
    if p.ends_with("deps") {
        p.pop();
    }
    p
}

/// Folder of the fixture workspace.
fn work() -> PathBuf {
    profile_folder().join("../fixtures")
}

fn write(path: &Path, text: &str) {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the target folder can be written");
    std::fs::write(path, text).expect("the target folder can be written");
}

/// A member of the fixture workspace.
struct Member {
    name: &'static str,
    /// Source file, relative to `tests/`.
    source: &'static str,
    /// Kind of the target: `lib` or `bin`.
    kind: &'static str,
    /// Feature that is on by default; empty: none.
    feature: &'static str,
    /// Version of the copied interface to build against; empty: this repository's `plugin-api`.
    api: &'static str,
    /// Version of the copied loader of a host; `this`: this repository's loader; empty: no loader.
    loader: &'static str,
}

const MEMBERS: &[Member] = &[
    Member { name: "ge-bad", source: "bad_plugins/lib.rs", kind: "lib", feature: "", api: "", loader: "" },
    Member { name: "v08", source: "fixtures/versions/plugin.rs", kind: "lib", feature: "", api: "1.0.0", loader: "" },
    Member { name: "v09", source: "fixtures/versions/plugin.rs", kind: "lib", feature: "", api: "1.1.0", loader: "" },
    Member { name: "v10", source: "fixtures/versions/plugin.rs", kind: "lib", feature: "", api: "", loader: "" },
    Member {
        name: "v11",
        source: "fixtures/versions/plugin.rs",
        kind: "lib",
        feature: "v11",
        api: "1.3.0",
        loader: "",
    },
    Member { name: "v20", source: "fixtures/versions/plugin.rs", kind: "lib", feature: "", api: "2.0.0", loader: "" },
    Member { name: "v12", source: "fixtures/versions/plugin.rs", kind: "lib", feature: "", api: "1.4.0", loader: "" },
    Member { name: "v13", source: "fixtures/versions/plugin.rs", kind: "lib", feature: "", api: "1.5.0", loader: "" },
    Member {
        name: "host08",
        source: "fixtures/versions/host.rs",
        kind: "bin",
        feature: "",
        api: "1.0.0",
        loader: "1.0.0",
    },
    Member {
        name: "host09",
        source: "fixtures/versions/host.rs",
        kind: "bin",
        feature: "",
        api: "1.1.0",
        loader: "1.1.0",
    },
    Member { name: "host10", source: "fixtures/versions/host.rs", kind: "bin", feature: "", api: "", loader: "this" },
    Member {
        name: "host11",
        source: "fixtures/versions/host.rs",
        kind: "bin",
        feature: "v11",
        api: "1.3.0",
        loader: "1.3.0",
    },
];

impl Member {
    fn write(&self) {
        let (root, work) = (root(), work());
        let api = if self.api.is_empty() { root.join("plugin-api") } else { work.join("src/api").join(self.api) };
        let loader = match self.loader {
            "" => String::new(),
            "this" => format!("ge-plugin = {{ path = \"{}\" }}\n", root.join("host/plugin").display()),
            v => format!("ge-plugin = {{ path = \"{}\" }}\n", work.join("src/loader").join(v).display()),
        };
        let target = match self.kind {
            "lib" => "[lib]\ncrate-type = [\"cdylib\"]\n".to_owned(),
            _ => format!("[[bin]]\nname = \"{}\"\n", self.name),
        };
        let default = if self.feature.is_empty() { String::new() } else { format!("\"{}\"", self.feature) };
        let text = format!(
            "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n{target}path = \"{}\"\n\n[features]\ndefault = [{default}]\nv11 = []\n\n[dependencies]\nge-plugin-api = {{ path = \"{}\" }}\n{loader}",
            self.name,
            root.join("tests").join(self.source).display(),
            api.display()
        );
        write(&work.join(self.name).join("Cargo.toml"), &text);
    }
}

/// A change to a copied source: the file, the old text, and the text that replaces it.
type Change = (&'static str, &'static str, &'static str);

/// Removes what 1.2 appended; the result is interface 1.1.
const SHORN: &[Change] = &[
    (
        "engine.rs",
        "    raw schedules(node: &Node<'_> => RawNodeRef) -> Result<RVec<RString>> => RResult<RVec<RString>, Error> =\n        |e| Ok(e.schedules(&node).into_iter().map(RString::from).collect());\n",
        "",
    ),
    (
        "engine.rs",
        "self.table().schedules().map_or(Ok(RVec::new()), |f| f(self.ptr(), raw).into_result())",
        "let _ = raw;\n            Ok::<RVec<RString>, Error>(RVec::new())",
    ),
    (
        "engine.rs",
        "    raw operations(node: &Node<'_> => RawNodeRef) -> Result<u64> => RResult<u64, Error> = |e| Ok(e.operations(&node));\n",
        "",
    ),
    (
        "engine.rs",
        "self.table().operations().map_or(Ok(0), |f| f(self.ptr(), raw).into_result())",
        "let _ = raw;\n            Ok(0)",
    ),
    (
        "engine.rs",
        "    raw supports_at(node: &Node<'_> => RawNodeRef) -> Result<Support> => RResult<Support, Error> =\n        |e| Ok(e.supports(&node));\n",
        "",
    ),
    (
        "view/mod.rs",
        concat!("    pub of_op: un", "safe extern \"C\" fn(*const (), Key, *mut RawSlice<NodeId>) -> bool,\n",),
        "",
    ),
    (
        "view/mod.rs",
        concat!("let known = un", "safe { (self.raw.table.of_op()?)(self.raw.context, *op, &mut out) };"),
        "let known = matches!((op, &mut out), (_, _) if false);",
    ),
    ("view/host.rs", "        of_op: of_op::<S>,\n", ""),
    (
        "view/mod.rs",
        concat!("    pub op_types: un", "safe extern \"C\" fn(*const (), *mut RawSlice<Key>) -> bool,\n",),
        "",
    ),
    (
        "view/mod.rs",
        concat!("let known = un", "safe { (self.raw.table.op_types()?)(self.raw.context, &mut out) };"),
        "let known = matches!(&mut out, _ if false);",
    ),
    ("view/host.rs", "        op_types: op_types::<S>,\n", ""),
    ("engine.rs", "match self.table().supports_at() {", "match None::<()> {"),
    ("engine.rs", "Some(f) => f(self.ptr(), raw).into_result(),", "Some(()) => Ok(Support::Yes),"),
    (
        "services.rs",
        concat!("    pub infer: un", "safe extern \"C\" fn(RawNodeRef) -> ROption<RVec<TensorDesc>>,\n"),
        "",
    ),
    (
        "services.rs",
        concat!("un", "safe { (self.0.infer()?)(RawNodeRef::of(node)) }.into_option().map(Vec::from)"),
        "let _ = node;\n        None",
    ),
    ("testing/host.rs", "    mappings,\n    infer,\n});\n", "    mappings,\n});\n"),
];
/// Removes what 1.1 appended; applied after [`SHORN`], the result is interface 1.0.
const FIRST: &[Change] = &[
    (
        "ops.rs",
        "    raw ranges(index: usize => usize, node: &Node<'_> => RawNodeRef, inputs: &[Range] => RawSlice<Range>)\n        -> Result<ROption<RVec<Range>>> => RResult<ROption<RVec<Range>>, Error> =\n        |set| Ok(set.ranges(index, &RangeCtx { node, inputs }).map(RVec::from).into());\n",
        "",
    ),
    ("ops.rs", "let Some(call) = self.table().ranges() else { return Ok(None) };", "let _ = (index, node, inputs);"),
    (
        "ops.rs",
        concat!(
            "        let said = un",
            "safe { call(self.ptr(), index, RawNodeRef::of(node), RawSlice::of(inputs)) }.into_result()?;\n",
            "        Ok(said.into_option().map(Vec::from))\n",
        ),
        "        Ok(None)\n",
    ),
];
/// What 1.3 appends: a field of the root module, a service, and a method with a default
/// implementation for engines and for device models.
const APPENDED: &[Change] = &[
    (
        "abi/root.rs",
        "    pub devices: extern \"C\" fn() -> RResult<RVec<DeviceObject>, Error>,\n",
        "    pub devices: extern \"C\" fn() -> RResult<RVec<DeviceObject>, Error>,\n    /// Appended.\n    pub greeting: extern \"C\" fn() -> u32,\n",
    ),
    ("author/macros.rs", "devices: __devices,", "devices: __devices, greeting: __greeting,"),
    (
        "author/macros.rs",
        "            static PLUGIN:",
        "            extern \"C\" fn __greeting() -> u32 { 42 }\n            static PLUGIN:",
    ),
    (
        "services.rs",
        "fn(RawNodeRef) -> ROption<RVec<TensorDesc>>,\n}\n",
        "fn(RawNodeRef) -> ROption<RVec<TensorDesc>>,\n    /// Appended.\n    pub now: extern \"C\" fn() -> u64,\n}\n/// Appended.\npub fn now() -> Option<u64> { host_or_none()?.0.now().map(|f| f()) }\n",
    ),
    ("testing/host.rs", "    infer,\n});\n", "    infer,\n    now,\n});\nextern \"C\" fn now() -> u64 { 0 }\n"),
    (
        "engine.rs",
        "        |e| Ok(e.schedules(&node).into_iter().map(RString::from).collect());\n",
        "        |e| Ok(e.schedules(&node).into_iter().map(RString::from).collect());\n    /// Appended.\n    raw colour() -> u64 => u64 = |e| u64::from(e.colour());\n",
    ),
    (
        "engine.rs",
        "impl EngineObject {\n",
        "impl EngineObject {\n    /// Appended.\n    pub fn colour(&self) -> u32 { self.table().colour().map_or(7, |f| unsafe { f(self.ptr()) } as u32) }\n",
    ),
    (
        "engine.rs",
        "    fn op_types(&self) -> Vec<String>;\n",
        "    fn op_types(&self) -> Vec<String>;\n    /// Appended.\n    fn colour(&self) -> u32 { 7 }\n",
    ),
    (
        "device.rs",
        "= |m| m.execute(bases, profile);\n",
        "= |m| m.execute(bases, profile);\n    /// Appended.\n    raw answer() -> u64 => u64 = |m| u64::from(m.answer());\n",
    ),
    (
        "device.rs",
        "impl<'a> ModelSink<'a> {\n",
        "impl<'a> ModelSink<'a> {\n    /// Appended.\n    pub fn answer(&self) -> Option<u32> { self.model.table.answer().map(|f| unsafe { f(self.model.ptr) } as u32) }\n",
    ),
    (
        "device.rs",
        "    fn seal(&self) -> Result<()>;\n",
        "    fn seal(&self) -> Result<()>;\n    /// Appended.\n    fn answer(&self) -> u32 { 5 }\n",
    ),
];
/// A broken minor version (1.4): a plain struct has a new field.
const GROWN: &[Change] =
    &[("device.rs", "pub struct TaskProfile {\n", "pub struct TaskProfile {\n    /// Broken.\n    pub extra: u64,\n")];
/// A broken minor version (1.5): a function is inserted before the end of a table's prefix.
const INSERTED: &[Change] = &[(
    "pass.rs",
    "    [last_prefix_field]\n    call run(graph",
    "    raw extra() -> u64 => u64 = |_pass| 0;\n    [last_prefix_field]\n    call run(graph",
)];
/// Changes to the loader of a host before 1.2: it has none of the services that 1.2 appended.
const SHORN_LOADER: &[Change] = &[("services.rs", "    mappings,\n    infer,\n});\n", "    mappings,\n});\n")];
/// Changes to the loader of a 1.3 host: the appended service, and a call of the appended method.
const LOADER: &[Change] = &[
    ("services.rs", "    infer,\n});\n", "    infer,\n    now,\n});\nextern \"C\" fn now() -> u64 { 1234 }\n"),
    (
        "handle.rs",
        "impl EngineHandle {\n",
        "impl EngineHandle {\n    /// Appended.\n    pub fn colour(&self) -> u32 { self.object.colour() }\n",
    ),
];

/// The lines of a source that are no comments: changes are to code, whatever is written about it.
fn code(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//")).collect()
}

/// Writes a copy of a crate's sources with `changes` applied.
fn copy(from: &Path, to: &Path, relative: &Path, changes: &[Change]) {
    let mut entries: Vec<_> =
        std::fs::read_dir(from.join(relative)).expect("sources are there").filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for e in entries {
        let path = relative.join(e.file_name());
        if e.path().is_dir() {
            copy(from, to, &path, changes);
            continue;
        }
        let mut text = std::fs::read_to_string(e.path()).expect("sources are text");
        let mut changes = changes.iter().filter(|(file, ..)| Path::new(file) == path).peekable();
        if changes.peek().is_some() {
            text = code(&text);
        }
        for (_, old, new) in changes {
            assert_eq!(text.matches(old).count(), 1, "{} has changed: {old}", path.display());
            text = text.replace(old, new);
        }
        write(&to.join(path), &text);
    }
}

/// The line of a dependency, with its version, from this repository's `Cargo.toml`.
fn dependency(name: &str) -> String {
    let table = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml is there");
    let line = table.lines().find(|l| l.starts_with(&format!("{name} = "))).expect("the dependency is in the table");
    format!("{line}\n")
}

fn write_versions() {
    let (root, work) = (root(), work());
    let crate_text = |name: &str, version: &str, dependencies: &str| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n{dependencies}\n[workspace]\n"
        )
    };
    let of = |names: &[&str]| names.iter().map(|n| dependency(n)).collect::<String>();
    let first = [SHORN, FIRST].concat();
    for (version, changes) in [
        ("1.0.0", first.as_slice()),
        ("1.1.0", SHORN),
        ("1.3.0", APPENDED),
        ("2.0.0", &[]),
        ("1.4.0", GROWN),
        ("1.5.0", INSERTED),
    ] {
        let to = work.join("src/api").join(version);
        copy(&root.join("plugin-api/src"), &to.join("src"), Path::new(""), changes);
        write(&to.join("Cargo.toml"), &crate_text("ge-plugin-api", version, &of(&["abi_stable", "inventory", "half"])));
    }
    for (version, changes) in [("1.0.0", SHORN_LOADER), ("1.1.0", SHORN_LOADER), ("1.3.0", LOADER)] {
        let api = format!("ge-plugin-api = {{ path = \"{}\" }}\n", work.join("src/api").join(version).display());
        let codes = work.join("src/codes").join(version);
        copy(&root.join("host/codes/src"), &codes.join("src"), Path::new(""), &[]);
        // Cargo tells packages apart by name and version.
        let own = format!("0.9{}", &version[1..3]);
        write(&codes.join("Cargo.toml"), &crate_text("ge-codes", &own, &api));
        let to = work.join("src/loader").join(version);
        copy(&root.join("host/plugin/src"), &to.join("src"), Path::new(""), changes);
        let mut dependencies = of(&[
            "libloading",
            "object",
            "semver",
            "serde",
            "toml",
            "thiserror",
            "rayon",
            "sha2",
            "strsim",
            "memmap2",
            "minisign-verify",
            "libc",
        ]);
        dependencies.push_str(&api);
        dependencies.push_str(&format!("ge-codes = {{ path = \"{}\" }}\n", codes.display()));
        write(&to.join("Cargo.toml"), &crate_text("ge-plugin", &own, &dependencies));
    }
}

/// Writes the whole workspace, builds `packages` of it, and returns the folder of the build
/// results.
fn build(packages: &[&str]) -> PathBuf {
    static WRITTEN: OnceLock<()> = OnceLock::new();
    let work = work();
    WRITTEN.get_or_init(|| {
        write_versions();
        let names: Vec<String> = MEMBERS.iter().map(|m| format!("\"{}\"", m.name)).collect();
        MEMBERS.iter().for_each(Member::write);
        write(
            &work.join("Cargo.toml"),
            &format!(
                "[workspace]\nresolver = \"3\"\nmembers = [{}]\nexclude = [\"src\"]\n[profile.dev]\ndebug = false\n",
                names.join(", ")
            ),
        );
        // Use the dependency versions that the repository is built with.
        if !work.join("Cargo.lock").exists() {
            std::fs::copy(root().join("Cargo.lock"), work.join("Cargo.lock")).expect("Cargo.lock is readable");
        }
    });
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--manifest-path"]).arg(work.join("Cargo.toml"));
    for p in packages {
        cargo.args(["--package", p]);
    }
    cargo.arg("--target-dir").arg(work.join("target")).env_remove("CARGO_TARGET_DIR").env("RUSTFLAGS", "");
    let out = cargo.output().expect("cargo can be started");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    work.join("target/debug")
}

/// Library of the plugin in `tests/bad_plugins`, built against the current interface.
pub fn bad_plugin() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build(&["ge-bad"]).join("libge_bad.so"))
}

/// The folder with `libv08.so` … `libv20.so` and the hosts `host08` to `host11`.
pub fn versions() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        build(&["v08", "v09", "v10", "v11", "v12", "v13", "v20", "host08", "host09", "host10", "host11"])
    })
}
