//! Strings as numbers: a kernel that moves or compares elements, but cannot handle strings, runs on
//! numbers that stand for them. Number 0 is the empty string, because such a kernel fills with 0 if
//! it is given no fill value.
use super::strings;
use crate::op::{Run, Text};
use ge_plugin_api::kernel::{HostTensor, KernelCtx};
use ge_plugin_api::types::DType;
use ge_plugin_api::{Error, Result};

/// Runs a kernel on numbers in place of strings.
///
/// # Errors
/// Returns the kernel's errors; also fails if a string is not valid UTF-8 or the node asks for a
/// reduction of strings.
pub fn run(kernel: Run, text: Text, ctx: &mut KernelCtx<'_>) -> Result<()> {
    if ctx.attrs.str("reduction").is_some_and(|r| r != "none") {
        return Err(Error::failed("strings cannot be reduced: attribute `reduction` must be none"));
    }
    let mut given = Vec::new();
    for (i, x) in ctx.inputs.iter().enumerate() {
        if x.is_some_and(|x| x.dtype == DType::STRING) {
            let (dims, all) = strings::read(ctx, i)?;
            given.push((i, dims, all));
        }
    }
    let mut table = vec![""];
    table.extend(given.iter().flat_map(|(_, _, all)| all));
    if text == Text::Ranks {
        table.sort_unstable();
        table.dedup();
    }
    let mut next = 1;
    let mut number = |s: &str| match text {
        Text::Ranks => table.partition_point(|t| *t < s),
        _ => {
            next += 1;
            next - 1
        }
    };
    let mut numbers = Vec::with_capacity(given.len());
    for (i, dims, all) in &given {
        let mut t = HostTensor::zeroed(DType::I64, dims)?;
        for (to, s) in t.bytes_mut().as_chunks_mut::<8>().0.iter_mut().zip(all) {
            *to = (number(s) as i64).to_le_bytes();
        }
        numbers.push((*i, t));
    }
    let mut inputs = ctx.inputs.clone();
    numbers.iter().for_each(|(i, t)| inputs[*i] = Some(t.view()));
    let wanted: Vec<DType> = (0..ctx.output_count()).map(|i| ctx.output_dtype(i).unwrap_or_default()).collect();
    let types: Vec<DType> = wanted.iter().map(|d| if *d == DType::STRING { DType::I64 } else { *d }).collect();
    let mut inner = KernelCtx::new(ctx.op, ctx.node, ctx.attrs, inputs, &types);
    kernel(&mut inner)?;
    for (i, made) in inner.into_made().into_iter().enumerate() {
        let Some(made) = made else { continue };
        if wanted[i] != DType::STRING {
            ctx.set_output(i, made)?;
            continue;
        }
        let found = made.bytes().as_chunks::<8>().0.iter().map(|b| table.get(i64::from_le_bytes(*b) as usize).copied());
        let all: Option<Vec<&str>> = found.collect();
        let all = all.ok_or_else(|| Error::internal(format!("a kernel computed with strings of output {i}")))?;
        strings::write(ctx, i, &made.dims, &all)?;
    }
    Ok(())
}
