//! Growing state: outputs of a run that are inputs of the next one (`ge compile --state OUT:IN,…`).
//! A step hands its state on in place in memory; no step copies it. A cache that a decoder appends
//! to has room at its end, and each step writes the new part there.
use super::Model;
use crate::options::{constant_inputs, unknown_name};
use crate::{Diagnostic, Error, Result};
use ge_compiler::feature::born::Born;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_plugin_api::types::tensor::Container;
use ge_runtime::v2::{Given, Made, State};
use ge_runtime::{RunOptions, RunOutcome};

/// The option that stores the pairs in an OM.
pub const STATE: &str = "ge.x.state";

/// An output, and the input that it becomes in the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index of the output.
    pub output: usize,
    /// Index of the input.
    pub input: usize,
}

/// Parses `OUT:IN,OUT:IN` using the input and output names of a model.
///
/// # Errors
/// `usage` if a name is unknown or occurs twice, or if the types and sizes of a pair do not match.
pub fn pairs(m: &CompiledModel, text: &str) -> Result<Vec<Pair>> {
    let mut out: Vec<Pair> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let output = |n: &str| m.outputs.iter().position(|o| o.name == n.trim());
        let input = |n: &str| m.inputs.iter().position(|i| i.name == n.trim());
        // Names may contain colons, so every colon is tried as the separator.
        let cuts = part.match_indices(':').map(|(at, _)| (&part[..at], &part[at + 1..]));
        let found = cuts.clone().find_map(|(a, b)| Some(Pair { output: output(a)?, input: input(b)? }));
        let Some(pair) = found else {
            let Some((a, b)) = part.split_once(':') else {
                return Err(bad(format!("`--state` has an entry that cannot be read: `{part}`"), part, "OUTPUT:INPUT"));
            };
            let constant = m.constant_inputs().into_iter().find(|(name, _)| part.ends_with(&format!(":{name}")));
            return Err(if let Some(constant) = constant {
                constant_inputs(&[constant], "a state")
            } else if output(a).is_none() {
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
                &Born::told(o),
                &Born::told(i),
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
/// `damaged` if the stored option does not match the model's inputs and outputs.
pub fn of(m: &CompiledModel) -> Result<Vec<Pair>> {
    pairs(m, m.options.get(STATE).map_or("", String::as_str))
        .map_err(|e| Error::damaged(format!("the state of the model does not fit it: {e}")))
}

/// The state before the first step if it is not set: zeros. A named size that occurs in one of the
/// given inputs is taken from it. Other open sizes are the smallest of their range, or 0 without a
/// range.
///
/// # Errors
/// Fails if the input is of unknown rank or if memory cannot be allocated.
fn initial_beside(m: &CompiledModel, input: usize, given: &[(usize, &[u64])]) -> Result<HostTensor> {
    let i = m.inputs.get(input).ok_or_else(|| Error::internal("a state without an input"))?;
    if i.desc.shape.is_unranked() {
        return Err(Error::usage(format!("state `{}` is of unknown rank: give its first value", i.name)));
    }
    let size = |(k, d): (usize, &ge_ir::Dim)| {
        let key = d.symbol_name().map_or_else(|| format!("{}:{k}", i.name), str::to_owned);
        let sizes = given.iter().filter_map(|(i, sizes)| Some((m.inputs.get(*i)?.desc.shape.dims(), sizes)));
        let mut named = sizes.flat_map(|(dims, sizes)| dims.iter().zip(sizes.iter()));
        let theirs = d.symbol_name().and_then(|_| named.find(|(of, _)| of.same(*d)).map(|(_, size)| *size));
        d.size().or(theirs).unwrap_or_else(|| m.ranges.get(&key).map_or(0, |r| r.0))
    };
    let dims: Vec<u64> = i.desc.shape.dims().iter().enumerate().map(size).collect();
    HostTensor::zeroed(i.desc.dtype, &dims)
}

/// Minimum number of rows of a new room, unless the range of the dimension is smaller.
const ROOM: u64 = 64;

/// State kept between two steps.
enum Kept {
    /// The tensor as the previous step returned it.
    Tensor(HostTensor),
    /// In memory with room at its end, where the next step appends.
    Room(State),
}

impl Kept {
    fn dtype(&self) -> DType {
        match self {
            Kept::Tensor(t) => t.dtype,
            Kept::Room(s) => s.dtype(),
        }
    }
    fn dims(&self) -> &[u64] {
        match self {
            Kept::Tensor(t) => &t.dims,
            Kept::Room(s) => s.dims(),
        }
    }
}

/// Description of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// Element type.
    pub dtype: DType,
    /// Current sizes.
    pub dims: Vec<u64>,
    /// Sizes that its memory has room for; `None`: it does not grow in place.
    pub room: Option<Vec<u64>>,
}

/// Runs a model step by step: each step takes the state that the previous one left.
pub struct Steps<'m> {
    model: &'m Model,
    pairs: Vec<Pair>,
    /// The state, by pair. Before the first step: what was set.
    held: Vec<Option<Kept>>,
    begun: bool,
    copied: usize,
    /// Bytes of state that were copied in rooms that no longer exist.
    moved: u64,
    taken: u64,
}

impl<'m> Steps<'m> {
    /// Creates the steps. State that is not [set](Self::set) gets its initial value in the first
    /// step.
    ///
    /// # Errors
    /// Fails if the model has neither state nor variables, or if an input or output is no tensor.
    pub fn new(model: &'m Model) -> Result<Steps<'m>> {
        let pairs = of(model.info())?;
        if pairs.is_empty() && model.info().memory.variables == 0 {
            return Err(Diagnostic::error("the model has no state that steps could carry on, and no variable")
                .help("compile it with `ge compile --state OUTPUT:INPUT,…`")
                .raise(ge_codes::STATE));
        }
        let info = model.info();
        let all = info.inputs.iter().chain(&info.outputs);
        if let Some(i) = all.into_iter().find(|i| i.desc.container != Container::TENSOR) {
            return Err(Error::unsupported(format!(
                "steps take models whose inputs and outputs are tensors, and `{}` is a sequence or an optional",
                i.name
            )));
        }
        let held = pairs.iter().map(|_| None).collect();
        Ok(Steps { model, held, begun: false, pairs, copied: 0, moved: 0, taken: 0 })
    }
    /// The pairs of output and input.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }
    /// The current state, in the order of the pairs. Before the first step: what was set.
    pub fn info(&self) -> Vec<StateInfo> {
        let one = |k: &Kept| StateInfo {
            dtype: k.dtype(),
            dims: k.dims().to_vec(),
            room: match k {
                Kept::Tensor(_) => None,
                Kept::Room(s) => Some(s.room()),
            },
        };
        self.held.iter().flatten().map(one).collect()
    }
    /// Copies the current state, in the order of the pairs. Before the first step: what was set.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated.
    pub fn state(&self) -> Result<Vec<HostTensor>> {
        let one = |k: &Kept| match k {
            Kept::Tensor(t) => HostTensor::from_bytes(t.dtype, &t.dims, t.bytes()),
            Kept::Room(s) => s.to_host().map_err(|e| e.into_error()),
        };
        self.held.iter().flatten().map(one).collect()
    }
    /// Sets the state of an input. Returns false if the input is not a state.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated.
    pub fn set(&mut self, input: usize, value: HostTensor) -> Result<bool> {
        let Some(k) = self.pairs.iter().position(|p| p.input == input) else { return Ok(false) };
        self.drop_room(k);
        let kept = self.keep(k, value)?;
        self.held[k] = Some(kept);
        Ok(true)
    }
    /// Number of steps taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }
    /// Number of inputs copied in all steps; state is never copied.
    pub fn copied_inputs(&self) -> usize {
        self.copied
    }
    /// Bytes copied so far for states that grow in place: because their room was full, or because a
    /// reader needed the state without its room.
    pub fn copied_state_bytes(&self) -> u64 {
        let rooms = self.held.iter().flatten().map(|k| if let Kept::Room(s) = k { s.copied_bytes() } else { 0 });
        self.moved + rooms.sum::<u64>()
    }
    /// Whether an input is a state.
    pub fn carries(&self, input: usize) -> bool {
        self.pairs.iter().any(|p| p.input == input)
    }

    /// Stores a tensor as the state of a pair; if it can grow in place, in memory with room. Rooms
    /// double in size, within the range stated for that dimension.
    fn keep(&self, pair: usize, t: HostTensor) -> Result<Kept> {
        let p = self.pairs[pair];
        let Some(axis) = self.model.grows_along(p.output, p.input, &t) else { return Ok(Kept::Tensor(t)) };
        let rows = t.dims.get(axis).copied().unwrap_or(0);
        let i = &self.model.info().inputs[p.input];
        let letter = i.desc.shape.dims().get(axis).and_then(|d| d.symbol_name());
        let key = letter.map_or_else(|| format!("{}:{axis}", i.name), str::to_owned);
        let most = self.model.info().ranges.get(&key).map_or(u64::MAX, |r| r.1);
        let room = rows.saturating_mul(2).max(ROOM).min(most).max(rows);
        State::new(&t.view(), axis, room).map(Kept::Room).map_err(|e| e.into_error())
    }
    /// Drops the room of a pair. The bytes copied in it still count.
    fn drop_room(&mut self, pair: usize) {
        if let Some(Some(Kept::Room(s))) = self.held.get(pair) {
            self.moved += s.copied_bytes();
        }
        self.held[pair] = None;
    }

    /// Makes the initial values of the state that is not set.
    fn begin(&mut self, others: &[HostTensor]) -> Result<()> {
        let info = self.model.info();
        let plain = (0..info.inputs.len()).filter(|k| !self.carries(*k)).zip(others.iter().map(|t| &t.dims[..]));
        let set = self.pairs.iter().zip(&self.held).filter_map(|(p, kept)| Some((p.input, kept.as_ref()?.dims())));
        let mut given: Vec<(usize, &[u64])> = plain.chain(set).collect();
        given.sort_by_key(|(k, _)| *k);
        let lacks = self.pairs.iter().zip(&self.held).filter(|(_, kept)| kept.is_none()).map(|(p, _)| p.input);
        let first = lacks.map(|k| Ok((k, initial_beside(info, k, &given)?))).collect::<Result<Vec<_>>>()?;
        for (k, value) in first {
            self.set(k, value)?;
        }
        self.begun = true;
        Ok(())
    }

    /// Runs one step. `others` are the inputs that are not state, in graph order. Returns the
    /// outputs, with `None` for those that became state.
    ///
    /// # Errors
    /// Fails if the run fails, or if the initial value of a state is neither set nor known. The
    /// state is then unchanged, unless the model writes over it.
    pub fn step(
        &mut self,
        others: Vec<HostTensor>,
        options: RunOptions,
    ) -> Result<(Vec<Option<HostTensor>>, RunOutcome)> {
        let wanted = self.model.info().inputs.len().saturating_sub(self.pairs.len());
        if others.len() < wanted {
            let lacks = (0..self.model.info().inputs.len()).filter(|k| !self.carries(*k)).nth(others.len());
            let name = lacks.map_or("", |k| self.model.info().inputs[k].name.as_str());
            return Err(Error::usage(format!("step {}: input `{name}` is not given", self.taken)));
        }
        if others.len() > wanted {
            return Err(Error::usage(format!(
                "step {}: {} inputs are given, the model takes {wanted} beside its state",
                self.taken,
                others.len()
            )));
        }
        if !self.begun {
            self.begin(&others)?;
        }
        let (outputs, out) =
            if self.model.is_dynamic() { self.of_rooms(&others, options)? } else { self.whole(others, options)? };
        self.copied += out.copied_inputs;
        self.taken += 1;
        Ok((outputs, out))
    }

    /// A step of a model of known shapes: state is passed to the run by value and comes back, also
    /// if the run fails.
    fn whole(&mut self, others: Vec<HostTensor>, options: RunOptions) -> Result<(Vec<Option<HostTensor>>, RunOutcome)> {
        let mut others = others.into_iter();
        let mut inputs: Vec<HostTensor> = Vec::with_capacity(self.model.info().inputs.len());
        for k in 0..self.model.info().inputs.len() {
            let next = match self.pairs.iter().position(|p| p.input == k) {
                Some(s) => match self.held[s].take() {
                    Some(Kept::Tensor(t)) => Some(t),
                    _ => None,
                },
                None => others.next(),
            };
            inputs.push(next.ok_or_else(|| Error::internal("a state is not there"))?);
        }
        let ran = self.model.run_taking(&mut inputs, options);
        if ran.is_err() {
            for (k, t) in inputs.into_iter().enumerate() {
                if let Some(s) = self.pairs.iter().position(|p| p.input == k) {
                    self.held[s] = Some(Kept::Tensor(t));
                }
            }
        }
        let mut out = ran?;
        let mut outputs: Vec<Option<HostTensor>> = std::mem::take(&mut out.outputs).into_iter().map(Some).collect();
        for (p, held) in self.pairs.iter().zip(&mut self.held) {
            *held = outputs.get_mut(p.output).and_then(Option::take).map(Kept::Tensor);
        }
        Ok((outputs, out))
    }

    /// A step of a model of unknown shapes: state stays in place and may grow.
    fn of_rooms(
        &mut self,
        others: &[HostTensor],
        options: RunOptions,
    ) -> Result<(Vec<Option<HostTensor>>, RunOutcome)> {
        let mut others = others.iter();
        let mut given: Vec<Given<'_>> = Vec::with_capacity(self.model.info().inputs.len());
        for k in 0..self.model.info().inputs.len() {
            given.push(match self.pairs.iter().position(|p| p.input == k).map(|s| &self.held[s]) {
                Some(Some(Kept::Room(s))) => Given::State(s),
                Some(Some(Kept::Tensor(t))) => Given::Tensor(t.view()),
                Some(None) => return Err(Error::internal("a state is not there")),
                None => Given::Tensor(others.next().ok_or_else(|| Error::internal("an input is not there"))?.view()),
            });
        }
        let (out, made) = self.model.run_step(&given, options)?;
        let mut made: Vec<Option<Made>> = made.into_iter().map(Some).collect();
        for k in 0..self.pairs.len() {
            let next = match made.get_mut(self.pairs[k].output).and_then(Option::take) {
                // The state still lives in the same room.
                Some(Made::State(s)) => Kept::Room(s),
                Some(Made::Tensor(t)) => {
                    self.drop_room(k);
                    self.keep(k, t)?
                }
                _ => return Err(Error::internal("a state is not given")),
            };
            self.held[k] = Some(next);
        }
        let mut outputs = Vec::with_capacity(made.len());
        for m in made {
            outputs.push(match m {
                None => None,
                Some(Made::Tensor(t)) => Some(t),
                Some(Made::State(s)) => Some(s.to_host().map_err(|e| e.into_error())?),
                Some(Made::Sequence(_) | Made::Nothing) => {
                    return Err(Error::unsupported("steps take models whose outputs are tensors"));
                }
            });
        }
        Ok((outputs, out))
    }
}
