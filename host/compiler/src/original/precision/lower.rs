//! What a node would be in the other type: which inputs it would read in that type, what types its
//! outputs would have, and whether an engine takes it.
//!
//! Nothing here is specific to an operator. The prototype says which types the parameters may have
//! and which of them must agree, and infers the outputs; the engines say whether they take the
//! node.
use super::digits::{Digits, Need};
use super::mode::{Mode, Rule};
use super::names::names_of;
use super::params::spec;
use super::values::{Limits, Ranges};
use crate::original::what_if::WhatIf;
use crate::toolbox::{EngineId, EngineRanks, Toolbox};
use ge_ir::verify::STRUCTURE;
use ge_ir::{DType, Graph, Key, Node, TensorDesc};
use ge_plugin_api::engine::Variant;
use ge_plugin_api::ops::{OpProto, ParamSpec, flags};
use ge_plugin_api::types::tensor::Container;

/// A node in the other type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// For each input, whether it is read in the other type.
    pub inputs: Vec<bool>,
    /// Types of the outputs.
    pub outputs: Vec<DType>,
    /// The node moves values of any type and computes nothing, or it is a `Cast`.
    pub moves: bool,
    /// Output 0 has a type of its own, which the attribute [`Y_DTYPE`] states.
    pub own_output: bool,
}

/// Attribute of matrix products that gives output 0 a type other than that of the factors.
pub const Y_DTYPE: &str = "y_dtype";

/// The answer for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The node does not use the type, or its kind binds it to the type that it has.
    Bound,
    /// The node cannot change its type; the text says why.
    No(String),
    /// The node can change its type.
    Can(Lowered),
}

/// Asks prototypes and engines about nodes.
pub struct Asker<'t> {
    toolbox: &'t Toolbox,
    ranks: &'t EngineRanks,
    mode: &'t Mode,
    structural: Vec<Key>,
    /// Ranges of the values and limits of the other type, if numbers decide too.
    numbers: Option<(&'t Ranges, Limits)>,
    digits: Option<&'t Digits>,
}

/// Flags of operators that share values with others than their readers, have effects or are random.
pub(super) const SHARED: u64 = flags::STATEFUL | flags::REFERENCE | flags::COMMUNICATION | flags::RANDOM;

impl<'t> Asker<'t> {
    /// Creates the asker of one compilation.
    pub fn new(toolbox: &'t Toolbox, ranks: &'t EngineRanks, mode: &'t Mode) -> Asker<'t> {
        let structural = STRUCTURE.iter().map(|s| Key::new(s)).collect();
        Asker { toolbox, ranks, mode, structural, numbers: None, digits: None }
    }
    /// The same asker, but values that may exceed the numbers of the other type, and values whose
    /// digits are needed, keep their type.
    pub fn holding(self, numbers: Option<(&'t Ranges, Limits)>, digits: &'t Digits) -> Asker<'t> {
        Asker { numbers, digits: Some(digits), ..self }
    }

    /// Whether the user has put the operator on the white list, whatever is known of its numbers.
    fn is_asked_for(&self, n: &Node) -> bool {
        matches!(&self.mode.rule, Rule::Mixed(list) if list.is_asked_for(n.op()))
    }

    /// Why the numbers of a value do not fit the other type; `None` if they do or nothing is known.
    fn beyond(&self, n: &Node, v: ge_ir::ValueRef) -> Option<String> {
        let (ranges, limits) = self.numbers?;
        if self.is_asked_for(n) {
            return None;
        }
        ranges.refusal(v, limits, self.mode.to)
    }

    /// Whether a value has a type that the mode replaces.
    pub fn replaced(&self, d: &TensorDesc) -> bool {
        self.mode.from.contains(&d.dtype) && d.container == Container::TENSOR
    }

    /// What a node would be in the other type.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn ask(&self, g: &Graph, n: &Node) -> crate::error::Result<Asked> {
        if self.structural.contains(&n.op_key()) {
            return Ok(Asked::Bound);
        }
        let Some(op) = self.toolbox.op(n.op_key()) else { return Ok(Asked::Bound) };
        let of_type = (0..n.inputs().len()).any(|i| g.input_desc(n, i).is_some_and(|d| self.replaced(d)));
        if !of_type || op.proto.flags & SHARED != 0 || !op.proto.subgraphs.is_empty() {
            return Ok(Asked::Bound);
        }
        let kept = !self.mode.keep.is_empty() && names_of(n).any(|s| self.mode.keep.contains(s));
        if kept || n.attrs().int("_keep_dtype").is_some_and(|v| v != 0) {
            return Ok(Asked::No("it is to keep its type".into()));
        }
        if self.mode.rule == Rule::CubeOnly {
            return self.ask_variants(g, n);
        }
        // First try all inputs that may change; then only those whose type an output's type
        // follows.
        let may = |i: usize, tied: bool| -> bool {
            let (Some(d), Some(p)) = (g.input_desc(n, i), spec(&op.proto.inputs, i)) else { return false };
            // A view that reinterprets bytes would yield another number in another type.
            let view = p.type_group.is_empty() && op.proto.flags & flags::VIEW != 0;
            let any = p.types.is_empty() && !view;
            let followed = |o: &ParamSpec| !o.type_group.is_empty() && o.type_group == p.type_group;
            let asked_for = !tied || op.proto.outputs.iter().any(followed);
            let value = op.proto.value_inputs.contains(&(i as u32));
            let held = n.input(i).is_none_or(|v| self.beyond(n, v).is_none());
            let held = held && !self.stays_wide(n, &op.proto, p, i);
            self.replaced(d) && (any || p.types.contains(&self.mode.to)) && !value && asked_for && held
        };
        // An input whose numbers do not fit is the reason to report if nothing else of the node can
        // change.
        let read = (0..n.inputs().len()).filter(|i| g.input_desc(n, *i).is_some_and(|d| self.replaced(d)));
        let mut why = read
            .filter_map(|i| Some(format!("its input {i} {}", self.beyond(n, n.input(i)?)?)))
            .next()
            .unwrap_or_default();
        let mut before: Option<Vec<bool>> = None;
        for tied in [false, true] {
            let inputs: Vec<bool> = (0..n.inputs().len()).map(|i| may(i, tied)).collect();
            if before.as_ref() == Some(&inputs) || !inputs.contains(&true) {
                continue;
            }
            match self.in_type(g, n, &op.proto, inputs.clone())? {
                Ok(lowered) => match self.gives_too_much(n, &lowered).or_else(|| self.loses_digits(g, n)) {
                    None => return Ok(Asked::Can(lowered)),
                    Some(no) if why.is_empty() => why = no,
                    Some(_) => {}
                },
                Err(no) if why.is_empty() => why = no,
                Err(_) => {}
            }
            before = Some(inputs);
        }
        if why.is_empty() {
            why = format!("its operator takes no {}", self.mode.to);
        }
        Ok(Asked::No(why))
    }

    /// Why the numbers of the outputs do not fit the other type; `None` if they do.
    fn gives_too_much(&self, n: &Node, l: &Lowered) -> Option<String> {
        let changed = n.outputs().iter().zip(&l.outputs).enumerate().filter(|(_, (own, t))| own.dtype != **t);
        changed.map(|(k, _)| k).find_map(|k| Some(format!("its output {k} {}", self.beyond(n, n.value(k as u32))?)))
    }

    /// Why a reader, or the node itself, needs what the other type loses; `None` if none does.
    fn loses_digits(&self, g: &Graph, n: &Node) -> Option<String> {
        let (reader, need) = self.digits?.reader(g, n).filter(|_| !self.is_asked_for(n))?;
        let (to, name, op) = (self.mode.to, reader.name(), reader.op());
        Some(match need {
            Need::Digits => {
                format!("`{name}` ({op}) needs the digits of small numbers that it makes, which {to} loses")
            }
            _ if reader.id() == n.id() => format!("its input may have large numbers whose fraction {to} loses"),
            Need::Fraction => format!("`{name}` ({op}) needs the fraction of large numbers, which {to} loses"),
            Need::Place => format!("`{name}` ({op}) reads what it makes in its own type, because {to} is too coarse"),
        })
    }

    /// Whether no mode may lower an input: the prototype says so, and no other parameter has to
    /// follow it into the type of an operator that the user has put on the white list.
    fn stays_wide(&self, n: &Node, proto: &OpProto, p: &ParamSpec, i: usize) -> bool {
        let is_tied = !p.type_group.is_empty();
        flags::is_wide(proto.flags, i) && self.is_narrowing() && !(is_tied && self.is_asked_for(n))
    }

    /// Whether the mode's type is narrower than those that it replaces.
    fn is_narrowing(&self) -> bool {
        self.mode.from.contains(&DType::F32)
    }

    /// The node with some of its inputs in the other type, or the reason why that is not possible.
    fn in_type(
        &self,
        g: &Graph,
        n: &Node,
        proto: &OpProto,
        inputs: Vec<bool>,
    ) -> crate::error::Result<Result<Lowered, String>> {
        let mut changed = WhatIf::new(g, self.toolbox);
        if let Err(why) = self.set_inputs(g, n, &inputs, &mut changed) {
            return Ok(Err(why));
        }
        let inferred = match self.toolbox.infer(&changed.graph().node(n.id())) {
            Ok(d) if d.len() == n.outputs().len() => d,
            Ok(_) => return Ok(Err("its outputs would be others".into())),
            Err(e) => return Ok(Err(e.to_string())),
        };
        let to = self.mode.to;
        let mut outputs = Vec::with_capacity(inferred.len());
        for (own, new) in n.outputs().iter().zip(&inferred) {
            let t = if new.dtype == DType::UNKNOWN { own.dtype } else { new.dtype };
            if t != own.dtype && !(t == to && self.replaced(own)) {
                return Ok(Err(format!("it would give {t} instead of {}", own.dtype)));
            }
            outputs.push(t);
        }
        // All parameters of a group must have one type.
        let mut groups: Vec<(&str, DType)> = Vec::new();
        let ins = inputs
            .iter()
            .enumerate()
            .filter_map(|(i, low)| Some((spec(&proto.inputs, i)?, if *low { to } else { g.input_desc(n, i)?.dtype })));
        let outs = outputs.iter().enumerate().filter_map(|(k, t)| Some((spec(&proto.outputs, k)?, *t)));
        for (p, t) in ins.chain(outs).filter(|(p, _)| !p.type_group.is_empty()) {
            match groups.iter().find(|(name, _)| *name == p.type_group.as_str()) {
                Some((_, first)) if *first != t => {
                    return Ok(Err(format!("`{}` would be {t}, others of its group {first}", p.name)));
                }
                Some(_) => {}
                None => groups.push((&p.type_group, t)),
            }
        }
        changed.set_outputs(n.id(), retyped(n, &outputs));
        let moves = inputs.iter().enumerate().filter(|(_, low)| **low).all(|(i, _)| {
            spec(&proto.inputs, i).is_some_and(|p| p.types.is_empty()) && proto.flags & flags::ELEMENTWISE == 0
        });
        let moves = moves || n.op() == "Cast";
        Ok(self.engines(g, n, &changed)?.map(|()| Lowered { inputs, outputs, moves, own_output: false }))
    }

    fn set_inputs(&self, g: &Graph, n: &Node, inputs: &[bool], changed: &mut WhatIf<'_>) -> Result<(), String> {
        for (i, v) in n.inputs().iter().enumerate().filter(|(i, _)| inputs[*i]) {
            // An engine cannot be shown one value in two types.
            if n.inputs().iter().zip(inputs).any(|(w, low)| w == v && !low) {
                return Err(format!("input {i} is read in another type too"));
            }
            if let Some(d) = g.desc(*v) {
                changed.set(*v, TensorDesc { dtype: self.mode.to, ..d.clone() });
            }
        }
        Ok(())
    }

    /// The engines that may be asked about a node, best first.
    fn of(&self, n: &Node) -> Vec<EngineId> {
        match n.attrs().str("_engine") {
            Some(name) => self.toolbox.engine_named(name).into_iter().collect(),
            None => {
                let all = self.ranks.of(n.op_key()).iter().copied();
                all.filter(|id| self.toolbox.engine(*id).excluded.is_none()).collect()
            }
        }
    }

    /// Whether an engine takes the changed node and is no worse than every engine that takes the
    /// node as it is. Otherwise returns the reason.
    fn engines(&self, g: &Graph, n: &Node, changed: &WhatIf<'_>) -> crate::error::Result<Result<(), String>> {
        let engines = self.of(n);
        let mut why = String::new();
        let view = changed.graph();
        let own = WhatIf::new(g, self.toolbox);
        let own = own.graph();
        let best = self.toolbox.cheapest(engines.iter().copied(), &view.node(n.id()), |e, r| {
            if why.is_empty() {
                why = format!("{}: {r}", e.info.name);
            }
        })?;
        let Some((best, least)) = best else {
            return Ok(Err(if why.is_empty() { "no engine has its type".into() } else { why }));
        };
        // Whether this engine takes the node as it is at a cost of at most `most`.
        let as_it_is = |id: &EngineId, most: u32| -> crate::error::Result<bool> {
            let e = self.toolbox.engine(*id);
            let enough = e.info.cost <= most;
            Ok(enough && e.object.supports(&own.node(n.id()))?.cost(e.info.cost).is_some_and(|c| c <= most))
        };
        for id in engines.iter().filter(|id| **id != best && least > 0) {
            if as_it_is(id, least - 1)? {
                return Ok(Err(format!("{why}; as it is that engine takes it")));
            }
        }
        if self.mode.rule == Rule::Needed {
            for id in &engines {
                if as_it_is(id, least)? {
                    let e = self.toolbox.engine(*id);
                    return Ok(Err(format!("{} takes it as it is", e.info.name)));
                }
            }
        }
        Ok(Ok(()))
    }

    /// The cheapest variant, from the first engine that has one, that reads the narrow type and
    /// returns the node's own types.
    fn ask_variants(&self, g: &Graph, n: &Node) -> crate::error::Result<Asked> {
        let (own, to) = (WhatIf::new(g, self.toolbox), self.mode.to);
        let own_output = self.toolbox.op(n.op_key()).is_some_and(|o| says_its_type(&o.proto));
        let proto_flags = self.toolbox.op_flags(n.op_key());
        let view = own.graph();
        for id in self.of(n) {
            let e = self.toolbox.engine(id);
            let offered = e.object.variants(&view.node(n.id()), &self.toolbox.target)?;
            let fits = |v: &&Variant| {
                let ins =
                    n.inputs().iter().enumerate().all(|(i, _)| match (v.input_types.get(i), g.input_desc(n, i)) {
                        (Some(t), Some(d)) => {
                            let lowered = *t == to && self.replaced(d) && !flags::is_wide(proto_flags, i);
                            *t == DType::UNKNOWN || *t == d.dtype || lowered
                        }
                        (Some(_), None) => true,
                        (None, _) => false,
                    });
                let outs = n
                    .outputs()
                    .iter()
                    .enumerate()
                    .all(|(k, d)| v.output_types.get(k).is_some_and(|t| *t == DType::UNKNOWN || *t == d.dtype));
                let plain =
                    v.input_formats.iter().zip(n.inputs()).all(|(f, x)| g.desc(*x).is_none_or(|d| d.format == *f));
                ins && outs && plain && v.input_types.contains(&to)
            };
            if let Some(v) = offered.iter().filter(fits).min_by_key(|v| v.cost) {
                let inputs = (0..n.inputs().len()).map(|i| v.input_types.get(i) == Some(&to)).collect();
                let outputs = n.outputs().iter().map(|d| d.dtype).collect();
                return Ok(Asked::Can(Lowered { inputs, outputs, moves: false, own_output }));
            }
        }
        Ok(Asked::No(format!("no engine offers to read {to} and give its own type")))
    }
}

/// Whether output 0 of an operator may have a type other than that of the inputs.
pub fn says_its_type(proto: &OpProto) -> bool {
    proto.attrs.iter().any(|a| a.name.as_str() == Y_DTYPE)
}

/// A node's outputs with the types in `types`.
pub fn retyped(n: &Node, types: &[DType]) -> Vec<TensorDesc> {
    n.outputs().iter().zip(types).map(|(d, t)| TensorDesc { dtype: *t, ..d.clone() }).collect()
}
