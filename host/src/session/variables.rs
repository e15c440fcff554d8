//! Saving and restoring a session's variables in files.
use super::safetensors::{self, Tensors};
use super::{Session, import};
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
        let path = path.as_ref();
        let bytes = import::map(path)?;
        let file = Tensors::open(&bytes).map_err(|e| unreadable(path, &e))?;
        let names: Vec<&str> = file.names().collect();
        self.restore(path, &file, &names)
    }

    /// Like [`Session::restore_variables`], but the file must contain every variable of the loaded
    /// models. Other tensors in it are not read.
    ///
    /// # Errors
    /// Fails in the same cases, and if the file lacks a variable; the error names it with type and
    /// shape.
    pub fn restore_all_variables(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = import::map(path)?;
        let file = Tensors::open(&bytes).map_err(|e| unreadable(path, &e))?;
        let known = self.variables().list();
        if let Some(v) = known.iter().find(|v| !file.names().any(|name| name == v.name)) {
            let names: Vec<&str> = file.names().collect();
            let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            return Err(Diagnostic::error(format!("`{}` has no variable `{}`", path.display(), v.name))
                .subject(v.name.clone())
                .found(found, format!("{}{:?}", v.dtype, v.dims))
                .help("restore from a file that was saved after a run of this model")
                .raise(ge_codes::VARIABLE));
        }
        let names: Vec<&str> = known.iter().map(|v| v.name.as_str()).collect();
        self.restore(path, &file, &names)
    }

    /// Sets the named variables to what the file has for them.
    fn restore(&self, path: &Path, file: &Tensors<'_>, names: &[&str]) -> Result<()> {
        let mut values: Vec<(&str, HostTensor)> = Vec::with_capacity(names.len());
        for name in names {
            let value = file.read(name).map_err(|e| unreadable(path, &e))?;
            values.extend(value.map(|t| (*name, t)));
        }
        let views = values.iter().map(|(name, t)| (*name, t.view()));
        self.variables().write_all(views).map_err(|e| e.into_error())
    }
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::damaged(format!("`{}` is no safetensors file that ge can read: {why}", path.display()))
}
