//! A loaded model: it is `Send + Sync` and runs from any number of threads.
use crate::{Error, Result};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{ConstTensor, DType, Dim, TensorDesc};
use ge_runtime::v2::{Given, Made};
use ge_runtime::{DynamicModel, LoadedModel, RunOptions, RunOutcome};
use std::collections::BTreeMap;

/// A model loaded on a device.
pub struct Model {
    loaded: Loaded,
}

/// The executor that runs the model.
enum Loaded {
    /// All shapes are known: the device holds one sealed model. A model with gears may have a
    /// second one for sizes outside its gears.
    Static(Box<LoadedModel>, Option<Box<DynamicModel>>),
    /// Shapes are settled by each run. A model with gears may again have a second one.
    Dynamic(Box<DynamicModel>, Option<Box<DynamicModel>>),
}

impl Model {
    pub(crate) fn new(loaded: LoadedModel) -> Model {
        Model { loaded: Loaded::Static(Box::new(loaded), None) }
    }
    /// Creates a model with gears, and with a second model for sizes outside the gears.
    pub(crate) fn hybrid(gears: LoadedModel, outside: DynamicModel) -> Model {
        Model { loaded: Loaded::Static(Box::new(gears), Some(Box::new(outside))) }
    }
    /// Creates a model whose shapes are settled by each run. `outside` runs sizes outside the
    /// gears, if there are gears.
    pub(crate) fn dynamic(loaded: DynamicModel, outside: Option<DynamicModel>) -> Model {
        Model { loaded: Loaded::Dynamic(Box::new(loaded), outside.map(Box::new)) }
    }
    /// The parts whose shapes are settled by each run.
    fn open(&self) -> impl Iterator<Item = &DynamicModel> {
        let (own, outside) = match &self.loaded {
            Loaded::Static(_, outside) => (None, outside),
            Loaded::Dynamic(own, outside) => (Some(own), outside),
        };
        own.into_iter().chain(outside).map(|m| &**m)
    }
    /// Whether the shapes are settled by each run.
    pub fn is_dynamic(&self) -> bool {
        matches!(self.loaded, Loaded::Dynamic(..))
    }
    /// The compiled model: inputs, outputs and plans.
    pub fn info(&self) -> &ge_model::CompiledModel {
        match &self.loaded {
            Loaded::Static(m, _) => m.compiled(),
            Loaded::Dynamic(m, _) => m.compiled(),
        }
    }
    /// The compiled model that a run was of: of a model with gears, the one for sizes outside the
    /// gears, if no gear ran. What a run captured is of the graphs of this model.
    pub fn ran(&self, outcome: &RunOutcome) -> &ge_model::CompiledModel {
        let outside = match &self.loaded {
            Loaded::Static(_, outside) | Loaded::Dynamic(_, outside) => outside.as_ref(),
        };
        outside.filter(|_| outcome.gear.is_none()).map_or_else(|| self.info(), |o| o.compiled())
    }
    /// The model's physical streams, from the session's pool; empty if shapes are settled by each
    /// run.
    pub fn device_streams(&self) -> &[ge_runtime::StreamHandle] {
        match &self.loaded {
            Loaded::Static(m, _) => m.device_streams(),
            Loaded::Dynamic(..) => &[],
        }
    }
    /// Number of plans kept for shapes that were run; 0 if all shapes are known.
    pub fn plans(&self) -> usize {
        self.open().map(DynamicModel::plans).sum()
    }
    /// Number of plans that were derived from the previous plan because only sizes differed.
    pub fn plans_amended(&self) -> u64 {
        self.open().map(DynamicModel::plans_amended).sum()
    }
    /// Number of size combinations seen so far that run with launches and choices alone, without
    /// any look-up in between.
    pub fn ways(&self) -> usize {
        self.open().map(DynamicModel::ways).sum()
    }
    /// Number of iterations of loops that took the steps of an earlier one, without a plan.
    pub fn turns_repeated(&self) -> u64 {
        self.open().map(DynamicModel::turns_repeated).sum()
    }
    /// Summary of the model's streams (004 §3.1).
    pub fn stream_allocation_summary(&self) -> ge_model::StreamAllocationSummary {
        ge_model::StreamAllocationSummary::of(self.info())
    }
    /// Extended attributes that the loader keeps, by node: `_tiling_sink_task_info`,
    /// `_tiling_context_addr` (001 §3.2). Empty if shapes are settled by each run.
    pub fn ext_attrs(&self) -> Result<std::collections::BTreeMap<String, ge_plugin_api::types::AttrMap>> {
        match &self.loaded {
            Loaded::Static(m, _) => m.ext_attrs().map_err(|e| e.into_error()),
            Loaded::Dynamic(..) => Ok(Default::default()),
        }
    }
    /// Contents of a node's tiling context; `None` if its tiling does not run on the device (001
    /// §5.1).
    pub fn tiling_context(&self, node: &str) -> Result<Option<ge_plugin_api::author::tiling_sink::TilingContext>> {
        match &self.loaded {
            Loaded::Static(m, _) => m.tiling_context(node).map_err(|e| e.into_error()),
            Loaded::Dynamic(..) => Ok(None),
        }
    }
    /// Runs the model once; `inputs` are in the graph's input order.
    pub fn run(&self, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
        Ok(self.run_views(&views, RunOptions::default())?.outputs)
    }
    /// Takes back outputs of earlier runs that are no longer needed, so that later runs reuse their
    /// memory without clearing it.
    pub fn give_back(&self, outputs: Vec<HostTensor>) {
        match &self.loaded {
            Loaded::Static(m, _) => m.give_back(outputs),
            Loaded::Dynamic(m, _) => m.give_back(outputs),
        }
    }
    /// Runs the model once and returns everything that a run reports.
    pub fn run_views(&self, inputs: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome> {
        match &self.loaded {
            Loaded::Static(m, outside) => match outside.as_ref().filter(|_| !m.has_gear_of(inputs)) {
                Some(outside) => outside.run(inputs, options),
                None => m.run(inputs, options),
            },
            Loaded::Dynamic(m, None) => m.run(inputs, options),
            Loaded::Dynamic(m, Some(outside)) => {
                let given: Vec<Given<'_>> = inputs.iter().map(|t| Given::Tensor(*t)).collect();
                (if m.has_gear_of(&given) { m } else { outside }).run(inputs, options)
            }
        }
        .map_err(|e| e.into_error())
    }
    /// Runs the model once on inputs that may be sequences or empty optionals; the outputs may be
    /// such, too.
    pub fn run_items(&self, inputs: &[Item], options: RunOptions) -> Result<(RunOutcome, Vec<Item>)> {
        if !self.is_dynamic() {
            let mut views = Vec::with_capacity(inputs.len());
            for i in inputs {
                let Item::Tensor(t) = i else {
                    return Err(Error::internal("a model of known shapes takes tensors"));
                };
                views.push(t.view());
            }
            let mut out = self.run_views(&views, options)?;
            let items = std::mem::take(&mut out.outputs).into_iter().map(Item::Tensor).collect();
            return Ok((out, items));
        }
        let given: Vec<Given<'_>> = inputs
            .iter()
            .map(|i| match i {
                Item::Tensor(t) => Given::Tensor(t.view()),
                Item::Sequence(l) => Given::Sequence(l.iter().map(HostTensor::view).collect()),
                Item::Nothing => Given::Nothing,
            })
            .collect();
        let (out, made) = self.run_step(&given, options)?;
        let items = made.into_iter().map(|m| match m {
            Made::Tensor(t) => Ok(Item::Tensor(t)),
            Made::State(s) => s.to_host().map(Item::Tensor).map_err(|e| e.into_error()),
            Made::Sequence(l) => Ok(Item::Sequence(l)),
            Made::Nothing => Ok(Item::Nothing),
        });
        Ok((out, items.collect::<Result<_>>()?))
    }
    /// Runs one step of a model of unknown shapes. Some inputs are state, which stays where it is.
    pub(crate) fn run_step(&self, given: &[Given<'_>], options: RunOptions) -> Result<(RunOutcome, Vec<Made>)> {
        match &self.loaded {
            Loaded::Static(..) => Err(Error::internal("a model of known shapes has no room for state")),
            Loaded::Dynamic(m, outside) => {
                let runs = outside.as_ref().filter(|_| !m.has_gear_of(given)).unwrap_or(m);
                runs.step(given, options).map_err(|e| e.into_error())
            }
        }
    }
    /// The axis along which an input of these sizes can grow in place when it is an output of the
    /// previous step.
    pub(crate) fn grows_along(&self, output: usize, input: usize, t: &HostTensor) -> Option<usize> {
        match &self.loaded {
            Loaded::Static(..) => None,
            Loaded::Dynamic(m, _) => m.grows_along(output, input, t.dtype, &t.dims),
        }
    }
    /// Runs the model once and takes over the inputs: those whose memory the model reuses
    /// (`ge.exec.inputReuseMemIndexes`) are not copied.
    pub fn run_owned(&self, mut inputs: Vec<HostTensor>, options: RunOptions) -> Result<RunOutcome> {
        self.run_taking(&mut inputs, options)
    }
    /// Like [`run_owned`](Self::run_owned), but if the run fails, `inputs` has all of them again.
    /// They are unchanged, except for those that the model overwrites if it had begun to run.
    pub(crate) fn run_taking(&self, inputs: &mut Vec<HostTensor>, options: RunOptions) -> Result<RunOutcome> {
        match &self.loaded {
            Loaded::Static(m, None) => m.run_taking(inputs, options).map_err(|e| e.into_error()),
            Loaded::Static(_, Some(_)) | Loaded::Dynamic(..) => {
                let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
                self.run_views(&views, options)
            }
        }
    }
    /// Runs the model once on inputs that the caller keeps: afterwards a `RefData` input holds what
    /// the model wrote to it. [`run`](Self::run) leaves all inputs unchanged.
    pub fn run_mut(&self, inputs: &mut [HostTensor], options: RunOptions) -> Result<RunOutcome> {
        match &self.loaded {
            Loaded::Static(m, outside) => {
                let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
                match outside.as_ref().filter(|_| !m.has_gear_of(&views)) {
                    Some(outside) => outside.run_mut(inputs, options),
                    None => m.run_mut(inputs, options),
                }
            }
            Loaded::Dynamic(m, None) => m.run_mut(inputs, options),
            Loaded::Dynamic(m, Some(outside)) => {
                let given: Vec<Given<'_>> = inputs.iter().map(|t| Given::Tensor(t.view())).collect();
                let has = m.has_gear_of(&given);
                (if has { m } else { outside }).run_mut(inputs, options)
            }
        }
        .map_err(|e| e.into_error())
    }
    /// Makes random inputs from a seed.
    pub fn random_inputs(&self, seed: u64) -> Result<Vec<HostTensor>> {
        random_inputs(self.info(), seed)
    }
    /// Runs the model once on random inputs made from a seed.
    pub fn run_random(&self, seed: u64) -> Result<Vec<HostTensor>> {
        self.run(&self.random_inputs(seed)?)
    }
}

/// The value of an input or output.
#[derive(Debug)]
pub enum Item {
    /// A tensor.
    Tensor(HostTensor),
    /// A sequence.
    Sequence(Vec<HostTensor>),
    /// An empty optional.
    Nothing,
}

impl Item {
    /// The tensor, if the item is one.
    pub fn tensor(&self) -> Option<&HostTensor> {
        if let Item::Tensor(t) = self { Some(t) } else { None }
    }
}

/// The range of integers that the graph's readers of an input imply, if known.
pub fn range_of(info: &ge_model::CompiledModel, name: &str) -> Option<(i64, i64)> {
    let data = info.graphs.first()?.nodes.iter().find(|n| n.name == name && n.op == "Data")?;
    match data.attrs.ints("_value_range")? {
        &[low, high] if low <= high => Some((low, high)),
        _ => None,
    }
}

/// Makes random inputs: reals from -1 to 1; integers in the range that the graph implies, else from
/// 0 to 3; 2 for each open size, or the nearest size in its range. The same seed gives the same
/// inputs on every machine.
pub fn random_inputs(info: &ge_model::CompiledModel, seed: u64) -> Result<Vec<HostTensor>> {
    sized_inputs(info, seed, &|_| None)
}

/// Makes random inputs. `sizes` returns the sizes of an input, or `None` if they are not
/// prescribed. A prescribed size that has a name also holds for other inputs with that name.
pub fn sized_inputs(
    info: &ge_model::CompiledModel,
    seed: u64,
    sizes: &dyn Fn(&str) -> Option<Vec<u64>>,
) -> Result<Vec<HostTensor>> {
    let mut next = chance(seed);
    let fixed: Vec<_> = info.fixed_inputs().into_iter().chain(info.default_inputs()).collect();
    // Prescribed sizes by name, for the other inputs that share them.
    let mut named: BTreeMap<&str, u64> = BTreeMap::new();
    for i in &info.inputs {
        let asked = sizes(&i.name).unwrap_or_default();
        let pairs = i.desc.shape.dims().iter().zip(asked);
        named.extend(pairs.filter_map(|(d, size)| Some((d.symbol_name()?, size))));
    }
    info.inputs
        .iter()
        .enumerate()
        .map(|(k, i)| {
            if let Some((_, t)) = fixed.iter().find(|f| f.0 == k) {
                return fixed_value(t);
            }
            if i.desc.container != Container::TENSOR || i.desc.dtype == DType::STRING {
                let text = format!("input `{}` is no tensor of numbers: give it with `--inputs`", i.name);
                return Err(Error::usage(text));
            }
            if let Some(dims) = sizes(&i.name) {
                let mut t = HostTensor::zeroed(i.desc.dtype, &dims)?;
                fill(&mut t, &mut next, range_of(info, &i.name));
                return Ok(t);
            }
            if i.desc.shape.is_unranked() {
                return Err(Error::usage(format!("input `{}` is of unknown rank: give it with `--inputs`", i.name)));
            }
            // For a model with gears, use the sizes of the first gear.
            if let Some(dims) = info.gears.as_ref().and_then(|g| g.list.first()?.inputs.get(k)) {
                let mut t = HostTensor::zeroed(i.desc.dtype, dims)?;
                fill(&mut t, &mut next, range_of(info, &i.name));
                return Ok(t);
            }
            let open = |(d, dim): (usize, &Dim)| {
                let shared = dim.symbol_name().and_then(|name| named.get(name).copied());
                dim.size().or(shared).unwrap_or_else(|| open_size(info, &i.name, d, *dim))
            };
            let dims: Vec<u64> = i.desc.shape.dims().iter().enumerate().map(open).collect();
            let mut t = HostTensor::zeroed(i.desc.dtype, &dims)?;
            fill(&mut t, &mut next, range_of(info, &i.name));
            Ok(t)
        })
        .collect()
}

/// A random number generator; a seed gives the same numbers on every machine.
fn chance(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Makes a tensor of known sizes with random numbers from a seed, as [`random_inputs`] does.
pub(crate) fn filled(d: &TensorDesc, seed: u64) -> Result<HostTensor> {
    let mut t = HostTensor::zeroed(d.dtype, &d.shape.sizes().unwrap_or_default())?;
    fill(&mut t, &mut chance(seed), None);
    Ok(t)
}

/// Size that random inputs use for an open dimension: 2, or the nearest size in its range.
fn open_size(info: &ge_model::CompiledModel, input: &str, dim: usize, d: Dim) -> u64 {
    let key = d.symbol_name().map_or_else(|| format!("{input}:{dim}"), str::to_owned);
    info.ranges.get(&key).map_or(2, |(low, high)| 2.clamp(*low, *high))
}

/// The value of an input that was fixed when the model was compiled, or its default value.
pub fn fixed_value(t: &ConstTensor) -> Result<HostTensor> {
    let bytes = t.bytes().ok_or_else(|| Error::damaged("the value of an input has no bytes"))?;
    HostTensor::from_bytes(t.dtype, &t.dims, &bytes)
}

fn fill(t: &mut HostTensor, next: &mut impl FnMut() -> u64, range: Option<(i64, i64)>) {
    use ge_plugin_api::types::DType;
    let dtype = t.dtype;
    let width = dtype.bits().map_or(1, |b| (b / 8).max(1)) as usize;
    let real = |r: u64| (r >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
    for c in t.bytes_mut().chunks_exact_mut(width) {
        let r = next();
        if let Some((low, high)) = range.filter(|_| dtype.is_int() && width <= 8) {
            let many = high.wrapping_sub(low).cast_unsigned().wrapping_add(1);
            let v = low.wrapping_add_unsigned(if many == 0 { r } else { r % many });
            c.copy_from_slice(&v.to_le_bytes()[..width]);
            continue;
        }
        match dtype {
            DType::F32 => c.copy_from_slice(&(real(r) as f32).to_le_bytes()),
            DType::F64 => c.copy_from_slice(&real(r).to_le_bytes()),
            // 16-bit floats: random sign, an exponent that gives 0.25 to 1, random mantissa.
            DType::F16 => c.copy_from_slice(
                &((((r & 1) << 15) | ((13 + ((r >> 1) & 1)) << 10) | ((r >> 8) & 0x3ff)) as u16).to_le_bytes(),
            ),
            DType::BF16 => c.copy_from_slice(
                &((((r & 1) << 15) | ((125 + ((r >> 1) & 1)) << 7) | ((r >> 8) & 0x7f)) as u16).to_le_bytes(),
            ),
            _ => {
                c.fill(0);
                c[0] = if dtype == DType::BOOL { (r & 1) as u8 } else { (r & 3) as u8 };
            }
        }
    }
}
