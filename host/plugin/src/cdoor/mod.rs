//! The entry point for plugins in C: converts a table of functions (`plugin-c/ge_plugin.h`) into
//! the same objects that Rust plugins give. Everything after the loader, including the blame in
//! errors, is therefore the same for both.
pub(crate) mod abi;
mod engine;
mod frontend;
mod host;
mod options;
mod others;

use crate::collect::Given;
use engine::CEngine;
use frontend::CFrontend;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::engine::EngineObject;
use ge_plugin_api::frontend::{FrontendObject, MappingObject};
use ge_plugin_api::ops::OpSetObject;
use ge_plugin_api::pass::PassObject;
use ge_plugin_api::services::{OptionSpec, OptionValue};
use ge_plugin_api::{Error, Result};
use others::{CMapping, COps, CPass};

/// The function that a C plugin exports.
pub(crate) type Entry = unsafe extern "C" fn(*const std::ffi::c_void) -> *const std::ffi::c_void;
/// Name of its symbol.
pub(crate) const SYMBOL: &[u8] = b"ge_c_plugin\0";

/// What a C plugin has declared.
pub(crate) struct Table {
    name: String,
    plugin: abi::Plugin,
    options: Vec<OptionSpec>,
}
// SAFETY: the tables of a plugin live forever and do not change (contract of the header).
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

fn lies(name: &str, why: String) -> Error {
    Diagnostic::error(format!("plugin `{name}` gives what ge_plugin.h does not have: {why}"))
        .help("set `size` of each structure to its sizeof, and every function that the header does not call optional")
        .raise(ge_codes::LIES)
}

impl Table {
    /// Calls the single function of a C plugin.
    ///
    /// # Errors
    /// Returns `GE-E0516` if the plugin says that it cannot start, `GE-E0509` if its tables have
    /// another major version, `GE-E0517` if a table is too short or an option is invalid.
    ///
    /// # Safety
    /// `entry` must be the function `ge_c_plugin` of a library that was built with the header, and
    /// must not have been called before.
    pub(crate) unsafe fn of(name: &str, entry: Entry) -> Result<Table> {
        // SAFETY: by contract; the host's table lives forever.
        let table = unsafe { entry(&raw const host::HOST as *const std::ffi::c_void) } as *const abi::Plugin;
        if table.is_null() {
            let d = Diagnostic::error(format!("plugin `{name}` cannot start: its function ge_c_plugin gave NULL"));
            return Err(d.help("look at what it logged with `-v`; it may need a newer ge").raise(ge_codes::START));
        }
        // SAFETY: by contract.
        let plugin = unsafe { abi::read(table) }.map_err(|why| lies(name, why))?;
        if plugin.major != abi::MAJOR {
            let (found, own) = (plugin.major, abi::MAJOR);
            return Err(Diagnostic::error(format!(
                "plugin `{name}` is made for ge_plugin.h {found}, this ge has {own}"
            ))
            .found(found.to_string(), format!("{own}.x"))
            .help("build it with the ge_plugin.h of this version of ge")
            .raise(ge_codes::API_VERSION));
        }
        // SAFETY: by contract.
        let options = unsafe { options::schema(plugin.options, plugin.n_options) }.map_err(|why| lies(name, why))?;
        Ok(Table { name: name.to_owned(), plugin, options })
    }
    /// The schema of its options.
    pub(crate) fn options(&self) -> Vec<OptionSpec> {
        self.options.clone()
    }
    /// Starts the plugin with checked options.
    ///
    /// # Errors
    /// Returns the error of its function `start`.
    pub(crate) fn start(&self, values: &[OptionValue]) -> Result<()> {
        let Some(f) = self.plugin.start else { return Ok(()) };
        let (values, mut failure) = (values.to_vec(), host::Failure::default());
        // SAFETY: the function and its arguments are as the header declares them.
        let code = unsafe { f(host::show(&values), host::lend(&mut failure)) };
        failure.result(code)
    }
    /// Everything that the plugin gives.
    ///
    /// # Errors
    /// Returns `GE-E0517` if a structure is too short, a list is invalid, or a function is missing.
    pub(crate) fn given(&self) -> Result<Given> {
        // SAFETY: the tables are as the header declares them (contract of `of`).
        unsafe { given(&self.plugin) }.map_err(|why| lies(&self.name, why))
    }
}

/// # Safety
/// The lists of the table must be as the header declares them.
unsafe fn given(p: &abi::Plugin) -> std::result::Result<Given, String> {
    let mut out = Given::default();
    // SAFETY: by contract.
    unsafe {
        for e in abi::list(p.engines, p.n_engines, "engines")? {
            out.engines.push(EngineObject::from_box(Box::new(CEngine::new(*e)?)));
        }
        let ops = abi::list(p.ops, p.n_ops, "operators")?;
        if !ops.is_empty() {
            out.ops.push(OpSetObject::from_box(Box::new(COps::new(ops)?)));
        }
        for f in abi::list(p.frontends, p.n_frontends, "front ends")? {
            out.frontends.push(FrontendObject::from_box(Box::new(CFrontend::new(*f)?)));
        }
        for m in abi::list(p.mappings, p.n_mappings, "mappings")? {
            out.mappings.push(MappingObject::from_box(Box::new(CMapping::new(*m)?)));
        }
        for x in abi::list(p.passes, p.n_passes, "passes")? {
            out.passes.push(PassObject::from_box(Box::new(CPass::new(*x)?)));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The sizes and field offsets that `cc` computes from the header equal those of this crate.
    #[test]
    fn the_header_has_these_structures() {
        let all = [
            abi::Launch::layout(),
            abi::Block::layout(),
            abi::Kernel::layout(),
            abi::Engine::layout(),
            abi::Param::layout(),
            abi::Attr::layout(),
            abi::Op::layout(),
            abi::Mapping::layout(),
            abi::Pass::layout(),
            abi::Plugin::layout(),
            abi::Attached::layout(),
            abi::Choice::layout(),
            abi::Frontend::layout(),
            host::layout(),
        ];
        let mut program = "#include \"ge_plugin.h\"\n#include <stdio.h>\nint main(void) {\n".to_owned();
        let mut want = String::new();
        for (name, size, fields) in &all {
            program.push_str(&format!("printf(\"{name} %zu\\n\", sizeof({name}));\n"));
            want.push_str(&format!("{name} {size}\n"));
            for (f, at) in fields {
                let f = f.trim_start_matches("r#").trim_end_matches('_');
                program.push_str(&format!("printf(\"{name}.{f} %zu\\n\", offsetof({name}, {f}));\n"));
                want.push_str(&format!("{name}.{f} {at}\n"));
            }
        }
        for (name, size) in [
            ("ge_text", size_of::<abi::Text>()),
            ("ge_value", size_of::<abi::Value>()),
            ("ge_desc", size_of::<abi::Desc>()),
            ("ge_arg", size_of::<abi::Arg>()),
        ] {
            program.push_str(&format!("printf(\"{name} %zu\\n\", sizeof({name}));\n"));
            want.push_str(&format!("{name} {size}\n"));
        }
        use ge_plugin_api::kernel::Access;
        use ge_plugin_api::ops::{AttrKind, ParamKind, flags};
        use ge_plugin_api::pass::{PassLevel, PassStage};
        use ge_plugin_api::services::OptionKind;
        use ge_plugin_api::types::DType;
        for (name, value) in [
            ("GE_C_MAJOR", u64::from(abi::MAJOR)),
            ("GE_C_MINOR", u64::from(abi::MINOR)),
            ("GE_F32", DType::F32.code().into()),
            ("GE_BF16", DType::BF16.code().into()),
            ("GE_I64", DType::I64.code().into()),
            ("GE_BOOL", DType::BOOL.code().into()),
            ("GE_DYNAMIC", ParamKind::DYNAMIC.code().into()),
            ("GE_ATTR_TEXT", AttrKind::STRING.code().into()),
            ("GE_ATTR_INTS", AttrKind::INTS.code().into()),
            ("GE_OP_STATEFUL", flags::STATEFUL),
            ("GE_OP_ELEMENTWISE", flags::ELEMENTWISE),
            ("GE_OP_COMMUTATIVE", flags::COMMUTATIVE),
            ("GE_AFTER_INFER_SHAPE", PassStage::AFTER_INFER_SHAPE.code().into()),
            ("GE_OPTIMIZE_ORIGINAL_GRAPH", PassStage::OPTIMIZE_ORIGINAL_GRAPH.code().into()),
            ("GE_OPTIMIZE_WHOLE_GRAPH", PassStage::OPTIMIZE_WHOLE_GRAPH.code().into()),
            ("GE_OPTIMIZE_FUSED_GRAPH", PassStage::OPTIMIZE_FUSED_GRAPH.code().into()),
            ("GE_O3", PassLevel::O3.code().into()),
            ("GE_READ_WRITE", Access::READ_WRITE.code().into()),
            ("GE_OPTION_CHOICE", OptionKind::CHOICE.code().into()),
            ("GE_OPTION_TEXT", OptionKind::STRING.code().into()),
            ("GE_OPTION_FLOAT", OptionKind::FLOAT.code().into()),
            ("GE_STREAM_ATTACHED(2)", 3),
        ] {
            program.push_str(&format!("printf(\"{name} %llu\\n\", (unsigned long long){name});\n"));
            want.push_str(&format!("{name} {value}\n"));
        }
        program.push_str("return 0; }\n");
        let dir = std::env::temp_dir().join(format!("ge-header-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, binary) = (dir.join("layout.c"), dir.join("layout"));
        std::fs::write(&source, program).unwrap();
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin-c");
        let built = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", header, "-o"])
            .args([&binary, &source])
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let said = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(said, want);
    }
}
