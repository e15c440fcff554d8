//! `FusedCluster`: element-wise steps and reductions over the last axes, computed for a tile of
//! rows at a time on single-precision, integer and boolean values (`families/typed.rs`). A row is
//! what the reductions run over. Without reductions it is the shortest row with which each value is
//! a full tensor or a column.
use crate::families::chain::load;
use crate::families::typed::{self, Lanes, Type};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::elementwise::Cluster;
use ge_kernels::elementwise::chain::narrow;
use ge_kernels::elementwise::lanes::{load_whole, store_cast, store_whole};
use ge_kernels::reduce::Reduce;
use ge_kernels::scratch::with_scratch;
use ge_kernels::view::steps::{Operand, Step, parse};
use ge_kernels::view::{Elem, Kind, Layout, Nest, broadcast_shapes, cast, element_count};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Number of elements of a tile, unless a single row has more.
const TILE: usize = 4096;
/// Maximum working memory, in f32 elements.
const MOST_MEMORY: usize = 1 << 24;

/// How an input is loaded for a tile.
enum Load {
    /// Read in place.
    Direct,
    /// The same for each row: loaded once per launch.
    Once(Nest<1>),
    /// Loaded for each tile.
    Tile(Nest<1>),
}

struct Rows {
    rows: usize,
    len: usize,
    /// Number of rows of a tile, which is one unit of work.
    tile: usize,
    inputs: Vec<Load>,
    program: Cluster,
    /// The values that are outputs.
    gives: Vec<usize>,
    /// The type of each input and, in `given`, of each output, with the lanes in which it is
    /// computed.
    types: Vec<Type>,
    given: Vec<Type>,
}

/// The reduction with this name.
pub fn reduction_named(op: &str) -> Option<Reduce> {
    Some(match op {
        "ReduceSum" => Reduce::Sum,
        "ReduceMean" => Reduce::Mean,
        "ReduceMax" => Reduce::Max,
        "ReduceMin" => Reduce::Min,
        _ => return None,
    })
}

/// A value while the steps are parsed.
struct Value {
    shape: Vec<usize>,
    /// Whether it depends on a reduction that dropped its axes; its sizes are then those of the
    /// rows only.
    dropped: bool,
}

/// A reduction step: the operation, the value, the number of axes, and whether they are kept.
pub fn reduced(s: &Step) -> Answer<(Reduce, usize, usize, bool)> {
    match (reduction_named(&s.op), s.args.as_slice()) {
        (Some(op), &[Operand::Value(x), Operand::Number(n), Operand::Number(keep)]) if n >= 1.0 => {
            Ok((op, x, n as usize, keep == 1.0))
        }
        _ => Err(format!("step {} with {:?} is no reduction", s.op, s.args)),
    }
}

/// The value of a step that reads earlier values.
fn value(s: &Step, values: &[Value]) -> Answer<Value> {
    if s.op.starts_with("Reduce") {
        let (_, x, n, keep) = reduced(s)?;
        let x = &values[x];
        if x.dropped || x.shape.len() < n {
            return Err(format!("step {} over {n} axes of {:?}", s.op, x.shape));
        }
        let mut shape = x.shape[..x.shape.len() - n].to_vec();
        shape.resize(shape.len() + if keep { n } else { 0 }, 1);
        return Ok(Value { shape, dropped: !keep });
    }
    let reads = || s.args.iter().filter_map(|a| if let Operand::Value(k) = a { Some(&values[*k]) } else { None });
    let dropped = reads().any(|v| v.dropped);
    if reads().any(|v| v.dropped != dropped) {
        return Err(format!("step {} reads rows whose axes are gone beside others", s.op));
    }
    let mut shape = Vec::new();
    for v in reads() {
        shape = broadcast_shapes(&shape, &v.shape).map_err(|e| e.to_string())?;
    }
    Ok(Value { shape, dropped })
}

/// A shape extended with leading ones to `rank` axes.
fn padded(shape: &[usize], rank: usize) -> Vec<usize> {
    let mut all = vec![1; rank.saturating_sub(shape.len())];
    all.extend_from_slice(shape);
    all
}

/// The number of last axes that form a row: from the reductions, else from the shapes of the steps'
/// values, each of which is full or a column.
fn axes_of_rows(steps: &[Step], made: &[Value], whole: &[usize]) -> Answer<usize> {
    let mut axes = None;
    for s in steps.iter().filter(|s| s.op.starts_with("Reduce")) {
        let n = reduced(s)?.2;
        if axes.is_some_and(|a| a != n) {
            return Err("reductions over other numbers of axes".into());
        }
        axes = Some(n);
    }
    let rank = whole.len();
    let fits = |n: usize| {
        made.iter().filter(|v| !v.dropped).all(|v| {
            let own = padded(&v.shape, rank);
            own == whole || (own[..rank - n] == whole[..rank - n] && own[rank - n..].iter().all(|d| *d == 1))
        })
    };
    match axes {
        Some(n) if n <= rank && fits(n) => Ok(n),
        None => (0..=rank).find(|n| fits(*n)).ok_or_else(|| format!("values are not {whole:?} or its columns")),
        Some(n) => Err(format!("values are not {whole:?} or its columns over {n} axes")),
    }
}

/// The kernel of a cluster.
///
/// # Errors
/// Fails with a reason if types, shapes or steps are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let texts = sig.attrs.strs("steps").ok_or("attribute `steps` is missing")?;
    let inputs = sig.inputs.len();
    let parsed = parse(texts, inputs)?;
    let mut values = Vec::new();
    for i in 0..inputs {
        sig.plain(i)?;
        values.push(Value { shape: sig.input(i)?.shape.clone(), dropped: false });
    }
    for s in &parsed {
        let v = value(s, &values)?;
        values.push(v);
    }
    let (types, steps) = typed::typed(sig, &parsed)?;
    let mut whole = Vec::new();
    for v in values.iter().filter(|v| !v.dropped) {
        whole = broadcast_shapes(&whole, &v.shape).map_err(|e| e.to_string())?;
    }
    let made = &values[inputs..];
    let axes = axes_of_rows(&parsed, made, &whole)?;
    let (over, row) = whole.split_at(whole.len() - axes);
    let count = |s: &[usize]| element_count(s).map_err(|e| e.to_string());
    let (rows, len) = (count(over)?, count(row)?);
    if let Some(v) = made.iter().find(|v| v.dropped && v.shape != over) {
        return Err(format!("a value of rows is {:?}, there are {over:?}", v.shape));
    }

    // Determine which inputs are full; for rows of one element, none is.
    let (mut full, mut loads) = (Vec::new(), Vec::new());
    for (v, t) in values[..inputs].iter().zip(&types) {
        let own = padded(&v.shape, whole.len());
        let wide = len != 1 && own[over.len()..].iter().any(|d| *d != 1);
        let (from, to): (&[usize], &[usize]) = if wide { (&own, &whole) } else { (&own[..over.len()], over) };
        let l = Layout::contiguous(from).and_then(|l| l.broadcast_to(to)).map_err(|e| e.to_string())?;
        let nest = Nest::new(to, [&l]);
        loads.push(if t.lies_as_lanes() && from == to {
            Load::Direct
        } else if own[..over.len()].iter().all(|d| *d == 1) {
            Load::Once(nest)
        } else {
            Load::Tile(nest)
        });
        full.push(wide);
    }
    for s in parsed.iter().filter(|s| s.op.starts_with("Reduce")) {
        let x = reduced(s)?.1;
        if padded(&values[x].shape, whole.len()) != whole {
            return Err(format!("step {} reads {:?}, the rows are of {whole:?}", s.op, values[x].shape));
        }
    }
    let gives = sig.attrs.ints("gives").unwrap_or(&[]);
    let place = |k: &i64| usize::try_from(*k).ok().filter(|k| (inputs..values.len()).contains(k));
    let gives: Vec<usize> = gives.iter().map(place).collect::<Option<_>>().ok_or("`gives` names no step")?;
    let once = gives.iter().enumerate().all(|(i, v)| !gives[..i].contains(v));
    if gives.len() != sig.outputs.len() || !once {
        return Err(format!("{} outputs, `gives` names {gives:?}", sig.outputs.len()));
    }
    let program = Cluster::new(steps, &full, &gives.iter().map(|v| v - inputs).collect::<Vec<_>>());
    for (k, v) in gives.iter().enumerate() {
        let y = sig.output(k)?;
        let numbers = if program.is_full(*v) { count(&whole)? } else { rows };
        if y.shape != values[*v].shape || y.count() != numbers || y.kind != Some(types[*v].kind) {
            return Err(format!("output {k} is {} {:?}, the step gives {:?}", y.dtype, y.shape, values[*v].shape));
        }
    }
    let tile = (TILE / len.max(1)).clamp(1, rows.max(1));
    let given = gives.iter().map(|v| types[*v]).collect();
    let types = types[..inputs].to_vec();
    let cluster = Rows { rows, len, tile, inputs: loads, program, gives, types, given };
    if cluster.memory().is_none_or(|m| m > MOST_MEMORY) {
        return Err(format!("rows of {len} elements"));
    }
    Ok(Box::new(cluster))
}

/// Splits `n` elements off the front.
fn split<'m>(memory: &mut &'m mut [f32], n: usize) -> &'m mut [f32] {
    let (own, rest) = std::mem::take(memory).split_at_mut(n);
    *memory = rest;
    own
}

/// Calls `f` with these parts of the outputs, one per output: either the output itself or the
/// buffer in `made`.
fn with_outputs<'m>(
    io: &Io<'_, '_>,
    parts: &[(Range<usize>, bool)],
    mut made: Vec<&'m mut [f32]>,
    mut lent: Vec<&'m mut [f32]>,
    f: &mut dyn FnMut(Vec<&mut [f32]>),
) -> Result<()> {
    let Some((part, itself)) = parts.get(lent.len()) else {
        f(lent);
        return Ok(());
    };
    let own = made.pop().unwrap_or_default();
    if !itself {
        lent.push(own);
        return with_outputs(io, parts, made, lent, f);
    }
    io.output::<f32, ()>(lent.len(), |out| {
        // The earlier parts outlive this one: shorten their lifetimes to its own.
        let (made, mut lent): (Vec<&mut [f32]>, Vec<&mut [f32]>) = (made, lent);
        lent.push(out.part(part.start, part.len()));
        with_outputs(io, parts, made, lent, f)
    })
}

/// Loads elements of an input as lanes.
fn load_lanes<T: Elem>(x: &[T], nest: &Nest<1>, range: Range<usize>, lanes: Lanes, to: &mut [f32]) {
    if lanes != Lanes::Whole {
        return load::<T>(x, nest, range, to);
    }
    let mut at = 0;
    nest.each_run_in(range, |[p], len, [s]| {
        let (to, p) = (&mut to[at..at + len], p as usize);
        match s {
            1 => load_whole(&x[p..p + len], to),
            0 => to.fill(f32::from_bits(cast::<T, i32>(x[p]) as u32)),
            _ => to.iter_mut().enumerate().for_each(|(i, o)| {
                let from = (p as isize + i as isize * s) as usize;
                *o = f32::from_bits(cast::<T, i32>(x[from]) as u32);
            }),
        }
        at += len;
    });
}

/// Stores lanes as elements of an output.
fn store_lanes<T: Elem>(x: &[f32], lanes: Lanes, out: &mut [T]) {
    match (lanes, T::KIND) {
        (Lanes::Whole, _) => store_whole(x, out),
        (_, Kind::F16 | Kind::Bf16) => narrow(x, out),
        _ => store_cast(x, out),
    }
}

impl Rows {
    /// Number of elements of a value in `rows` rows.
    fn of(&self, full: bool, rows: usize) -> usize {
        if full { rows.saturating_mul(self.len) } else { rows }
    }

    /// Number of elements of a tile of input `i`; 0 if it is read in place.
    fn loaded(&self, i: usize) -> usize {
        if matches!(self.inputs[i], Load::Direct) { 0 } else { self.of(self.program.is_full(i), self.tile) }
    }

    /// Number of elements of a tile of output `k`; 0 if it is written in place.
    fn narrowed(&self, k: usize) -> usize {
        if self.given[k].lies_as_lanes() { 0 } else { self.of(self.program.is_full(self.gives[k]), self.tile) }
    }

    /// Size of the working memory in f32 elements; `None` if that overflows.
    fn memory(&self) -> Option<usize> {
        self.tile.checked_mul(self.len.max(1))?.checked_mul(self.inputs.len() + self.program.steps().len())?;
        let loaded = (0..self.inputs.len()).map(|i| self.loaded(i)).sum::<usize>();
        let narrowed = (0..self.gives.len()).map(|k| self.narrowed(k)).sum::<usize>();
        Some(loaded + narrowed + self.program.memory(self.tile, self.len))
    }

    /// Loads a tile of input `i`.
    fn load(&self, io: &Io<'_, '_>, i: usize, nest: &Nest<1>, range: Range<usize>, to: &mut [f32]) -> Result<()> {
        let Type { kind, lanes } = self.types[i];
        with_kind!(kind, T => load_lanes::<T>(io.input::<T>(i)?, nest, range, lanes, to));
        Ok(())
    }

    fn compute(&self, units: Range<usize>, io: &Io<'_, '_>, memory: &mut [f32]) -> Result<()> {
        let mut rest = memory;
        let mut own: Vec<&mut [f32]> = (0..self.inputs.len()).map(|i| split(&mut rest, self.loaded(i))).collect();
        let mut made: Vec<&mut [f32]> = (0..self.gives.len()).map(|k| split(&mut rest, self.narrowed(k))).collect();
        let (first, end) = (units.start * self.tile, (units.end * self.tile).min(self.rows));
        let part = |full: bool, rows: &Range<usize>| self.of(full, rows.start)..self.of(full, rows.end);
        for start in (first..end).step_by(self.tile) {
            let rows = start..(start + self.tile).min(end);
            for (i, input) in self.inputs.iter().enumerate() {
                let range = part(self.program.is_full(i), &rows);
                match input {
                    Load::Tile(nest) => self.load(io, i, nest, range, own[i])?,
                    // The first tile is the longest.
                    Load::Once(nest) if start == first => self.load(io, i, nest, range, own[i])?,
                    Load::Direct | Load::Once(_) => {}
                }
            }
            let mut inputs: Vec<&[f32]> = Vec::with_capacity(own.len());
            for (i, input) in self.inputs.iter().enumerate() {
                let range = part(self.program.is_full(i), &rows);
                inputs.push(if matches!(input, Load::Direct) { &io.input::<f32>(i)?[range] } else { &*own[i] });
            }
            let of = |(k, v): (usize, &usize)| (part(self.program.is_full(*v), &rows), self.given[k].lies_as_lanes());
            let parts: Vec<(Range<usize>, bool)> = self.gives.iter().enumerate().map(of).collect();
            let lent = made.iter_mut().rev().map(|m| &mut **m).collect();
            with_outputs(io, &parts, lent, Vec::with_capacity(parts.len()), &mut |outputs| {
                self.program.run(rows.len(), self.len, &inputs, rest, outputs);
            })?;
            for (k, (part, itself)) in parts.iter().enumerate() {
                let Type { kind, lanes } = self.given[k];
                if *itself {
                    continue;
                }
                with_kind!(kind, T => io.output::<T, ()>(k, |out| {
                    store_lanes(&made[k][..part.len()], lanes, out.part(part.start, part.len()));
                    Ok(())
                })?);
            }
        }
        Ok(())
    }
}

impl Kernel for Rows {
    fn units(&self) -> usize {
        self.rows.div_ceil(self.tile)
    }

    fn work(&self) -> u64 {
        let full = (0..self.program.steps().len()).filter(|k| self.program.is_full(self.inputs.len() + k)).count();
        let columns = self.program.steps().len() - full;
        let elements = (self.rows as u64).saturating_mul(self.len as u64);
        (2 * elements).saturating_mul(full.max(1) as u64).saturating_add(self.rows as u64 * columns as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let memory = self.memory().ok_or_else(|| Error::internal("memory of a cluster"))?;
        with_scratch(memory, |memory| self.compute(units, io, memory))
    }
}
