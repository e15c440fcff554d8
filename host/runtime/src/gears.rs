//! Runs of a model with gears: selects the gear whose sizes match the inputs. The plan is made for
//! the largest gear: inputs of a smaller gear lie in memory of the largest gear's size, and an
//! output is cut to the part that the gear wrote.
use crate::error::RuntimeError;
use crate::executor::{ALIGN, Own, RunOptions, RunOutcome};
use crate::load::LoadedModel;
use ge_model::{Gears, IoInfo, gears};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;

impl LoadedModel {
    /// Runs the gear that matches the sizes of these inputs.
    pub(crate) fn run_gear(
        &self,
        gears: &Gears,
        inputs: &[TensorView<'_>],
        options: RunOptions,
    ) -> Result<RunOutcome, RuntimeError> {
        let gear = self.gear(gears, inputs)?;
        let mut addresses = Vec::with_capacity(inputs.len() + 1);
        let mut own: Own = Vec::new();
        for (k, (i, port)) in inputs.iter().zip(&self.ports.inputs).enumerate() {
            let fits = i.bytes.as_ptr().align_offset(ALIGN) == 0 && i.bytes.len() as u64 == port.room;
            if fits && !port.overwritten {
                addresses.push(i.bytes.as_ptr() as u64);
                continue;
            }
            let mut t = HostTensor::with_len(i.dtype, i.dims, port.room)?;
            t.bytes_mut()[..i.bytes.len()].copy_from_slice(i.bytes);
            addresses.push(t.bytes_mut().as_mut_ptr() as u64);
            own.push((k, t));
        }
        let copied_inputs = own.len();
        let mut chosen = selector(gears, gear)?;
        addresses.push(chosen.bytes_mut().as_mut_ptr() as u64);
        own.push((inputs.len(), chosen));
        let mut out = self.launch(&addresses, (own, copied_inputs), inputs, options)?;
        for (k, t) in out.outputs.iter_mut().enumerate() {
            let dims = gears.list.get(gear).and_then(|g| g.outputs.get(k)).map_or(&[][..], Vec::as_slice);
            let bytes = ge_plugin_api::types::Shape::of(dims).count().and_then(|c| t.dtype.bytes_of(c)).unwrap_or(0);
            let written = usize::try_from(bytes).ok().and_then(|n| t.bytes().get(..n)).unwrap_or(&[]);
            if written.len() == t.bytes().len() {
                t.dims = dims.into();
            } else {
                *t = HostTensor::from_bytes(t.dtype, dims, written)?;
            }
        }
        Ok(RunOutcome { gear: Some(gear), ..out })
    }

    /// Whether a gear has the sizes of these inputs. Inputs that are wrong for every gear (their
    /// number, types or fixed values) also give `true`, so that the run reports the precise error.
    pub fn has_gear_of(&self, inputs: &[TensorView<'_>]) -> bool {
        let Some(gears) = &self.compiled.gears else { return true };
        !matches!(self.gear(gears, inputs), Err(RuntimeError::NoGear { .. }))
    }

    /// The gear whose sizes match all inputs.
    fn gear(&self, gears: &Gears, inputs: &[TensorView<'_>]) -> Result<usize, RuntimeError> {
        self.check_count(inputs.len())?;
        for (i, w) in inputs.iter().zip(&self.compiled.inputs) {
            let declared = w.desc.shape.dims();
            let fits = |(d, n): (&ge_plugin_api::types::Dim, &u64)| d.size().is_none_or(|s| s == *n);
            let bytes = i.dims.iter().try_fold(1u64, |a, n| a.checked_mul(*n)).and_then(|c| i.dtype.bytes_of(c));
            if i.dtype != w.desc.dtype
                || declared.len() != i.dims.len()
                || !declared.iter().zip(i.dims).all(fits)
                || bytes != Some(i.bytes.len() as u64)
            {
                return Err(RuntimeError::Input {
                    name: w.name.clone(),
                    found: format!("{}{:?}", i.dtype, i.dims),
                    expected: format!("{}{}", w.desc.dtype, w.desc.shape),
                });
            }
        }
        let gear = of_sizes(gears, self.compiled.inputs.iter().zip(inputs.iter().map(|i| i.dims)))?;
        self.check_fixed(inputs)?;
        Ok(gear)
    }
}

/// The gear whose sizes match these inputs.
///
/// # Errors
/// Fails if one dimension name stands for two sizes, if no gear has these sizes, or if a size is not
/// what its expression is in the gear.
pub(crate) fn of_sizes<'m, 'd>(
    gears: &Gears,
    inputs: impl Iterator<Item = (&'m IoInfo, &'d [u64])> + Clone,
) -> Result<usize, RuntimeError> {
    let sizes = gears.sizes_in(inputs.clone()).map_err(|two| RuntimeError::Input {
        name: two.input.name.clone(),
        found: format!("{}={}", gears.dims[two.name], two.size),
        expected: format!("{}={}, as in `{}`", gears.dims[two.name], two.known, two.first.name),
    })?;
    let gear = gears.find(&sizes).ok_or_else(|| RuntimeError::NoGear {
        found: gears.sizes_shown(&sizes),
        nearest: gears.nearest(&sizes).map(|k| gears.shown(k)).unwrap_or_default(),
        all: (0..gears.list.len()).map(|k| gears.shown(k)).collect::<Vec<_>>().join("; "),
        flag: gears.flag_with(&sizes),
    })?;
    for (input, dims) in inputs {
        for (k, (d, n)) in input.desc.shape.dims().iter().zip(dims).enumerate() {
            let Some(want) = gears::size(*d, &gears.dims, &sizes).filter(|want| want != n) else { continue };
            let name = d.symbol_name().unwrap_or_default();
            return Err(RuntimeError::Input {
                name: input.name.clone(),
                found: format!("{n} for dimension {k} (`{name}`)"),
                expected: format!("{want}, which `{name}` is for {}", gears.shown(gear)),
            });
        }
    }
    Ok(gear)
}

/// The value of the extra input after the user's inputs: the sizes of the gear.
pub(crate) fn selector(gears: &Gears, gear: usize) -> Result<HostTensor, RuntimeError> {
    let sizes = gears.list.get(gear).map_or(&[][..], |g| &g.sizes);
    let chosen: Vec<u8> = sizes.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect();
    Ok(HostTensor::from_bytes(DType::I32, &[sizes.len() as u64], &chosen)?)
}
