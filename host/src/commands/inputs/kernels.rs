//! Plugin kernels applied to single tensors, for decoding images and converting types. The plugins
//! are loaded on first use.
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

    /// Converts a tensor to another type.
    ///
    /// # Errors
    /// `usage` if the other type cannot hold a value.
    pub fn cast(&self, t: &HostTensor, to: DType, what: &str) -> Result<HostTensor> {
        if t.dtype == to {
            return HostTensor::from_bytes(to, &t.dims, t.bytes());
        }
        let mut attrs = AttrMap::default();
        attrs.set("dst_type", to);
        let made = self.run("Cast", &attrs, &[t.view()], to)?;
        let (before, after) = (crate::commands::numbers::values(t), crate::commands::numbers::values(&made));
        let whole = to.is_int() || to == DType::BOOL;
        let lost = |(a, b): (&f64, &f64)| if whole { a != b } else { a.is_finite() && !b.is_finite() };
        match before.iter().zip(&after).position(lost) {
            None => Ok(made),
            Some(at) => Err(Diagnostic::error(format!("{what}: element {at} does not fit {to}"))
                .found(before[at].to_string(), format!("a value of {to}"))
                .raise(ge_codes::INPUT)),
        }
    }
}
