//! Slices at positions that are values of the run, as in a loop that takes one step of a sequence
//! per turn (`x[i:i+1]`). Only the length of such a slice determines shapes. Plans are therefore
//! keyed by the lengths, which small programs compute from the parameters before a plan is looked
//! up, and the launch reads the positions from memory: one plan serves all positions.
use super::decide::Found;
use super::graph::{Graph, Kind, Node};
use super::plan::Planner;
use super::scalars::Program;
use super::tiling::{self, By, Tiled};
use super::value::Value;
use crate::error::RuntimeError;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::ops::infer::slice_of_axis;
use ge_plugin_api::types::{Shape, TensorDesc};
use std::sync::Arc;

/// Maximum number of axes of such a slice.
const MOST_AXES: usize = 16;
/// Tag of the length of a slice in a key of tilings.
const LENGTH: u8 = 7;

/// A slice at positions that the run decides.
pub(crate) struct Position {
    /// The node.
    pub(crate) node: u32,
    begin: Program,
    end: Program,
    /// What is sliced, by axis of the slice.
    axes: Vec<Sliced>,
}

/// One axis of a slice.
struct Sliced {
    axis: usize,
    step: i64,
    size: Size,
}

/// Where the size of an axis is known from before a plan is made.
enum Size {
    /// The dimensions of the parameter with this index.
    Param(usize),
    /// It is always the same.
    Is(u64),
}

/// The lengths of a slice, by axis of the slice. `None` where programs cannot tell.
pub(crate) type Lengths = Vec<Option<Vec<u64>>>;

/// The slices of a graph whose positions determine nothing but their lengths.
pub(crate) fn find(graph: &Graph) -> Vec<Position> {
    // What a graph stores in a variable or a lent input may be read before or after.
    if !graph.variables.is_empty() || !graph.keeps.is_empty() {
        return Vec::new();
    }
    let slices =
        (0u32..).zip(&graph.nodes).filter(|(_, n)| n.kind == Kind::Operator && n.op.as_str() == "StridedSliceV2");
    slices.filter_map(|(i, n)| Position::of(graph, i, n)).collect()
}

/// The lengths of the slices of a graph for these parameters.
pub(crate) fn lengths<'p>(graph: &Graph, param: impl Fn(usize) -> Option<TensorView<'p>>) -> Lengths {
    graph.positions.iter().map(|p| p.lengths(&param)).collect()
}

/// The lengths for the values that a graph starts with.
pub(crate) fn lengths_of(graph: &Graph, vals: &[Option<Value<'_>>]) -> Lengths {
    lengths(graph, |k| Some(vals[graph.inputs.get(k).copied().flatten()? as usize].as_ref()?.tensor()?.view()))
}

/// Adds the lengths to the key of a plan.
pub(crate) fn add_to_key(lengths: &Lengths, key: &mut Vec<u8>) {
    for of in lengths {
        key.push(u8::from(of.is_some()));
        of.iter().flatten().for_each(|n| key.extend_from_slice(&n.to_le_bytes()));
    }
}

impl Position {
    fn of(graph: &Graph, node: u32, n: &Node) -> Option<Position> {
        let input = |k: usize| n.inputs.get(k).copied().flatten();
        let list = |k: usize| graph.constants[input(k)? as usize].as_ref()?.0.to_i64(MOST_AXES);
        let (x, begin, end) = (input(0)?, input(1)?, input(2)?);
        let constant = |v: u32| graph.constants[v as usize].is_some();
        if (constant(begin) && constant(end)) || n.outputs.len() != 1 || !n.controls.is_empty() {
            return None;
        }
        let stated = graph.stated(x)?;
        let (rank, count) = (stated.shape.rank()?, graph.stated(begin)?.shape.count()?);
        let axes = match input(3) {
            Some(_) => list(3)?,
            None => (0..i64::try_from(count).ok()?).collect(),
        };
        let steps = match input(4) {
            Some(_) => list(4)?,
            None => vec![1; axes.len()],
        };
        if axes.len() as u64 != count || steps.len() != axes.len() || steps.contains(&0) {
            return None;
        }
        let param = graph.inputs.iter().position(|i| *i == Some(x));
        let one = |(axis, step): (&i64, &i64)| {
            let axis = usize::try_from(if *axis < 0 { axis.checked_add(rank as i64)? } else { *axis }).ok()?;
            let size = match (stated.shape.dims().get(axis)?.size(), param) {
                (_, Some(k)) => Size::Param(k),
                (size, None) => Size::Is(size?),
            };
            Some(Sliced { axis, step: *step, size })
        };
        let axes: Vec<Sliced> = axes.iter().zip(&steps).map(one).collect::<Option<_>>()?;
        let twice = |(k, a): (usize, &Sliced)| axes[..k].iter().any(|b| b.axis == a.axis);
        if axes.iter().enumerate().any(twice) {
            return None;
        }
        let (begin, end) = (Program::of(graph, begin)?, Program::of(graph, end)?);
        Some(Position { node, begin, end, axes })
    }

    /// Indices of the parameters whose values decide the positions.
    pub(crate) fn params(&self) -> impl Iterator<Item = usize> {
        self.begin.params().chain(self.end.params())
    }

    fn lengths<'p>(&self, param: &impl Fn(usize) -> Option<TensorView<'p>>) -> Option<Vec<u64>> {
        let (begin, end) = (self.begin.run(param)?, self.end.run(param)?);
        if begin.len() != self.axes.len() || end.len() != self.axes.len() {
            return None;
        }
        let one = |((a, begin), end): ((&Sliced, &i64), &i64)| {
            let size = match a.size {
                Size::Param(k) => *param(k)?.dims.get(a.axis)?,
                Size::Is(size) => size,
            };
            u64::try_from(slice_of_axis(i64::try_from(size).ok()?, *begin, *end, a.step).1).ok()
        };
        self.axes.iter().zip(&begin).zip(&end).map(one).collect()
    }

    /// The output of the slice of `x`, if it has these lengths.
    fn output(&self, x: &TensorDesc, lengths: &[u64]) -> Option<TensorDesc> {
        let mut dims = x.shape.sizes()?;
        for (a, length) in self.axes.iter().zip(lengths) {
            let size = dims.get_mut(a.axis)?;
            if matches!(a.size, Size::Is(said) if said != *size) || *length > *size {
                return None;
            }
            *size = *length;
        }
        Some(TensorDesc::new(x.dtype, Shape::of(&dims)))
    }
}

impl Planner<'_> {
    /// Decides on a slice whose positions the plan does not know, only its lengths. `None` for all
    /// other nodes, and if no engine reads positions from memory.
    pub(crate) fn at_position(&self, i: usize) -> Result<Option<Found>, RuntimeError> {
        let all = &self.graph.positions;
        let Ok(k) = all.binary_search_by_key(&(i as u32), |p| p.node) else { return Ok(None) };
        let n = &self.graph.nodes[i];
        let [Some(x), Some(begin), Some(end), ..] = n.inputs[..] else { return Ok(None) };
        if [begin, end].iter().all(|v| self.d.known(self.graph, *v).is_some()) {
            return Ok(None);
        }
        let lengths = self.basis.lengths.get(k).and_then(Option::as_ref);
        let out = lengths.and_then(|l| all[k].output(self.d.desc(self.graph, x)?, l));
        let Some(out) = out else { return Ok(None) };
        let outs = vec![out];
        if let Some(empty) = self.fold(n, &outs)? {
            return Ok(Some(Found::known(empty)));
        }
        let key = tiling::key(self.graph, n, &self.d.desc, &self.d.known, (false, By::All)).map(|mut key| {
            key.push(LENGTH);
            lengths.into_iter().flatten().for_each(|n| key.extend_from_slice(&n.to_le_bytes()));
            key
        });
        if let Some(t) = key.as_ref().and_then(|key| self.tilings.of(self.graph, i as u32, key)) {
            return self.launched(n, t, None).map(Some);
        }
        let veils = self.tilings.veils(i as u32) == Some(true);
        let mut one = self.one(n, n.attrs.as_slice(), veils);
        one.outputs = outs.clone();
        let Ok(launch) = self.asked(i, &one)? else { return Ok(None) };
        let tiled = Tiled::new(outs.into(), Arc::new(launch));
        if let Some(key) = key {
            self.tilings.found(self.graph, i as u32, key, &tiled, veils);
        }
        self.launched(n, tiled, None).map(Some)
    }
}
