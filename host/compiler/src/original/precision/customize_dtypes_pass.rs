//! `CustomizeDtypesPass`: puts nodes and operators into the types that the file of
//! `ge.customizeDtypes` gives their inputs and outputs.
//!
//! Before: `%y = Exp(%x) : f32`   After: `%a = Cast(%x) : f16  %b = Exp(%a) : f16  %y = Cast(%b) : f32`
//! When: the file names the node or its operator type; a line with the node's name takes
//! precedence.
//! Refuses, with one error for all nodes: types that the prototype, the inference or every engine
//! refuses; types other than floating point; nodes with shared values or effects.
//! Keeps: the given types stand whatever the precision mode and `ge.exec.keep_dtype` say
//! (`_keep_dtype`); readers get the types that they had.
//! Source: facts 9.2 (customize_dtypes). Cost: visits each node once; named nodes are asked once.
use super::cast;
use super::lower::{SHARED, Y_DTYPE, retyped, says_its_type};
use super::names::{self, Custom, Types, names_of};
use super::params::spec;
use crate::error::OptionFault;
use crate::error::Result;
use crate::original::what_if::WhatIf;
use crate::pass::PassContext;
use crate::pass::declare::graph_pass;
use crate::toolbox::{EngineRanks, Toolbox};
use ge_ir::{DType, Graph, Model, Node, TensorDesc, ValueRef};
use ge_plugin_api::engine::Support;
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::tensor::Container;
use std::collections::{BTreeMap, HashMap};

graph_pass!(
    CustomizeDtypesPass,
    O0,
    "a node in the types that `ge.customizeDtypes` gives it, `Cast` at its borders",
    needs "a line with its name or its operator type; an engine that takes it so",
    keeps "types for its readers",
    run,
);

/// The types for a node: those of the inputs that change, and those of all outputs.
struct Given {
    inputs: Vec<Option<DType>>,
    outputs: Vec<DType>,
    /// Whether the attribute that states the type of output 0 is set.
    own_output: bool,
}

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let custom = names::custom(cx.options)?;
    if custom == Custom::default() {
        return Ok(Vec::new());
    }
    let g = &model.graphs()[gi];
    let ranks = cx.toolbox.ranks()?;
    let mut refused: Vec<String> = Vec::new();
    let mut given: BTreeMap<ge_ir::NodeId, Given> = BTreeMap::new();
    for n in g.nodes() {
        cx.visits += 1;
        let place = format!("{}/{}", g.name(), n.name());
        let named = names_of(n).chain([place.as_str()]).find_map(|s| custom.by_name.get(s));
        let Some(types) = named.or_else(|| custom.by_type.get(n.op())) else { continue };
        match fit(cx, ranks, g, n, types)? {
            Ok(fits) => {
                given.insert(n.id(), fits);
            }
            Err(why) => refused.push(format!("`{}` ({}): {why}", n.name(), n.op())),
        }
    }
    if !refused.is_empty() {
        let more = refused.len().saturating_sub(10);
        refused.truncate(10);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Err(OptionFault::Model {
            option: names::CUSTOM,
            value: cx.options.customize_dtypes.clone(),
            what: format!("asks for types that cannot be: {}{more}", refused.join("; ")),
            help: "take these lines out, or give types that an engine takes".into(),
        }
        .into());
    }
    cx.changes += given.len() as u64;
    Ok(edits(cx.toolbox, model, gi, &given))
}

/// The types for a node as the user wants them, or the reason why they are not possible.
fn fit(
    cx: &PassContext<'_>,
    ranks: &EngineRanks,
    g: &Graph,
    n: &Node,
    types: &Types,
) -> Result<std::result::Result<Given, String>> {
    let no = |why: String| Ok(Err(why));
    let Some(op) = cx.toolbox.op(n.op_key()) else { return no("it is a node of the host's own".into()) };
    if op.proto.flags & SHARED != 0 || !op.proto.subgraphs.is_empty() {
        return no("its values are shared with others than its readers".into());
    }
    for (what, has, wants) in
        [("inputs", n.inputs().len(), types.inputs.len()), ("outputs", n.outputs().len(), types.outputs.len())]
    {
        if wants > has {
            return no(format!("the file gives {wants} {what}, the node has {has}"));
        }
    }
    let mut changed = WhatIf::new(g, cx.toolbox);
    let mut inputs: Vec<Option<DType>> = vec![None; n.inputs().len()];
    for (i, to) in types.inputs.iter().enumerate() {
        let Some(d) = g.input_desc(n, i).filter(|d| d.dtype != *to) else { continue };
        if d.container != Container::TENSOR || !d.dtype.is_float() || !to.is_float() {
            return no(format!("input {i} is {}, which cannot become {to}", d.dtype));
        }
        if let Some(p) = spec(&op.proto.inputs, i).filter(|p| !p.types.is_empty() && !p.types.contains(to)) {
            let takes: Vec<&str> = p.types.iter().map(|t| t.name()).collect();
            return no(format!("input {i} `{}` takes {}, not {to}", p.name, takes.join(", ")));
        }
        inputs[i] = Some(*to);
    }
    for (i, to) in inputs.iter().enumerate() {
        let Some(v) = n.input(i) else { continue };
        if n.inputs().iter().zip(&inputs).any(|(w, t)| *w == v && t != to) {
            return no(format!("input {i} is read in another type too"));
        }
        if let (Some(to), Some(d)) = (to, g.desc(v)) {
            changed.set(v, TensorDesc { dtype: *to, ..d.clone() });
        }
    }
    let inferred = match cx.toolbox.infer(&changed.graph().node(n.id())) {
        Ok(d) if d.len() == n.outputs().len() => d,
        Ok(_) => return no("its outputs would be others".into()),
        Err(e) => return no(e.to_string()),
    };
    let mut outputs: Vec<DType> = Vec::with_capacity(inferred.len());
    let mut own_output = false;
    for (k, (own, new)) in n.outputs().iter().zip(&inferred).enumerate() {
        let gives = if new.dtype == DType::UNKNOWN { own.dtype } else { new.dtype };
        match types.outputs.get(k).filter(|t| **t != gives) {
            Some(want) if k == 0 && says_its_type(&op.proto) => {
                own_output = true;
                outputs.push(*want);
            }
            Some(want) => return no(format!("of inputs of these types output {k} is {gives}, not {want}")),
            None => outputs.push(gives),
        }
    }
    changed.set_outputs(n.id(), retyped(n, &outputs));
    let view = changed.graph();
    let mut why = String::from("no engine has its type");
    for id in ranks.of(n.op_key()) {
        let e = cx.toolbox.engine(*id);
        if e.excluded.is_some() || n.attrs().str("_engine").is_some_and(|own| own != e.info.name.as_str()) {
            continue;
        }
        match e.object.supports(&view.node(n.id()))? {
            Support::Yes | Support::YesAt(_) => return Ok(Ok(Given { inputs, outputs, own_output })),
            Support::No(r) => why = format!("{}: {r}", e.info.name),
        }
    }
    no(why)
}

fn edits(toolbox: &Toolbox, model: &Model, gi: usize, given: &BTreeMap<ge_ir::NodeId, Given>) -> Vec<Edit> {
    let context = toolbox.lend(model, gi);
    let g = &model.graphs()[gi];
    let mut patch = Patch::new(&context.graph());
    // For each changed value, the value that has its former type.
    let mut back: HashMap<ValueRef, ValueRef> = HashMap::new();
    for (n, to) in given.iter().filter_map(|(id, to)| Some((g.get(*id)?, to))) {
        patch.set_attr(n.id(), "_keep_dtype", 1i64);
        if let (true, Some(t)) = (to.own_output, to.outputs.first()) {
            patch.set_attr(n.id(), Y_DTYPE, *t);
        }
        for (k, (own, new)) in n.outputs().iter().zip(retyped(n, &to.outputs)).enumerate() {
            if own.dtype == new.dtype {
                continue;
            }
            let v = n.value(k as u32);
            patch.push(Edit::SetOutput(n.id(), k as u32, new));
            let c = cast(&mut patch, g, &format!("{}/out{k}_{}", n.name(), own.dtype), v, own, own.dtype);
            back.insert(v, c);
            n.uses(k).iter().for_each(|u| patch.set_input(u.node, u.input, c));
        }
    }
    for (n, to) in given.iter().filter_map(|(id, to)| Some((g.get(*id)?, to))) {
        for (i, t) in to.inputs.iter().enumerate() {
            let (Some(t), Some(v), Some(d)) = (t, n.input(i), g.input_desc(n, i)) else { continue };
            let from = back.get(&v).copied().unwrap_or(v);
            let c = cast(&mut patch, g, &format!("{}/in{i}_{t}", n.name()), from, d, *t);
            patch.set_input(n.id(), i as u32, c);
        }
    }
    patch.into_edits().into()
}
