//! `FusedElementwise`: a chain of element-wise steps, computed block by block in single precision;
//! f32, f16, bf16, and 8-bit integers after `Dequantize` and before `Quantize`.
use crate::families::cube;
use crate::families::maps::{map_named, pair_named};
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, Sig};
use ge_kernels::elementwise::chain::{BLOCK, narrow, narrow_whole, widen};
use ge_kernels::elementwise::{Binary, Chain, ChainStep, Source};
use ge_kernels::quant::{BytePair, Join, Table, join_bytes, look_up};
use ge_kernels::scratch::with_scratch;
use ge_kernels::view::steps::{Operand, Step, parse};
use ge_kernels::view::{Elem, Kind, Layout, Nest};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;
use std::sync::OnceLock;

struct Fused {
    kinds: Vec<Kind>,
    nests: Vec<Nest<1>>,
    out: Kind,
    steps: Chain,
    reads: Vec<Read>,
    /// Elements of a block.
    block: usize,
    n: usize,
    /// Set if the chain is the sum or product of two 8-bit tensors of the same shape, with an 8-bit
    /// result.
    joins: Option<BytePair>,
    /// Set if the chain maps one long 8-bit tensor to another: the results for all bytes, which the
    /// first run computes.
    table: Option<OnceLock<Table>>,
}

/// How the blocks of an input are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    /// In place: single precision with the output's shape.
    Direct,
    /// Each block is loaded.
    Each,
    /// The first block is loaded, and it is what all blocks read.
    Once,
}

/// How inputs of these shapes are read, and the number of elements of a block. An input that is
/// repeated along the first axes of the output is the same in all blocks if these are whole
/// repetitions.
fn reads(inputs: &[(Kind, &[usize])], out: &[usize]) -> (Vec<Read>, usize) {
    let period = |x: &[usize]| {
        let own = &x[x.iter().take_while(|d| **d == 1).count()..];
        let size = own.iter().product::<usize>();
        (x != out && out.ends_with(own) && (1..=BLOCK).contains(&size)).then_some(size)
    };
    let longest = inputs.iter().filter_map(|(_, x)| period(x)).max().unwrap_or(1);
    // Blocks of whole cache lines, if they are not too long.
    let aligned = longest << 4u32.saturating_sub(longest.trailing_zeros());
    let unit = if aligned <= BLOCK { aligned } else { longest };
    let read = |(kind, x): &(Kind, &[usize])| match period(x) {
        _ if *kind == Kind::F32 && *x == out => Read::Direct,
        Some(p) if longest.is_multiple_of(p) => Read::Once,
        _ => Read::Each,
    };
    (inputs.iter().map(read).collect(), BLOCK / unit * unit)
}

/// Least number of elements for which a table of all bytes pays.
const LONG: usize = 1024;

/// The chain as a sum or product of 8-bit tensors, if it is one.
fn as_pair(steps: &[ChainStep], kinds: &[Kind]) -> Option<BytePair> {
    let &[
        ChainStep::Dequantize(0, a, a_zero),
        ChainStep::Dequantize(1, b, b_zero),
        ChainStep::Binary(op, Source::Value(x), Source::Value(y)),
        ChainStep::Quantize(4, scale, zero, range),
    ] = steps
    else {
        return None;
    };
    let join = match op {
        Binary::Add => Join::Sum,
        Binary::Mul => Join::Product,
        _ => return None,
    };
    // The order of the operands does not matter.
    let is_both = [x.min(y), x.max(y)] == [2, 3] && kinds.len() == 2 && kinds.iter().all(|k| is_byte(*k));
    is_both.then_some(BytePair { join, a: [a, a_zero], b: [b, b_zero], y: [scale, zero], range })
}

fn is_byte(kind: Kind) -> bool {
    matches!(kind, Kind::I8 | Kind::U8)
}

/// Converts one step to the form that the kernel computes.
///
/// # Errors
/// Fails if the operator or its operands are not supported.
pub fn step(s: &Step, out: Kind) -> Answer<ChainStep> {
    if let (Some(op), [a, b]) = (pair_named(&s.op), s.args.as_slice()) {
        let of = |o: &Operand| match o {
            Operand::Value(k) => Source::Value(*k),
            Operand::Number(v) => Source::Number(*v as f32),
        };
        return Ok(ChainStep::Binary(op, of(a), of(b)));
    }
    let Some((Operand::Value(x), rest)) = s.args.split_first() else {
        return Err(format!("step {} reads no value", s.op));
    };
    let mut n = Vec::new();
    for o in rest {
        match o {
            Operand::Number(v) => n.push(*v as f32),
            Operand::Value(k) => return Err(format!("step {} reads %{k} where it takes a number", s.op)),
        }
    }
    let range = if out == Kind::U8 { [0.0, 255.0] } else { [-128.0, 127.0] };
    match (s.op.as_str(), n.as_slice()) {
        ("Dequantize", &[scale, zero]) => Ok(ChainStep::Dequantize(*x, scale, zero)),
        ("Quantize", &[scale, zero]) => Ok(ChainStep::Quantize(*x, scale, zero, range)),
        (op, numbers) => Ok(ChainStep::Unary(map_named(op, numbers)?, *x)),
    }
}

/// The kernel of a chain.
///
/// # Errors
/// Fails with a reason if types, shapes or steps are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    const TAKEN: &[Kind] = &[Kind::F32, Kind::F16, Kind::Bf16, Kind::I8, Kind::U8];
    let y = sig.output(0)?;
    let out = y.kind.filter(|k| TAKEN.contains(k)).ok_or_else(|| format!("output 0 is {}", y.dtype))?;
    let texts = sig.attrs.strs("steps").ok_or("attribute `steps` is missing")?;
    let parsed = parse(texts, sig.inputs.len())?;
    let (mut kinds, mut nests) = (Vec::new(), Vec::new());
    for i in 0..sig.inputs.len() {
        let kind = sig.kind_in(i, TAKEN)?;
        let opened = |s: &Step| s.op == "Dequantize" || !s.args.contains(&Operand::Value(i));
        if is_byte(kind) && !parsed.iter().all(opened) {
            return Err(format!("input {i} is {}, which only Dequantize reads", kind.name()));
        }
        kinds.push(kind);
        let l = Layout::contiguous(&sig.input(i)?.shape).and_then(|l| l.broadcast_to(&y.shape));
        nests.push(Nest::new(&y.shape, [&l.map_err(|e| e.to_string())?]));
    }
    if is_byte(out) != parsed.last().is_some_and(|s| s.op == "Quantize") {
        return Err(format!("output 0 is {}, and the last step {:?}", y.dtype, parsed.last().map(|s| s.op.as_str())));
    }
    let steps = parsed.iter().map(|s| step(s, out)).collect::<Answer<Vec<_>>>()?;
    let steps = Chain::new(steps, sig.inputs.len());
    cube::map_keeps_zeros(sig, || {
        let mut y = [f32::NAN];
        steps.run(&vec![&[0.0f32][..]; sig.inputs.len()], &mut vec![0.0; steps.memory()], &mut y);
        y[0]
    })?;
    let one_shape = sig.inputs.iter().flatten().all(|t| t.shape == y.shape);
    let joins = if one_shape { as_pair(steps.steps(), &kinds) } else { None };
    let maps = one_shape && kinds.len() == 1 && is_byte(kinds[0]) && is_byte(out) && y.count() >= LONG;
    let table = maps.then(OnceLock::new);
    let shapes = sig.inputs.iter().flatten().map(|t| t.shape.as_slice());
    let inputs: Vec<_> = kinds.iter().copied().zip(shapes).collect();
    let (reads, block) = reads(&inputs, &y.shape);
    Ok(Box::new(Fused { kinds, nests, out, steps, reads, block, n: y.count(), joins, table }))
}

/// Loads the elements of a block of one input, widened to f32.
pub fn load<T: Elem>(x: &[T], nest: &Nest<1>, range: Range<usize>, to: &mut [f32]) {
    let mut at = 0;
    nest.each_run_in(range, |[p], len, [s]| {
        let (to, p) = (&mut to[at..at + len], p as usize);
        match s {
            1 => widen(&x[p..p + len], to),
            0 => to.fill(x[p].to_f32()),
            _ => to.iter_mut().enumerate().for_each(|(i, o)| *o = x[(p as isize + i as isize * s) as usize].to_f32()),
        }
        at += len;
    });
}

impl Fused {
    /// The results of a chain of bytes for each byte.
    fn of_all_bytes(&self) -> Table {
        let is_signed = self.kinds.first() == Some(&Kind::I8);
        let value = |v: u8| if is_signed { f32::from(v as i8) } else { f32::from(v) };
        let x: [f32; 256] = std::array::from_fn(|i| value(i as u8));
        let (mut y, mut table) = ([0.0; 256], [0; 256]);
        self.steps.run(&[&x], &mut vec![0.0; self.steps.memory()], &mut y);
        narrow_whole(&y, &mut table);
        table
    }
}

impl Kernel for Fused {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        (self.n as u64).saturating_mul(2 * self.steps.steps().len() as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let wrong = || Error::internal("type of a chain");
        if let Some(table) = &self.table {
            let r = chunk(&units, self.n);
            let x = &io.input::<u8>(0)?[r.clone()];
            return io.output::<u8, ()>(0, |out| {
                look_up(table.get_or_init(|| self.of_all_bytes()), x, out.part(r.start, r.len()));
                Ok(())
            });
        }
        if let Some(by) = self.joins {
            let r = chunk(&units, self.n);
            return with_kind!(self.kinds[0], [I8, U8], A => with_kind!(self.kinds[1], [I8, U8], B => {
                let (a, b) = (io.input::<A>(0)?, io.input::<B>(1)?);
                io.output::<u8, ()>(0, |out| {
                    join_bytes(&a[r.clone()], &b[r.clone()], by, out.part(r.start, r.len()));
                    Ok(())
                })
            }, else Err(wrong())), else Err(wrong()));
        }
        let inputs = self.kinds.len();
        let loaded = self.reads.iter().filter(|r| **r != Read::Direct).count();
        let (range, last) = (chunk(&units, self.n), if self.out == Kind::F32 { 0 } else { BLOCK });
        with_scratch(loaded * BLOCK + last + self.steps.memory(), |all| {
            let (own, rest) = all.split_at_mut(loaded * BLOCK);
            let (last, memory) = rest.split_at_mut(last);
            for start in range.clone().step_by(self.block) {
                let block = start..(start + self.block).min(range.end);
                let mut own = own.chunks_exact_mut(BLOCK);
                let mut values: Vec<&[f32]> = Vec::with_capacity(inputs);
                for (i, (kind, nest)) in self.kinds.iter().zip(&self.nests).enumerate() {
                    if self.reads[i] == Read::Direct {
                        values.push(&io.input::<f32>(i)?[block.clone()]);
                        continue;
                    }
                    let Some(own) = own.next() else { return Err(wrong()) };
                    if start == range.start || self.reads[i] == Read::Each {
                        with_kind!(*kind, [F32, F16, Bf16, I8, U8], T => {
                            load::<T>(io.input::<T>(i)?, nest, block.clone(), own);
                        }, else return Err(wrong()));
                    }
                    values.push(own);
                }
                if self.out == Kind::F32 {
                    io.output::<f32, ()>(0, |out| {
                        self.steps.run(&values, memory, out.part(block.start, block.len()));
                        Ok(())
                    })?;
                    continue;
                }
                let last = &mut last[..block.len()];
                self.steps.run(&values, memory, last);
                if matches!(self.out, Kind::I8 | Kind::U8) {
                    // The last step is `Quantize`.
                    io.output::<u8, ()>(0, |out| {
                        narrow_whole(last, out.part(block.start, block.len()));
                        Ok(())
                    })?;
                    continue;
                }
                with_kind!(self.out, [F16, Bf16], T => {
                    io.output::<T, ()>(0, |out| {
                        narrow(last, out.part(block.start, block.len()));
                        Ok(())
                    })?;
                }, else return Err(wrong()));
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_repetitions_of_what_is_read_once() {
        let of = |inputs: &[&[usize]], out: &[usize]| {
            let inputs: Vec<_> = inputs.iter().map(|x| (Kind::F32, *x)).collect();
            reads(&inputs, out)
        };
        use Read::*;
        assert_eq!(of(&[&[9, 512], &[512], &[1, 512]], &[9, 512]), (vec![Direct, Once, Once], 1024));
        assert_eq!(of(&[&[9, 3], &[3], &[]], &[9, 3]), (vec![Direct, Once, Once], 48 * 21));
        assert_eq!(of(&[&[9, 500], &[9, 1]], &[9, 500]), (vec![Direct, Each], 1024));
        assert_eq!(of(&[&[2, 4, 500], &[500], &[4, 500], &[1]], &[2, 4, 500]), (vec![Direct, Once, Each, Once], 1000));
        assert_eq!(of(&[&[3, 1, 6], &[6], &[2, 1]], &[3, 2, 6]).0, [Each, Once, Each]);
        assert_eq!(of(&[&[0], &[1]], &[0]), (vec![Direct, Once], 1024));
    }
}
