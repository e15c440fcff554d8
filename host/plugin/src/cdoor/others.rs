//! Operators, mappings and passes of C plugins, as the host's objects.
use super::abi;
use super::host::{Building, Failure, Lent, lend, show};
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, Mapping};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, OpProto, OpSet, ParamKind, ParamSpec, infer};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrValue, DType, TensorDesc, ValueRef};
use ge_plugin_api::view::Graph;
use ge_plugin_api::{Error, Result};

type Checked<T> = std::result::Result<T, String>;

/// All prototypes of a plugin, sorted by name.
pub(super) struct COps(Vec<(OpProto, abi::Op)>);
// SAFETY: the header requires functions that several threads can call at once; the tables live
// forever.
unsafe impl Send for COps {}
// SAFETY: as above.
unsafe impl Sync for COps {}

/// # Safety
/// The list must be as the header declares it.
unsafe fn params(at: *const *const abi::Param, n: usize, op: &str) -> Checked<Vec<ParamSpec>> {
    let mut out = Vec::new();
    // SAFETY: by contract.
    for p in unsafe { abi::list(at, n, "parameters")? } {
        // SAFETY: by contract.
        let (p, name, group, types) = unsafe {
            let p = abi::read(*p)?;
            (p, abi::text(p.name), abi::text(p.group), abi::list(p.types, p.n_types, "types")?)
        };
        let known = |t: &u32| u8::try_from(*t).ok().and_then(DType::from_code);
        let types: Option<Vec<DType>> = types.iter().map(known).collect();
        let types = types
            .ok_or_else(|| format!("parameter `{name}` of operator `{op}` has an element type that there is not"))?;
        let kind = u8::try_from(p.kind).ok().and_then(ParamKind::from_code);
        let kind = kind.ok_or_else(|| format!("parameter `{name}` of operator `{op}` is of kind {}", p.kind))?;
        out.push(ParamSpec { name: name.into(), kind, types: types.into(), type_group: group.into() });
    }
    Ok(out)
}

impl COps {
    /// # Safety
    /// The list must contain prototypes as the header declares them.
    pub unsafe fn new(all: &[*const abi::Op]) -> Checked<COps> {
        let mut out = Vec::new();
        for op in all {
            // SAFETY: by contract.
            let (op, name) = unsafe {
                let op = abi::read(*op)?;
                (op, abi::text(op.name))
            };
            let mut def = OpDef::new(&name, infer::same).flags(op.flags);
            // SAFETY: by contract.
            unsafe {
                def.proto.inputs = params(op.inputs, op.n_inputs, &name)?.into();
                def.proto.outputs = params(op.outputs, op.n_outputs, &name)?.into();
                for a in abi::list(op.attrs, op.n_attrs, "attributes")? {
                    let a = abi::read(*a)?;
                    let key = abi::text(a.name);
                    let kind = u8::try_from(a.kind).ok().and_then(AttrKind::from_code);
                    let kind =
                        kind.ok_or_else(|| format!("attribute `{key}` of operator `{name}` is of kind {}", a.kind))?;
                    let default: AttrValue = match kind {
                        AttrKind::INT => a.value_int.into(),
                        AttrKind::FLOAT => a.value_float.into(),
                        AttrKind::BOOL => (a.value_int != 0).into(),
                        AttrKind::STRING => AttrValue::Str(abi::text(a.value_text).into()),
                        _ => {
                            def =
                                if a.required != 0 { def.required_attr(&key, kind) } else { def.opt_attr(&key, kind) };
                            continue;
                        }
                    };
                    def = if a.required != 0 { def.required_attr(&key, kind) } else { def.attr(&key, kind, default) };
                }
            }
            out.push((def.proto, op));
        }
        out.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        Ok(COps(out))
    }
}

impl OpSet for COps {
    fn protos(&self) -> Vec<OpProto> {
        self.0.iter().map(|o| o.0.clone()).collect()
    }
    fn infer(&self, index: usize, ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        let (_, op) = self.0.get(index).ok_or_else(|| Error::internal(format!("no prototype {index}")))?;
        let Some(f) = op.infer else { return infer::same(ctx) };
        let (mut outputs, mut failure) = (Vec::<TensorDesc>::new(), Failure::default());
        // SAFETY: the function and its arguments are as the header declares them.
        let code = unsafe { f(op.self_, show(&ctx.node), lend(&mut outputs), lend(&mut failure)) };
        failure.result(code)?;
        Ok(outputs)
    }
}

/// A mapping of a C plugin.
pub(super) struct CMapping {
    names: [String; 3],
    table: abi::Mapping,
}
// SAFETY: as for COps.
unsafe impl Send for CMapping {}
// SAFETY: as above.
unsafe impl Sync for CMapping {}

impl CMapping {
    /// # Safety
    /// `at` must be a mapping as the header declares it.
    pub unsafe fn new(at: *const abi::Mapping) -> Checked<CMapping> {
        // SAFETY: by contract.
        let (table, names) = unsafe {
            let t = abi::read(at)?;
            (t, [t.framework, t.domain, t.op].map(|s| abi::text(s)))
        };
        if table.map.is_none() {
            return Err(format!("the mapping of `{}` has no function `map`", names[2]));
        }
        Ok(CMapping { names, table })
    }
}

impl Mapping for CMapping {
    fn framework(&self) -> String {
        self.names[0].clone()
    }
    fn domain(&self) -> String {
        self.names[1].clone()
    }
    fn op(&self) -> String {
        self.names[2].clone()
    }
    fn versions(&self) -> (u32, u32) {
        (self.table.since, self.table.until)
    }
    fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        let f = self.table.map.ok_or_else(|| Error::new(ErrorKind::PLUGIN, "it has no function `map`"))?;
        let mut building = Building::new(builder, node.name.to_string());
        let mut failure = Failure::default();
        // SAFETY: as in `infer`.
        let code = unsafe { f(self.table.self_, show(node), lend(&mut building), lend(&mut failure)) };
        failure.result(code)?;
        Ok(building.outputs)
    }
}

/// A pass of a C plugin.
pub(super) struct CPass {
    info: PassInfo,
    table: abi::Pass,
}
// SAFETY: as for COps.
unsafe impl Send for CPass {}
// SAFETY: as above.
unsafe impl Sync for CPass {}

impl CPass {
    /// # Safety
    /// `at` must be a pass as the header declares it.
    pub unsafe fn new(at: *const abi::Pass) -> Checked<CPass> {
        // SAFETY: by contract.
        let (table, name, help) = unsafe {
            let t = abi::read(at)?;
            (t, abi::text(t.name), abi::text(t.help))
        };
        if table.run.is_none() {
            return Err(format!("pass `{name}` has no function `run`"));
        }
        // An unknown stage or level is rejected later, when all contents of the plugin are
        // validated.
        let code = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        let info = PassInfo::new(&name, PassStage(code(table.stage)), PassLevel(code(table.level)), &help);
        Ok(CPass { info, table })
    }
}

impl Pass for CPass {
    fn info(&self) -> PassInfo {
        self.info.clone()
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let f = self.table.run.ok_or_else(|| Error::new(ErrorKind::PLUGIN, "it has no function `run`"))?;
        let mut failure = Failure::default();
        let lent = Lent::new(*graph);
        // SAFETY: as in `infer`.
        let code = unsafe { f(self.table.self_, show(&lent), lend(patch), lend(&mut failure)) };
        failure.result(code)
    }
}
