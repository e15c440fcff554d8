//! The contents of all variables at one time, to be set again later.
use super::{Cell, Variables};
use crate::error::RuntimeError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes that each variable held at one time, in whatever layout it has.
#[derive(Default)]
pub struct Snapshot {
    /// Variables by rank and name.
    cells: BTreeMap<(u32, String), (Arc<Cell>, Vec<u8>)>,
}

impl Variables {
    /// Reads the contents of all variables, of every rank. Waits for runs in progress, one variable
    /// at a time.
    ///
    /// # Errors
    /// Fails if a device fails that holds a variable.
    pub fn snapshot(&self) -> Result<Snapshot, RuntimeError> {
        let cells: Vec<_> = self.cells().iter().map(|(key, cell)| (key.clone(), cell.clone())).collect();
        let one = |(key, cell): ((u32, String), Arc<Cell>)| {
            let value = cell.home.read().unwrap_or_else(|e| e.into_inner()).value()?;
            Ok((key, (cell, value)))
        };
        Ok(Snapshot { cells: cells.into_iter().map(one).collect::<Result<_, RuntimeError>>()? })
    }

    /// Sets all variables to what they held. Variables that were added since are forgotten: the
    /// next model that names one starts with a new one, and models that are already loaded keep
    /// theirs.
    pub fn restore(&self, to: &Snapshot) {
        *self.cells() = to.cells.iter().map(|(key, (cell, _))| (key.clone(), cell.clone())).collect();
        to.cells.values().for_each(|(cell, value)| cell.set(value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Home, VariableInfo};
    use super::*;
    use ge_plugin_api::types::DType;
    use std::sync::RwLock;

    #[test]
    fn variables_of_any_layout_are_set_again_and_later_ones_are_forgotten() {
        let cell = |name: &str, layout: &str| {
            let info = VariableInfo { name: name.into(), dtype: DType::U8, dims: vec![2] };
            Arc::new(Cell { info, layout: layout.into(), home: RwLock::new(Home::Host(vec![1, 2])) })
        };
        let variables = Variables::default();
        let v = cell("v", "TransposeD [1, 0]");
        variables.cells().insert((1, "v".into()), v.clone());
        let before = variables.snapshot().expect("on the host");
        v.set(&[3, 4]);
        variables.cells().insert((0, "w".into()), cell("w", ""));
        variables.restore(&before);
        assert!(Arc::ptr_eq(&v, &variables.cells()[&(1, "v".into())]), "loaded models still use it");
        assert_eq!(v.home.read().expect("no panic").value().expect("on the host"), [1, 2]);
        assert!(variables.list().is_empty());
    }
}
