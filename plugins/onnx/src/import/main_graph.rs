//! The main graph of a model: operator sets, inputs with their defaults, outputs.
use super::{Building, Env, Importer, damaged, domain};
use crate::contradictions;
use crate::defaults::{self, Defaults};
use crate::inputs;
use crate::proto::GraphProto;
use crate::scope::Known;
use crate::unroll::Budget;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::frontend::ImportOptions;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{NodeId, TensorDesc, ValueRef};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Oldest supported operator set.
const OLDEST: u32 = 1;
/// Newest operator set whose operators were reviewed.
const NEWEST: u32 = 28;

impl Importer<'_> {
    /// Builds all graphs; the first is the main one, which has no name.
    pub fn run(mut self, options: &ImportOptions) -> Result<Vec<(Option<String>, Patch)>> {
        let graph = self.model.graph.as_ref().ok_or_else(|| damaged("the model has no graph".into()))?;
        let opsets = self.opsets()?;
        let mut g = Building::new();
        // Reserve one value per node and initializer, and an edit for most of them.
        let values = self.main.len() + graph.initializer.len();
        g.scope.reserve(values);
        g.builder.patch().reserve(values);
        self.initializers(graph, &mut g)?;
        self.inputs(graph, options, &mut g)?;
        let env = Env {
            opsets,
            attrs: None,
            prefix: String::new(),
            rename: None,
            depth: 0,
            unrolled: Budget::of_model(),
            turn: None,
        };
        // Nodes are decoded one at a time: a decoded node takes more memory than its bytes in the
        // file.
        self.in_order(self.main.len(), |im, k| im.main.get(k).map(Cow::Owned), &mut g, &env)?;
        let outs = self.outputs(graph, &mut g)?;
        if !self.problems.is_empty() {
            return Err(Error::all(ErrorKind::UNSUPPORTED, self.problems));
        }
        if outs.is_empty() {
            return Err(damaged("the model has no outputs".into()));
        }
        g.builder.outputs(&outs);
        let mut all = vec![(None, g.into_patch())];
        all.append(&mut self.subgraphs);
        Ok(all)
    }

    /// The operator sets that the model imports, by domain.
    fn opsets(&self) -> Result<BTreeMap<String, u32>> {
        let mut m = BTreeMap::new();
        for o in &self.model.opset_import {
            let v = u32::try_from(o.version)
                .map_err(|_| damaged(format!("opset {} of `{}`", o.version, domain(&o.domain))))?;
            m.insert(domain(&o.domain).to_owned(), v);
        }
        match m.get("ai.onnx") {
            Some(&v) if v < OLDEST => Err(Diagnostic::error(format!("the model uses opset {v} of ai.onnx"))
                .found(v.to_string(), format!("{OLDEST} or newer"))
                .help("convert it: python -c \"import onnx; from onnx import version_converter; …convert_version(model, 17)\"")
                .raise(ge_plugin_api::diagnostic::NOT_MAPPED)),
            Some(&v) if v > NEWEST => {
                let text = format!(
                    "the model says opset {v} of ai.onnx, this front end knows opsets up to {NEWEST}: newer meanings of operators are not \
                     known to it"
                );
                ge_plugin_api::services::log(ge_plugin_api::services::Level::WARN, &text);
                Ok(m)
            }
            _ => Ok(m),
        }
    }

    /// Adds the inputs. One with an initializer is a constant, unless the user asks for it as an
    /// input.
    fn inputs(&mut self, graph: &GraphProto, options: &ImportOptions, g: &mut Building) -> Result<()> {
        let mut ins = Vec::new();
        let mut defaults = Defaults::default();
        for v in &graph.input {
            if g.scope.contains_key(&v.name) {
                let asked = options.input_shapes.iter().any(|s| s.name == v.name.as_str());
                let known = if asked { g.scope.remove(&v.name) } else { None };
                let Some(value) = known.and_then(|k| k.constant) else {
                    defaults.left_out(v);
                    continue;
                };
                defaults.keep(&v.name, value);
            }
            match inputs::declared(v) {
                Ok(d) => {
                    let d = defaults.typed(&v.name, d);
                    contradictions::input(&v.name, &d)?;
                    ins.push((v.name.clone(), d));
                }
                Err(e) => {
                    self.problem(e)?;
                    g.scope.insert(v.name.clone(), refused());
                }
            }
        }
        inputs::settle_names(&mut ins);
        inputs::apply(&mut ins, options)?;
        for (i, (name, desc)) in ins.into_iter().enumerate() {
            let index = u32::try_from(i).map_err(|_| damaged("too many inputs".into()))?;
            self.input(index, name, desc, &mut defaults, g)?;
        }
        defaults.tell(g.builder.patch());
        Ok(())
    }

    /// Adds one input, with its default value if it has one.
    fn input(
        &mut self,
        index: u32,
        name: String,
        desc: TensorDesc,
        defaults: &mut Defaults,
        g: &mut Building,
    ) -> Result<()> {
        let node = self.take_name(&name);
        let value = g.builder.data(&node, index, desc.clone());
        if let Some(default) = defaults.of(&name, &desc) {
            g.builder.patch().set_attr(value.node, defaults::VALUE, default);
        }
        self.tensor_names.insert(&name);
        if node != name {
            g.provenance.name(value, &name);
        }
        match g.scope.insert(name.clone(), Known::new(value, desc)) {
            Some(_) => Err(damaged(format!("two inputs are named `{name}`"))),
            None => Ok(()),
        }
    }

    /// The outputs by name. Those that are not tensors are kept as problems, unless a node that was
    /// refused makes them: its reason is more useful. Dictionaries of a `ZipMap` are a matrix here.
    fn outputs(&mut self, graph: &GraphProto, g: &mut Building) -> Result<Vec<(String, ValueRef)>> {
        let mut outs = Vec::new();
        for o in &graph.output {
            let declared = inputs::declared(o);
            let known = self.stood_in.contains(&o.name) || inputs::is_list_of_maps(o) && self.is_zipped(&o.name)?;
            if let Some(e) = declared.as_ref().err().filter(|_| !known) {
                self.problem(e.clone())?;
                continue;
            }
            let k = self.read_value(g, &o.name).map_err(|e| e.with(|d| d.note("it is an output of the model")))?;
            if let Ok(declared) = declared {
                contradictions::output(&o.name, &declared, &k.desc)?;
            }
            outs.push((o.name.clone(), k.value));
        }
        Ok(outs)
    }

    /// Whether a `ZipMap` makes a value: its mapping gives the matrix in place of dictionaries.
    fn is_zipped(&self, value: &str) -> Result<bool> {
        for k in 0..self.main.len() {
            let n = self.main.get(k)?;
            if n.output.iter().any(|o| o == value) {
                return Ok(n.op_type == "ZipMap" && n.domain == "ai.onnx.ml");
            }
        }
        Ok(false)
    }
}

/// The value of a refused input: its readers are still checked, and the import fails at the end.
fn refused() -> Known {
    Known::new(ValueRef::new(NodeId(0), 0), TensorDesc::unknown())
}
