//! Turns statements into nodes: names, head inputs, uses before definition.
use super::super::printer::{free_indices, is_indexed_input, net_output_name};
use super::ERROR_LIMIT;
use super::{Head, Parser, Scope, Statement, UseOf};
use crate::graph::Graph;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::types::{AttrMap, Key, NodeId, ValueRef};
use std::borrow::Cow;
use std::collections::HashSet;

impl<'t> Parser<'t, '_> {
    pub(super) fn build(
        &mut self,
        mut scope: Scope<'t>,
        head: Head<'t>,
        body: Vec<Statement<'t>>,
        root: bool,
        start: usize,
    ) -> Graph {
        let mut places = Vec::with_capacity(head.len() + body.len() + 1);
        let claimed: HashSet<i64> =
            body.iter().filter(|s| is_indexed_input(&s.op)).filter_map(|s| s.attrs.int("index")).collect();
        let indices: Vec<i64> = free_indices(&claimed).take(head.len()).collect();
        let data = Key::new("Data");
        for ((at, name, desc), index) in head.into_iter().zip(indices) {
            let mut attrs = AttrMap::default();
            attrs.set("index", index);
            let node = scope.graph.push_node(data, name.to_string(), Vec::new(), Vec::new(), vec![desc], attrs);
            places.push(at);
            self.define(&mut scope, at, name, node);
        }
        for s in body {
            let mut inputs = Vec::with_capacity(s.inputs.len());
            let mut good = true;
            for u in s.inputs {
                match u {
                    UseOf::Absent => inputs.push(ValueRef::ABSENT),
                    UseOf::Value { at, name, output } => match self.look_up(&mut scope, at, name.clone()) {
                        Some(id) => {
                            let count = scope.graph.get(id).map_or(0, |n| n.outputs().len());
                            match u32::try_from(output) {
                                Ok(k) if (k as usize) < count => inputs.push(ValueRef::new(id, k)),
                                _ => {
                                    good = false;
                                    let d = Diagnostic::error(format!("`%{name}` has no output {output}"))
                                        .found(format!("`%{name}#{output}`"), format!("one of its {count} outputs"));
                                    self.fault(at, ge_codes::TEXT_NAME, d);
                                }
                            }
                        }
                        None => good = false,
                    },
                }
            }
            let mut controls = Vec::with_capacity(s.controls.len());
            for (at, name) in s.controls {
                match self.look_up(&mut scope, at, name) {
                    Some(id) => controls.push(id),
                    None => good = false,
                }
            }
            let (text_name, node_name) = match s.name {
                Some(n) => (Some(n.clone()), n.into_owned()),
                None => {
                    let base = net_output_name(scope.graph.name(), root);
                    let mut name = base.clone();
                    let mut k = 1u32;
                    while scope.names.contains_key(name.as_str()) {
                        name = format!("{base}_{k}");
                        k += 1;
                    }
                    (None, name)
                }
            };
            let node = if good {
                scope.graph.push_node(Key::new(&s.op), node_name, inputs, controls, s.outputs, s.attrs)
            } else {
                None
            };
            places.push(s.at);
            if let Some(n) = text_name {
                self.define(&mut scope, s.at, n, node);
            }
        }
        self.tell_unknown(&scope);
        places.push(start);
        self.places.push(places);
        scope.graph
    }

    pub(super) fn define(&mut self, scope: &mut Scope<'t>, at: usize, name: Cow<'t, str>, node: Option<NodeId>) {
        if let Some(Some(_)) = scope.names.get(&name) {
            let d = Diagnostic::error(format!("`%{name}` is defined twice in graph `@{}`", scope.graph.name()));
            self.fault(at, ge_codes::TEXT_NAME, d);
            return;
        }
        scope.names.insert(name, node);
    }

    pub(super) fn look_up(&mut self, scope: &mut Scope<'t>, at: usize, name: Cow<'t, str>) -> Option<NodeId> {
        match scope.names.get(&name) {
            Some(node) => *node,
            None => {
                if scope.unknown.len() < ERROR_LIMIT {
                    scope.unknown.push((at, name));
                }
                None
            }
        }
    }

    /// Reports names that are used before their definition, and names that are never defined
    /// together with the nearest defined name.
    pub(super) fn tell_unknown(&mut self, scope: &Scope<'t>) {
        for (at, name) in &scope.unknown {
            let d = if scope.names.contains_key(name) {
                Diagnostic::error(format!("`%{name}` is used before it is defined"))
                    .found("a use before the definition", "values defined on an earlier line")
                    .help(format!("move the definition of `%{name}` before this line"))
            } else {
                let d = Diagnostic::error(format!("there is no value `%{name}` in graph `@{}`", scope.graph.name()))
                    .found(format!("`%{name}`"), "a name defined before");
                match self.nearest(name, scope) {
                    Some(n) => d.help(format!("did you mean `%{n}`?")),
                    None => d,
                }
            };
            self.fault(*at, ge_codes::TEXT_NAME, d);
        }
    }

    pub(super) fn nearest(&mut self, name: &str, scope: &Scope<'t>) -> Option<String> {
        // Bounds the work for any text: few questions, and few and short candidates.
        self.suggested += 1;
        if self.suggested > 20 || name.len() > 100 {
            return None;
        }
        let near = scope.graph.nodes().take(5000).map(|n| n.name()).filter(|n| n.len().abs_diff(name.len()) <= 2);
        near.map(|n| (strsim::damerau_levenshtein(name, n), n))
            .filter(|(d, _)| *d <= 2)
            .min_by(|a, b| a.cmp(b))
            .map(|(_, n)| n.to_owned())
    }
}
