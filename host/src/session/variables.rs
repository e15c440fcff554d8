//! Saving and restoring a session's variables in files.
use super::{Session, import, safetensors};
use crate::files::write_atomic;
use crate::{Diagnostic, Error, Result};
use ge_plugin_api::kernel::HostTensor;
use std::path::Path;

impl Session {
    /// Writes the values of all variables to a safetensors file, completely or not at all. Waits
    /// for runs in progress, one variable at a time.
    ///
    /// # Errors
    /// Fails if a variable has a type that the format does not support, or if the file cannot be
    /// written.
    pub fn save_variables(&self, path: impl AsRef<Path>) -> Result<()> {
        let values = self.variables().values().map_err(|e| e.into_error())?;
        let bytes = safetensors::write(&values).map_err(|(name, dtype)| {
            Error::unsupported(format!("variable `{name}` is {dtype}, which has no form in a safetensors file"))
        })?;
        write_atomic(path.as_ref(), &bytes)
    }

    /// Sets variables from a safetensors file. Values for variables that no loaded model uses yet
    /// are kept for the first model that does. If one value does not fit, no variable is changed.
    ///
    /// # Errors
    /// Fails if the file is missing or damaged, or if a variable has another type or shape there.
    pub fn restore_variables(&self, path: impl AsRef<Path>) -> Result<()> {
        let values = read(path.as_ref())?;
        self.restore(&values)
    }

    /// Like [`Session::restore_variables`], but the file must contain every variable of the loaded
    /// models, and other values in it are ignored.
    ///
    /// # Errors
    /// Fails in the same cases, and if the file lacks a variable; the error names it with type and
    /// shape.
    pub fn restore_all_variables(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let values = read(path)?;
        let known = self.variables().list();
        if let Some(v) = known.iter().find(|v| !values.iter().any(|(name, _)| *name == v.name)) {
            let names: Vec<&str> = values.iter().map(|(n, _)| n.as_str()).collect();
            let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            return Err(Diagnostic::error(format!("`{}` has no variable `{}`", path.display(), v.name))
                .subject(v.name.clone())
                .found(found, format!("{}{:?}", v.dtype, v.dims))
                .help("restore from a file that was saved after a run of this model")
                .raise(ge_codes::VARIABLE));
        }
        // Other values in the file belong to other models.
        let own: Vec<_> = values.into_iter().filter(|(name, _)| known.iter().any(|v| v.name == *name)).collect();
        self.restore(&own)
    }

    fn restore(&self, values: &[(String, HostTensor)]) -> Result<()> {
        let known = self.variables().list();
        for (name, t) in values {
            let Some(v) = known.iter().find(|v| v.name == *name) else { continue };
            if (v.dtype, v.dims.as_slice()) != (t.dtype, &t.dims[..]) {
                return Err(ge_runtime::RuntimeError::Variable {
                    name: name.clone(),
                    found: format!("{}{:?}", t.dtype, t.dims.to_vec()),
                    expected: format!("{}{:?}", v.dtype, v.dims),
                }
                .into_error());
            }
        }
        values.iter().try_for_each(|(name, t)| self.variables().write(name, &t.view())).map_err(|e| e.into_error())
    }
}

fn read(path: &Path) -> Result<Vec<(String, HostTensor)>> {
    let bytes = import::map(path)?;
    safetensors::read(&bytes)
        .map_err(|e| Error::damaged(format!("`{}` is no safetensors file that ge can read: {e}", path.display())))
}
