//! Growing state: outputs of a run that are inputs of the next one (`ge compile --state OUT:IN,…`).
//! What a step gives is handed on as it lies in memory: no step copies what the last one left.
use super::Model;
use crate::options::unknown_name;
use crate::{Diagnostic, Error, Result};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_runtime::{RunOptions, RunOutcome};

/// The option that keeps the pairs in an OM.
pub const STATE: &str = "ge.x.state";

/// An output, and the input that it is in the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Number of the output.
    pub output: usize,
    /// Number of the input.
    pub input: usize,
}

/// Reads `OUT:IN,OUT:IN` against the names of a model.
///
/// # Errors
/// `usage`: names that are not there or stand twice, types and sizes that cannot be one value's.
pub fn pairs(m: &CompiledModel, text: &str) -> Result<Vec<Pair>> {
    let mut out: Vec<Pair> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let output = |n: &str| m.outputs.iter().position(|o| o.name == n.trim());
        let input = |n: &str| m.inputs.iter().position(|i| i.name == n.trim());
        // A name may have colons of its own.
        let cuts = part.match_indices(':').map(|(at, _)| (&part[..at], &part[at + 1..]));
        let found = cuts.clone().find_map(|(a, b)| Some(Pair { output: output(a)?, input: input(b)? }));
        let Some(pair) = found else {
            let Some((a, b)) = part.split_once(':') else {
                return Err(bad(format!("`--state` has an entry that cannot be read: `{part}`"), part, "OUTPUT:INPUT"));
            };
            return Err(if output(a).is_none() {
                unknown_name("output of --state", a, m.outputs.iter().map(|o| o.name.as_str()))
            } else {
                unknown_name("input of --state", b, m.inputs.iter().map(|i| i.name.as_str()))
            });
        };
        if out.iter().any(|p| p.output == pair.output || p.input == pair.input) {
            return Err(bad("`--state` names an output or input twice".into(), part, "each once"));
        }
        let (o, i) = (&m.outputs[pair.output].desc, &m.inputs[pair.input].desc);
        let dims = o.shape.dims().iter().zip(i.shape.dims());
        let ranks = o.shape.is_unranked() || i.shape.is_unranked() || o.shape.rank() == i.shape.rank();
        if o.dtype != i.dtype || !ranks || dims.into_iter().any(|(a, b)| a.is_known() && b.is_known() && a != b) {
            return Err(bad(
                format!(
                    "output `{}` cannot be input `{}` of the next step",
                    m.outputs[pair.output].name, m.inputs[pair.input].name
                ),
                &format!("{}{}", o.dtype, o.shape),
                &format!("{}{}", i.dtype, i.shape),
            ));
        }
        out.push(pair);
    }
    Ok(out)
}

fn bad(text: String, found: &str, expected: &str) -> Error {
    Diagnostic::error(text)
        .found(found, expected)
        .help("for example `--state present_key:past_key,present_value:past_value`; `ge inspect` lists inputs and outputs")
        .raise(ge_codes::STATE)
}

/// The pairs that a model was compiled with.
///
/// # Errors
/// `damaged`: its option does not name its inputs and outputs.
pub fn of(m: &CompiledModel) -> Result<Vec<Pair>> {
    pairs(m, m.options.get(STATE).map_or("", String::as_str))
        .map_err(|e| Error::damaged(format!("the state of the model does not fit it: {e}")))
}

/// What a model's state is before the first step: zeros, and nothing where a size is open.
///
/// # Errors
/// An input of unknown rank, memory that cannot be had.
pub fn initial(m: &CompiledModel, input: usize) -> Result<HostTensor> {
    let i = m.inputs.get(input).ok_or_else(|| Error::internal("a state without an input"))?;
    if i.desc.shape.is_unranked() {
        return Err(Error::usage(format!("state `{}` is of unknown rank: give its first value", i.name)));
    }
    let size = |(k, d): (usize, &ge_ir::Dim)| {
        let key = d.symbol_name().map_or_else(|| format!("{}:{k}", i.name), str::to_owned);
        d.size().unwrap_or_else(|| m.ranges.get(&key).map_or(0, |r| r.0))
    };
    let dims: Vec<u64> = i.desc.shape.dims().iter().enumerate().map(size).collect();
    HostTensor::zeroed(i.desc.dtype, &dims)
}

/// Steps of a model: each takes what the last one left.
pub struct Steps<'m> {
    model: &'m Model,
    pairs: Vec<Pair>,
    held: Vec<Option<HostTensor>>,
    copied: usize,
    taken: u64,
}

impl<'m> Steps<'m> {
    /// Before the first step, with the initial state.
    ///
    /// # Errors
    /// The model has no state, or its first value is not known.
    pub fn new(model: &'m Model) -> Result<Steps<'m>> {
        let pairs = of(model.info())?;
        if pairs.is_empty() {
            return Err(Diagnostic::error("the model has no state that steps could carry on")
                .help("compile it with `ge compile --state OUTPUT:INPUT,…`")
                .raise(ge_codes::STATE));
        }
        let held = pairs.iter().map(|p| initial(model.info(), p.input).map(Some)).collect::<Result<_>>()?;
        Ok(Steps { model, pairs, held, copied: 0, taken: 0 })
    }
    /// The pairs of output and input.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }
    /// The state as the next step takes it, in the order of the pairs.
    pub fn state(&self) -> impl Iterator<Item = &HostTensor> {
        self.held.iter().flatten()
    }
    /// Sets the state of an input; false: it is none.
    pub fn set(&mut self, input: usize, value: HostTensor) -> bool {
        let at = self.pairs.iter().position(|p| p.input == input);
        at.and_then(|k| self.held.get_mut(k)).map(|h| *h = Some(value)).is_some()
    }
    /// Steps taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }
    /// Inputs that were copied, of all steps: state is handed on and never is.
    pub fn copied_inputs(&self) -> usize {
        self.copied
    }
    /// Whether an input is a state.
    pub fn carries(&self, input: usize) -> bool {
        self.pairs.iter().any(|p| p.input == input)
    }

    /// One step; `others` are the inputs that are no state, in graph order. The outputs, None for
    /// what is state now.
    ///
    /// # Errors
    /// What a run fails with; the state is then what it was, unless the model writes over it.
    pub fn step(
        &mut self,
        others: Vec<HostTensor>,
        options: RunOptions,
    ) -> Result<(Vec<Option<HostTensor>>, RunOutcome)> {
        let mut others = others.into_iter();
        let mut inputs: Vec<HostTensor> = Vec::with_capacity(self.model.info().inputs.len());
        for k in 0..self.model.info().inputs.len() {
            let state = self.pairs.iter().position(|p| p.input == k);
            let next = match state {
                Some(s) => self.held.get_mut(s).and_then(Option::take),
                None => others.next(),
            };
            let name = &self.model.info().inputs[k].name;
            inputs.push(next.ok_or_else(|| Error::usage(format!("step {}: input `{name}` is not given", self.taken)))?);
        }
        let mut out = if self.model.is_dynamic() {
            let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
            match self.model.run_views(&views, options) {
                Ok(out) => out,
                Err(e) => {
                    // The state is still there: the next step may be another one.
                    let mut inputs: Vec<Option<HostTensor>> = inputs.into_iter().map(Some).collect();
                    for (p, held) in self.pairs.iter().zip(&mut self.held) {
                        *held = inputs.get_mut(p.input).and_then(Option::take);
                    }
                    return Err(e);
                }
            }
        } else {
            self.model.run_owned(inputs, options)?
        };
        let mut outputs: Vec<Option<HostTensor>> = std::mem::take(&mut out.outputs).into_iter().map(Some).collect();
        for (p, held) in self.pairs.iter().zip(&mut self.held) {
            *held = outputs.get_mut(p.output).and_then(Option::take);
        }
        self.copied += out.copied_inputs;
        self.taken += 1;
        Ok((outputs, out))
    }
}
