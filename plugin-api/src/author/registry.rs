//! The registrations of one library, collected by `inventory` and sorted by name.
use crate::device::{Device, DeviceObject};
use crate::diagnostic::{Error, Result};
use crate::engine::{Engine, EngineObject};
use crate::frontend::{Frontend, FrontendObject, Mapping, MappingObject};
use crate::ops::{InferCtx, OpDef, OpProto, OpSet, OpSetObject};
use crate::pass::{Pass, PassObject};
use crate::range::{Range, RangeCtx};
use crate::types::TensorDesc;

/// One thing that a library provides. Made by the `register_*!` macros.
pub enum Registration {
    /// An engine.
    Engine(fn() -> Box<dyn Engine>),
    /// One operator prototype.
    Op(fn() -> OpDef),
    /// Several operator prototypes.
    Ops(fn() -> Vec<OpDef>),
    /// A front end.
    Frontend(fn() -> Box<dyn Frontend>),
    /// A mapping.
    Mapping(fn() -> Box<dyn Mapping>),
    /// Several mappings.
    Mappings(fn() -> Vec<Box<dyn Mapping>>),
    /// A pass.
    Pass(fn() -> Box<dyn Pass>),
    /// A device.
    Device(fn() -> Box<dyn Device>),
    /// A kernel of the [`crate::author::SimpleEngine`] that it names.
    Kernel(fn() -> crate::author::simple::SimpleKernel),
}
inventory::collect!(Registration);

/// All registrations of this library, in no fixed order; the functions below sort them.
pub fn collect() -> impl Iterator<Item = &'static Registration> {
    inventory::iter::<Registration>()
}

/// Engines, sorted by name.
pub fn engines() -> Vec<EngineObject> {
    let mut v: Vec<Box<dyn Engine>> =
        collect().filter_map(|r| if let Registration::Engine(f) = r { Some(f()) } else { None }).collect();
    v.sort_by_cached_key(|e| e.info().name);
    v.into_iter().map(EngineObject::from_box).collect()
}
/// Front ends, sorted by framework.
pub fn frontends() -> Vec<FrontendObject> {
    let mut v: Vec<Box<dyn Frontend>> =
        collect().filter_map(|r| if let Registration::Frontend(f) = r { Some(f()) } else { None }).collect();
    v.sort_by_cached_key(|f| f.framework());
    v.into_iter().map(FrontendObject::from_box).collect()
}
/// Mappings, sorted by framework, domain, operator and version.
pub fn mappings() -> Vec<MappingObject> {
    let mut v: Vec<Box<dyn Mapping>> = Vec::new();
    for r in collect() {
        match r {
            Registration::Mapping(f) => v.push(f()),
            Registration::Mappings(f) => v.extend(f()),
            _ => {}
        }
    }
    v.sort_by_cached_key(|m| (m.framework(), m.domain(), m.op(), m.versions()));
    v.into_iter().map(MappingObject::from_box).collect()
}
/// Passes, sorted by name.
pub fn passes() -> Vec<PassObject> {
    let mut v: Vec<Box<dyn Pass>> =
        collect().filter_map(|r| if let Registration::Pass(f) = r { Some(f()) } else { None }).collect();
    v.sort_by_cached_key(|p| p.info().name);
    v.into_iter().map(PassObject::from_box).collect()
}
/// Devices, sorted by name.
pub fn devices() -> Vec<DeviceObject> {
    let mut v: Vec<Box<dyn Device>> =
        collect().filter_map(|r| if let Registration::Device(f) = r { Some(f()) } else { None }).collect();
    v.sort_by_cached_key(|d| d.info().name);
    v.into_iter().map(DeviceObject::from_box).collect()
}
/// All prototypes as one set, sorted by name; empty if there are none.
pub fn ops() -> Vec<OpSetObject> {
    let mut defs: Vec<OpDef> = Vec::new();
    for r in collect() {
        match r {
            Registration::Op(f) => defs.push(f()),
            Registration::Ops(f) => defs.extend(f()),
            _ => {}
        }
    }
    if defs.is_empty() {
        return Vec::new();
    }
    defs.sort_by(|a, b| a.proto.name.cmp(&b.proto.name));
    vec![OpSetObject::from_box(Box::new(Defs(defs)))]
}

struct Defs(Vec<OpDef>);
impl OpSet for Defs {
    fn protos(&self) -> Vec<OpProto> {
        self.0.iter().map(|d| d.proto.clone()).collect()
    }
    fn infer(&self, index: usize, ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        let d = self.0.get(index).ok_or_else(|| Error::internal(format!("no prototype {index}")))?;
        (d.infer)(ctx)
    }
    fn ranges(&self, index: usize, ctx: &RangeCtx<'_>) -> Option<Vec<Range>> {
        self.0.get(index)?.value_ranges.map(|f| f(ctx))
    }
}
