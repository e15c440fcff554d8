//! Plugin kernels applied to single tensors, for decoding images and converting types. The plugins
//! are loaded on first use.
use crate::commands::numbers::{Element, Elements, parts};
use crate::session::{Session, SessionOptions};
use crate::{Diagnostic, Error, Result};
use ge_plugin::Want;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::{AttrMap, DType};
use std::cell::OnceCell;
use std::path::Path;

/// The kernels of the engines of one configuration.
pub struct Kernels<'a> {
    plugins: Option<&'a Path>,
    session: OnceCell<Session>,
}

impl<'a> Kernels<'a> {
    /// Uses the kernels of a configuration; nothing is loaded yet.
    pub fn new(plugins: Option<&'a Path>) -> Kernels<'a> {
        Kernels { plugins, session: OnceCell::new() }
    }

    /// Runs an operator on the first engine that has a kernel for it.
    ///
    /// # Errors
    /// Fails if no engine has one or if the kernel fails.
    pub fn run(&self, op: &str, attrs: &AttrMap, inputs: &[TensorView<'_>], output: DType) -> Result<HostTensor> {
        let session = match self.session.get() {
            Some(s) => s,
            None => {
                let plugins = self.plugins.map(Path::to_path_buf);
                let made =
                    Session::new(SessionOptions { plugins, want: Want::kinds(&["engine"]), ..Default::default() })?;
                self.session.get_or_init(|| made)
            }
        };
        let engine = session.registry().engines().iter().find(|e| e.has_host_kernel(op));
        let Some(engine) = engine else {
            return Err(Diagnostic::error(format!("no enabled engine has a kernel for {op}, which an input needs"))
                .help("enable `dvpp` for images and `cpu` for conversions in plugins.toml")
                .raise(ge_codes::ENGINE_OF_OM));
        };
        let inputs: Vec<Option<TensorView<'_>>> = inputs.iter().copied().map(Some).collect();
        let made = engine.run_host_kernel(op, "input", attrs, &inputs, &[output])?;
        made.into_iter().next().ok_or_else(|| Error::internal("a kernel without an output"))
    }

    /// Converts a tensor to another type. A complex number of a real one has no imaginary part.
    ///
    /// # Errors
    /// `usage` if the other type cannot hold a value.
    pub fn cast(&self, t: &HostTensor, to: DType, what: &str) -> Result<HostTensor> {
        if t.dtype == to {
            return HostTensor::from_bytes(to, &t.dims, t.bytes());
        }
        match (t.dtype.is_complex(), to.is_complex()) {
            (false, false) => self.cast_reals(t, to, what),
            (false, true) => {
                let real = self.cast(t, parts(to).0, what)?;
                let width = real.bytes().len() / usize::try_from(elements(t)).unwrap_or(usize::MAX).max(1);
                let none = vec![0; width];
                let pairs: Vec<u8> =
                    real.bytes().chunks_exact(width.max(1)).flat_map(|re| [re, &none].concat()).collect();
                HostTensor::from_bytes(to, &t.dims, &pairs)
            }
            (true, true) => {
                let pairs = HostTensor::from_bytes(parts(t.dtype).0, &[elements(t), 2], t.bytes())?;
                let made = self.cast(&pairs, parts(to).0, what)?;
                HostTensor::from_bytes(to, &t.dims, made.bytes())
            }
            (true, false) => Err(Diagnostic::error(format!("{what}: complex numbers are no values of {to}"))
                .found(t.dtype.name(), to.name())
                .help("save the part that the model takes: `x.real`, `x.imag` or `abs(x)`")
                .raise(ge_codes::INPUT)),
        }
    }

    fn cast_reals(&self, t: &HostTensor, to: DType, what: &str) -> Result<HostTensor> {
        let mut attrs = AttrMap::default();
        attrs.set("dst_type", to);
        let made = self.run("Cast", &attrs, &[t.view()], to)?;
        if t.dtype == DType::STRING || to == DType::STRING {
            return Ok(made);
        }
        let (before, after) = (Elements::of(t), Elements::of(&made));
        let whole = to.is_int() || to == DType::BOOL;
        let range = Range::of(to);
        let lost = |(a, b): (Element, Element)| if whole { !a.is(b) } else { !range.holds(a.real(), b.real()) };
        match before.iter().zip(after.iter()).position(lost) {
            None => Ok(made),
            Some(at) => Err(Diagnostic::error(format!("{what}: element {at} does not fit {to}"))
                .found(before.iter().nth(at).map_or_else(String::new, |e| e.to_string()), format!("a value of {to}"))
                .raise(ge_codes::INPUT)),
        }
    }
}

/// Number of elements of a tensor.
fn elements(t: &HostTensor) -> u64 {
    t.dims.iter().product()
}

/// The real numbers that a type holds when they are rounded.
struct Range {
    /// Least and greatest number that is not beyond the type; `None` for types with infinities,
    /// which show by one that a number is beyond them.
    ends: Option<(f64, f64)>,
}

impl Range {
    /// The range of a real type. Types of at most 8 bits give their greatest number for what is
    /// beyond them, so the range follows from their values: half a step beyond the last one.
    fn of(dtype: DType) -> Range {
        let width = dtype.bits().filter(|w| *w <= 8 && !dtype.is_int() && dtype != DType::BOOL);
        let ends = width.and_then(|width| {
            let all = (0..1u64 << width).filter_map(|bits| ge_ir::text::decode_real(dtype, bits));
            let mut all: Vec<f64> = all.filter(|v| v.is_finite()).collect();
            all.sort_by(f64::total_cmp);
            let (&[low, next, ..], &[.., before, high]) = (all.as_slice(), all.as_slice()) else { return None };
            Some((low - (next - low) / 2.0, high + (high - before) / 2.0))
        });
        Range { ends }
    }

    /// Whether a number is in the range; `made` is what it became.
    fn holds(&self, x: f64, made: f64) -> bool {
        match self.ends {
            _ if !x.is_finite() => x == made || (x.is_nan() && made.is_nan()),
            Some((low, high)) => (low..=high).contains(&x),
            None => made.is_finite(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_types_hold_what_rounds_to_their_greatest_number_and_no_more() {
        let holds = |dtype, x: f64, made: f64| Range::of(dtype).holds(x, made);
        assert!(holds(DType::F8E4M3FN, 460.0, 448.0) && !holds(DType::F8E4M3FN, 1000.0, 448.0));
        assert!(holds(DType::F4E2M1, -6.5, -6.0) && !holds(DType::F4E2M1, -1000.0, -6.0));
        assert!(!holds(DType::F8E5M2, 1e6, 57344.0) && holds(DType::F8E5M2, f64::INFINITY, f64::INFINITY));
        assert!(!holds(DType::F8E8M0, -1.0, 1.0) && holds(DType::F8E8M0, 3.0, 4.0));
        assert!(!holds(DType::F8E4M3FN, f64::INFINITY, 448.0) && holds(DType::F8E4M3FN, f64::NAN, f64::NAN));
        assert!(holds(DType::F16, 65504.0, 65504.0) && !holds(DType::F16, 70000.0, f64::INFINITY));
    }
}
