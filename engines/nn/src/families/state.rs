//! Operators that write variables: `Assign`, `AssignAdd`, `AssignSub`, and the steps of optimizers
//! (`ApplyGradientDescent`, `ApplyMomentum`, `ApplyAdam`, by TensorFlow's formulas in single
//! precision).
//!
//! Output k is the variable that input k refers to: it is in the same memory, holds the variable's
//! value when the kernel begins, and is read and written there chunk by chunk. The other inputs are
//! also read one chunk at a time, so that no element is borrowed twice.
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::elementwise::Binary;
use ge_kernels::elementwise::binary::Arith;
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Elem, Kind, Out};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

const NUMBERS: &[Kind] = &[Kind::F32, Kind::F16, Kind::Bf16, Kind::I32, Kind::I64];

/// The number of elements of the variable. The inputs in `tensors` must have the variable's shape,
/// all others a single element.
fn like_variable(sig: &Sig, tensors: &[usize]) -> Answer<usize> {
    let shape = &sig.input(0)?.shape;
    for i in 1..sig.inputs.len() {
        let own = &sig.input(i)?.shape;
        if tensors.contains(&i) && own != shape {
            return Err(format!("input {i} is {own:?}, the variable {shape:?}"));
        }
        if !tensors.contains(&i) && sig.input(i)?.count() != 1 {
            return Err(format!("input {i} is {own:?}, it takes one number"));
        }
    }
    for k in 0..sig.outputs.len() {
        sig.plain(k)?;
        if sig.output(k)?.shape != *shape {
            return Err(format!("output {k} is {:?}, the variable {shape:?}", sig.output(k)?.shape));
        }
    }
    Ok(sig.input(0)?.count())
}

fn units(n: usize) -> usize {
    n.div_ceil(CHUNK)
}

struct Put {
    kind: Kind,
    n: usize,
}

/// The kernel of `Assign`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn assign(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(&Kind::ALL)?;
    Ok(Box::new(Put { kind, n: like_variable(sig, &[1])? }))
}

impl Kernel for Put {
    fn units(&self) -> usize {
        units(self.n)
    }
    fn operations(&self) -> u64 {
        0
    }
    fn work(&self) -> u64 {
        self.n as u64
    }
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let range = chunk(&units, self.n);
        with_kind!(self.kind, T => {
            let value = io.input::<T>(1)?[range.clone()].to_vec();
            io.output::<T, ()>(0, |var| {
                var.part(range.start, range.len()).copy_from_slice(&value);
                Ok(())
            })
        })
    }
}

struct Change {
    kind: Kind,
    op: Binary,
    n: usize,
}

/// The kernel of `AssignAdd` and `AssignSub`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn change(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(NUMBERS)?;
    let op = if sig.op == "AssignSub" { Binary::Sub } else { Binary::Add };
    Ok(Box::new(Change { kind, op, n: like_variable(sig, &[1])? }))
}

impl Kernel for Change {
    fn units(&self) -> usize {
        units(self.n)
    }
    fn work(&self) -> u64 {
        self.n as u64
    }
    fn updates(&self) -> bool {
        true
    }
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let range = chunk(&units, self.n);
        with_kind!(self.kind, [F32, F16, Bf16, I32, I64], T => {
            let value = io.input::<T>(1)?[range.clone()].to_vec();
            io.output::<T, ()>(0, |var| {
                for (v, x) in var.part(range.start, range.len()).iter_mut().zip(value) {
                    *v = T::map(self.op, *v, x);
                }
                Ok(())
            })
        }, else Err(Error::internal("type of a variable")))
    }
}

/// The optimizer.
#[derive(Clone, Copy)]
enum Rule {
    Descent,
    Momentum,
    Adam,
}

struct Step {
    kind: Kind,
    rule: Rule,
    nesterov: bool,
    n: usize,
    /// Index of the gradient input.
    grad: usize,
}

/// The kernel of an optimizer step.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn step(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let (rule, states, grad, inputs) = match sig.op.as_str() {
        "ApplyGradientDescent" => (Rule::Descent, 1, 2, 3),
        "ApplyMomentum" => (Rule::Momentum, 2, 3, 5),
        _ => (Rule::Adam, 3, 9, 10),
    };
    if (sig.inputs.len(), sig.outputs.len()) != (inputs, states) {
        let (i, o) = (sig.inputs.len(), sig.outputs.len());
        return Err(format!("{i} inputs and {o} outputs, it takes {inputs} and {states}"));
    }
    let tensors: Vec<usize> = (0..states).chain([grad]).collect();
    let n = like_variable(sig, &tensors)?;
    Ok(Box::new(Step { kind, rule, nesterov: sig.attrs.flag("use_nesterov"), n, grad }))
}

/// Reads some elements of state `k`, widened to f32.
fn state<T: Elem + PanelElem>(io: &Io<'_, '_>, k: usize, range: &Range<usize>) -> Result<Vec<f32>> {
    io.output::<T, _>(k, |out| Ok(out.part(range.start, range.len()).iter().map(|v| v.wide()).collect()))
}

/// Writes elements of state `k` back.
fn put<T: Elem + PanelElem>(io: &Io<'_, '_>, k: usize, range: &Range<usize>, values: &[f32]) -> Result<()> {
    io.output(k, |out: &mut Out<'_, T>| {
        let part = out.part(range.start, range.len());
        part.iter_mut().zip(values).for_each(|(y, v)| *y = <T as PanelElem>::narrow(*v));
        Ok(())
    })
}

impl Step {
    fn part<T: Elem + PanelElem>(&self, range: &Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let number = |i: usize| io.input::<T>(i).map(|x| x[0].wide());
        let grad: Vec<f32> = io.input::<T>(self.grad)?[range.clone()].iter().map(|v| v.wide()).collect();
        let mut var = state::<T>(io, 0, range)?;
        match self.rule {
            Rule::Descent => {
                let alpha = number(1)?;
                var.iter_mut().zip(&grad).for_each(|(v, g)| *v -= alpha * g);
            }
            Rule::Momentum => {
                let (lr, momentum) = (number(2)?, number(4)?);
                let mut accum = state::<T>(io, 1, range)?;
                for ((v, a), g) in var.iter_mut().zip(&mut accum).zip(&grad) {
                    *a = *a * momentum + g;
                    *v -= if self.nesterov { lr * g + lr * momentum * *a } else { lr * *a };
                }
                put::<T>(io, 1, range, &accum)?;
            }
            Rule::Adam => {
                let (power1, power2, lr) = (number(3)?, number(4)?, number(5)?);
                let (beta1, beta2, epsilon) = (number(6)?, number(7)?, number(8)?);
                let (mut m, mut v) = (state::<T>(io, 1, range)?, state::<T>(io, 2, range)?);
                let alpha = lr * (1.0 - power2).sqrt() / (1.0 - power1);
                for (((w, m), v), g) in var.iter_mut().zip(&mut m).zip(&mut v).zip(&grad) {
                    *m += (g - *m) * (1.0 - beta1);
                    *v += (g * g - *v) * (1.0 - beta2);
                    let first = if self.nesterov { *m * beta1 + g * (1.0 - beta1) } else { *m };
                    *w -= alpha * first / (v.sqrt() + epsilon);
                }
                put::<T>(io, 1, range, &m)?;
                put::<T>(io, 2, range, &v)?;
            }
        }
        put::<T>(io, 0, range, &var)
    }
}

impl Kernel for Step {
    fn units(&self) -> usize {
        units(self.n)
    }
    fn work(&self) -> u64 {
        (self.n as u64).saturating_mul(4)
    }
    fn updates(&self) -> bool {
        true
    }
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let range = chunk(&units, self.n);
        with_kind!(self.kind, [F32, F16, Bf16], T => self.part::<T>(&range, io),
            else Err(Error::internal("type of a variable")))
    }
}
