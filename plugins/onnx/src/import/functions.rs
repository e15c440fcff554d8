//! Functions of a model: each call is replaced by the nodes of the function's body.
use super::{Building, Env, Importer, damaged, domain};
use crate::contradictions;
use crate::proto::{AttributeProto, FunctionProto, NodeProto};
use crate::scope::Known;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::GraphBuilder;
use std::collections::BTreeMap;

/// A call: the node, its name, and its attributes.
pub(super) struct Call<'n> {
    pub(super) node: &'n NodeProto,
    pub(super) name: &'n str,
    pub(super) attrs: &'n [(&'n str, &'n AttributeProto)],
}

impl<'m> Importer<'m> {
    /// The function of the model that has the name of a node's operator. A mapping comes before it.
    pub fn function(&self, n: &NodeProto) -> Option<&'m FunctionProto> {
        self.functions.get(&(domain(&n.domain), n.op_type.as_str(), n.overload.as_str())).copied()
    }

    /// Inlines a function call.
    pub(super) fn call(&mut self, f: &FunctionProto, c: &Call<'_>, g: &mut Building, env: &Env<'_>) -> Result<()> {
        contradictions::call(f, c.node, c.name)?;
        let mut inner = Building::new();
        for (i, formal) in f.input.iter().enumerate() {
            let known = match c.node.input.get(i).filter(|a| !a.is_empty()) {
                Some(actual) => self.read_value(g, actual)?,
                None => Known::left_out(),
            };
            inner.scope.insert(formal.clone(), known);
        }
        // The body's nodes go into the graph of the call.
        inner.builder = std::mem::replace(&mut g.builder, GraphBuilder::new(None));
        let outs = self.body(f, c, &mut inner, env);
        g.builder = inner.builder;
        g.provenance.append(&inner.provenance);
        outs?.into_iter().try_for_each(|(o, k)| self.define(g, env, o, k))
    }

    /// Imports the body of a function. Returns the values of the call's outputs, with their names.
    fn body<'c>(
        &mut self,
        f: &FunctionProto,
        c: &Call<'c>,
        inner: &mut Building,
        env: &Env<'_>,
    ) -> Result<Vec<(&'c String, Known)>> {
        let mut given: BTreeMap<String, &AttributeProto> =
            f.attribute_proto.iter().map(|a| (a.name.clone(), a)).collect();
        given.extend(c.attrs.iter().map(|(k, a)| ((*k).to_owned(), *a)));
        let mut opsets = env.opsets.clone();
        for o in &f.opset_import {
            opsets.insert(domain(&o.domain).to_owned(), u32::try_from(o.version).unwrap_or(0));
        }
        let env = Env {
            opsets,
            attrs: Some(given),
            prefix: format!("{}/", c.name),
            rename: f.output.first().map(|o| (o.clone(), c.name.to_owned())),
            depth: env.depth + 1,
            unrolled: env.unrolled.clone(),
            turn: env.turn,
        };
        self.nodes(&f.node, inner, &env)?;
        let asked = c.node.output.iter().enumerate().filter(|(_, o)| !o.is_empty());
        asked
            .map(|(i, o)| {
                let formal = f.output.get(i);
                let formal = formal
                    .ok_or_else(|| damaged(format!("`{}` asks for output {i} of function {}", c.name, f.name)))?;
                Ok((o, self.read_value(inner, formal)?))
            })
            .collect()
    }
}
