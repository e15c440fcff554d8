//! `ge_plugin!` and the `register_*!` macros.

/// Makes a library a plugin. Use it once per library:
/// `ge_plugin! { name: "acme", kinds: ["engine", "ops"], provides: ["AcmeEngine"] }`.
///
/// `provides` names engines, front ends and devices, so that duplicates are found before the
/// library is opened. Optional arguments: `options: fn() -> Vec<OptionSpec>` and
/// `init: fn(&[OptionValue]) -> Result<()>`.
///
/// Expansion: the manifest in the ELF section `.ge.plugin`, the exported header that the loader
/// looks for, the guarded root functions, and the panic hook of this library.
#[macro_export]
macro_rules! ge_plugin {
    (name: $name:literal, kinds: [$($kind:literal),* $(,)?], provides: [$($p:literal),* $(,)?] $(, options: $options:expr)? $(, init: $init:expr)? $(,)?) => {
        #[doc(hidden)]
        mod __ge_plugin {
            use super::*;
            use $crate::abi::{__loader as l, RResult, RVec, WithMetadata, guard};
            use $crate::abi::root::{Plugin, PluginRef};
            const MANIFEST_TEXT: &str = concat!(
                "name = \"", $name, "\"\n",
                "version = \"", env!("CARGO_PKG_VERSION"), "\"\n",
                "kinds = [", $("\"", $kind, "\", ",)* "]\n",
                "provides = [", $("\"", $p, "\", ",)* "]\n",
            );
            const fn manifest<const N: usize>(parts: &[&str]) -> [u8; N] {
                let mut out = [b'\n'; N];
                let (mut at, mut i) = (0, 0);
                while i < parts.len() {
                    let b = parts[i].as_bytes();
                    let mut k = 0;
                    while k < b.len() { out[at] = b[k]; at += 1; k += 1; }
                    i += 1;
                }
                out
            }
            const fn total(parts: &[&str]) -> usize {
                let (mut n, mut i) = (0, 0);
                while i < parts.len() { n += parts[i].len(); i += 1; }
                n
            }
            const PANIC: &str = if cfg!(panic = "abort") { "panic = \"abort\"\n" } else { "panic = \"unwind\"\n" };
            const PARTS: &[&str] = &[
                MANIFEST_TEXT, PANIC, "api = \"", $crate::abi::root::API_VERSION, "\"\ntarget = \"", $crate::abi::root::TARGET, "\"\n",
            ];
            const LEN: usize = total(PARTS);
            #[used]
            #[unsafe(link_section = ".ge.plugin")]
            static MANIFEST: [u8; LEN] = manifest::<LEN>(PARTS);

            extern "C" fn __init(host: $crate::services::HostTableRef, options: RVec<$crate::services::OptionValue>) -> RResult<(), $crate::Error> {
                guard("init", || {
                    $crate::services::set_host(host);
                    let _ = &options;
                    $( ($init)(&options)?; )?
                    Ok(())
                })
            }
            extern "C" fn __options() -> RResult<RVec<$crate::services::OptionSpec>, $crate::Error> {
                guard("options", || { #[allow(unused_mut, unused_assignments)] let mut v: Vec<$crate::services::OptionSpec> = Vec::new(); $( v = ($options)(); )? Ok(v.into()) })
            }
            extern "C" fn __engines() -> RResult<RVec<$crate::engine::EngineObject>, $crate::Error> {
                guard("engines", || Ok($crate::author::registry::engines().into()))
            }
            extern "C" fn __ops() -> RResult<RVec<$crate::ops::OpSetObject>, $crate::Error> {
                guard("ops", || Ok($crate::author::registry::ops().into()))
            }
            extern "C" fn __frontends() -> RResult<RVec<$crate::frontend::FrontendObject>, $crate::Error> {
                guard("frontends", || Ok($crate::author::registry::frontends().into()))
            }
            extern "C" fn __mappings() -> RResult<RVec<$crate::frontend::MappingObject>, $crate::Error> {
                guard("mappings", || Ok($crate::author::registry::mappings().into()))
            }
            extern "C" fn __passes() -> RResult<RVec<$crate::pass::PassObject>, $crate::Error> {
                guard("passes", || Ok($crate::author::registry::passes().into()))
            }
            extern "C" fn __devices() -> RResult<RVec<$crate::device::DeviceObject>, $crate::Error> {
                guard("devices", || Ok($crate::author::registry::devices().into()))
            }
            static PLUGIN: &WithMetadata<Plugin> = &WithMetadata::new(Plugin {
                init: __init, options: __options, engines: __engines, ops: __ops, frontends: __frontends, mappings: __mappings,
                passes: __passes, devices: __devices,
            });
            fn root() -> PluginRef {
                $crate::abi::guard::set_library($name);
                $crate::abi::guard::install_panic_hook();
                PluginRef(PLUGIN.static_as_prefix())
            }
            extern "C" fn erased() -> l::RootModuleResult { l::__call_root_module_loader(root) }
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            // SAFETY: `erased` returns a root module of the type that the header declares.
            pub static HEADER: l::LibHeader = unsafe { l::LibHeader::from_constructor::<PluginRef>(erased, l::CheckTypeLayout::Yes) };
        }
    };
}

/// Registers an engine: `register_engine!(|| Box::new(MyEngine))`.
#[macro_export]
macro_rules! register_engine {
    ($make:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Engine($make) }
    };
}
/// Registers an operator prototype:
/// `register_op!(|| OpDef::new("AcmeGelu", infer::same).input("x", FLOATS, "T").output("y", FLOATS, "T"))`.
#[macro_export]
macro_rules! register_op {
    ($make:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Op($make) }
    };
}
/// Registers several operator prototypes: `register_ops!(family)` with `fn family() -> Vec<OpDef>`.
#[macro_export]
macro_rules! register_ops {
    ($make:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Ops($make) }
    };
}
/// Registers a front end.
#[macro_export]
macro_rules! register_frontend {
    ($make:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Frontend($make) }
    };
}
/// Registers a mapping object.
#[macro_export]
macro_rules! register_mapping {
    ($make:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Mapping($make) }
    };
}
/// Registers the mapping of one operator by a function:
/// `map_op!("onnx", "com.acme", "Gelu", 1..=1, |node, b| …)`.
#[macro_export]
macro_rules! map_op {
    ($framework:literal, $domain:literal, $op:literal, $since:literal ..= $until:expr, $map:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Mapping(|| Box::new($crate::frontend::FnMapping {
            framework: $framework, domain: $domain, op: $op, since: $since, until: $until, map: $map,
        })) }
    };
}
/// Registers a pass: `register_pass!(MyPass)` for a unit struct that implements `Pass`, or a
/// function: `register_pass!("AcmePass", AFTER_INFER_SHAPE, O1, "what it does", |graph, patch| …)`
/// with the constants of [`PassStage`](crate::pass::PassStage) and
/// [`PassLevel`](crate::pass::PassLevel).
#[macro_export]
macro_rules! register_pass {
    ($name:literal, $stage:ident, $level:ident, $help:literal, $run:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Pass(|| Box::new($crate::pass::FnPass {
            name: $name,
            stage: $crate::pass::PassStage::$stage,
            level: $crate::pass::PassLevel::$level,
            help: $help,
            run: $run,
        })) }
    };
    ($pass:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Pass(|| Box::new($pass)) }
    };
}
/// Registers a fusion by its pattern and its replacement, both written as expressions:
/// `register_fusion!("AcmeSiluFusion", AFTER_INFER_SHAPE, O1, "x sigmoid(x) becomes AcmeSilu",
/// |p| { let x = p.input("x"); x * p.op("Sigmoid", [x]) }, |m, r| Ok(r.op("AcmeSilu", [m.value("x")]).value(0)))`.
#[macro_export]
macro_rules! register_fusion {
    ($name:literal, $stage:ident, $level:ident, $help:literal, $pattern:expr, $replacement:expr $(,)?) => {
        $crate::inventory::submit! { $crate::author::Registration::Pass(|| Box::new($crate::fusion::PatternFusionPass(
            $crate::fusion::FnFusion {
                name: $name,
                stage: $crate::pass::PassStage::$stage,
                level: $crate::pass::PassLevel::$level,
                help: $help,
                pattern: $pattern,
                replacement: $replacement,
            },
        ))) }
    };
}
/// Registers a device.
#[macro_export]
macro_rules! register_device {
    ($make:expr) => {
        $crate::inventory::submit! { $crate::author::Registration::Device($make) }
    };
}
/// Registers a kernel of a [`SimpleEngine`](crate::author::SimpleEngine):
/// `register_kernel!("AcmeEngine", "AcmeGelu", [DType::F32], gelu)`. A further condition besides
/// the types is possible:
/// `register_kernel!("AcmeEngine", "AcmeGelu", [DType::F32], gelu, when: |node| ..)`. It returns
/// `Ok(())` or the reason for a refusal.
#[macro_export]
macro_rules! register_kernel {
    ($engine:literal, $op:literal, [$($t:expr),* $(,)?], $run:expr $(,)?) => {
        $crate::register_kernel!($engine, $op, [$($t),*], $run, when: |_| Ok(()));
    };
    ($engine:literal, $op:literal, [$($t:expr),* $(,)?], $run:expr, when: $when:expr $(,)?) => {
        $crate::inventory::submit! { $crate::author::Registration::Kernel(|| $crate::author::simple::SimpleKernel {
            engine: $engine, op: $op, types: &[$($t),*], run: $run, when: $when,
        }) }
    };
}
