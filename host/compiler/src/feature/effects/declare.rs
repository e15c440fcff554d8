//! Declares a variable that a subgraph names in every graph around it. A subgraph that is inlined
//! into one of them then finds the variable by its name.
use crate::error::VariableFault;
use crate::error::{CompileError, Result};
use ge_ir::{AttrValue, Graph, Model, NodeId, TensorDesc, ValueRef};
use std::collections::{BTreeMap, HashMap};

/// What all Variables of one name have in common.
struct Declared {
    desc: TensorDesc,
    init: Option<AttrValue>,
}

/// Declares the variables of subgraphs in the graphs around them.
///
/// # Errors
/// Fails if Variables of one name differ in type, shape or initial value, or if another node has
/// the name of a variable.
pub(super) fn run(model: &mut Model) -> Result<()> {
    if model.graphs().len() < 2 || !model.graphs()[1..].iter().any(|g| g.nodes().any(|n| n.op() == "Variable")) {
        return Ok(());
    }
    let all = declared(model)?;
    let index: BTreeMap<String, usize> =
        model.graphs().iter().enumerate().map(|(i, g)| (g.name().to_owned(), i)).collect();
    let mut own: Vec<Vec<String>> = model.graphs().iter().map(names_of).collect();
    // Propagates names outwards until nothing is added; each round reaches at least one graph
    // further out.
    let children: Vec<Vec<usize>> = model
        .graphs()
        .iter()
        .map(|g| g.nodes().flat_map(|n| n.subgraphs()).filter_map(|s| index.get(s).copied()).collect())
        .collect();
    loop {
        let mut grown = false;
        for gi in 0..own.len() {
            for c in &children[gi] {
                for name in own[*c].clone() {
                    if !own[gi].contains(&name) {
                        own[gi].push(name);
                        grown = true;
                    }
                }
            }
        }
        if !grown {
            break;
        }
    }
    for (gi, names) in own.iter().enumerate() {
        let g = &model.graphs()[gi];
        let missing: Vec<&String> =
            names.iter().filter(|n| !g.nodes().any(|o| o.op() == "Variable" && o.name() == *n)).collect();
        if let Some(name) = missing.iter().find(|n| g.find(n).is_some()) {
            return Err(VariableFault::OtherNode { name: (*name).clone(), graph: g.name().into() }.into());
        }
        if !missing.is_empty() {
            model.graphs_mut()[gi] = with_variables(g, &missing, &all)?;
        }
        let without: Vec<(NodeId, AttrValue)> = model.graphs()[gi]
            .nodes()
            .filter(|n| n.op() == "Variable" && n.attr("init_value").is_none())
            .filter_map(|n| Some((n.id(), all.get(n.name())?.init.clone()?)))
            .collect();
        for (id, init) in without {
            model.graphs_mut()[gi].set_attr(id, "init_value", init);
        }
    }
    Ok(())
}

fn names_of(g: &Graph) -> Vec<String> {
    g.nodes().filter(|n| n.op() == "Variable").map(|n| n.name().to_owned()).collect()
}

fn declared(model: &Model) -> Result<BTreeMap<String, Declared>> {
    let mut all: BTreeMap<String, Declared> = BTreeMap::new();
    for n in model.graphs().iter().flat_map(Graph::nodes).filter(|n| n.op() == "Variable") {
        let Some(desc) = n.outputs().first() else { continue };
        let init = n.attr("init_value").cloned();
        match all.get_mut(n.name()) {
            None => drop(all.insert(n.name().to_owned(), Declared { desc: desc.clone(), init })),
            Some(known) => {
                if (known.desc.dtype, &known.desc.shape) != (desc.dtype, &desc.shape) {
                    let (a, b) = (&known.desc, desc);
                    let (here, there) = (format!("{}{}", a.dtype, a.shape), format!("{}{}", b.dtype, b.shape));
                    return Err(VariableFault::Differs { name: n.name().into(), here, there }.into());
                }
                match (&known.init, init) {
                    (Some(a), Some(b)) if !ge_ir::graph::same_value(a, &b) => {
                        return Err(VariableFault::TwoValues { name: n.name().into() }.into());
                    }
                    (None, Some(b)) => known.init = Some(b),
                    _ => {}
                }
            }
        }
    }
    Ok(all)
}

/// A copy of a graph with more variables, which stand before its nodes.
fn with_variables(old: &Graph, names: &[&String], all: &BTreeMap<String, Declared>) -> Result<Graph> {
    let mut g = Graph::new(old.name());
    *g.attrs_mut() = old.attrs().clone();
    for name in names {
        let Some(d) = all.get(*name) else { continue };
        g.push_node("Variable".into(), (*name).clone(), vec![], vec![], vec![d.desc.clone()], Default::default());
    }
    let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
    for n in old.nodes() {
        let value = |v: &ValueRef| if v.is_absent() { *v } else { ValueRef::new(nodes[&v.node], v.output) };
        let inputs = n.inputs().iter().map(value).collect();
        let controls = n.controls().iter().map(|c| nodes[c]).collect();
        let id = g
            .push_node(n.op_key(), n.name().to_owned(), inputs, controls, n.outputs().to_vec(), n.attrs().to_map())
            .ok_or_else(|| CompileError::unordered("import", n.name()))?;
        nodes.insert(n.id(), id);
    }
    Ok(g)
}
