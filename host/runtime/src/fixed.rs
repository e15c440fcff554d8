//! Inputs whose values were fixed at compile time. The compiler has folded these values into the
//! model, so a run with another value would compute something else than the caller asked for.
use crate::error::RuntimeError;
use ge_model::CompiledModel;
use ge_plugin_api::types::ConstTensor;

/// The fixed values of a model, by input.
pub(crate) struct FixedInputs(Vec<(usize, ConstTensor)>);

impl FixedInputs {
    pub(crate) fn of(m: &CompiledModel) -> FixedInputs {
        FixedInputs(m.fixed_inputs().into_iter().map(|(k, t)| (k, t.clone())).collect())
    }

    /// The first input with another value than the fixed one. `given` returns the bytes of an
    /// input; an input without bytes is not compared.
    fn other<'g>(&self, given: impl Fn(usize) -> Option<&'g [u8]>) -> Option<&(usize, ConstTensor)> {
        let differs = |k: usize, t: &ConstTensor| given(k).is_some_and(|g| t.bytes().is_none_or(|own| *own != *g));
        self.0.iter().find(|(k, t)| differs(*k, t))
    }

    /// Whether all inputs have their fixed values.
    pub(crate) fn hold<'g>(&self, given: impl Fn(usize) -> Option<&'g [u8]>) -> bool {
        self.other(given).is_none()
    }

    /// Checks that all inputs have their fixed values.
    ///
    /// # Errors
    /// Returns the name of the first input that does not, and its fixed value.
    pub(crate) fn check<'g>(
        &self,
        m: &CompiledModel,
        given: impl Fn(usize) -> Option<&'g [u8]>,
    ) -> Result<(), RuntimeError> {
        let Some((k, value)) = self.other(given) else { return Ok(()) };
        let whole = value.to_i64(4).map(|v| format!("{v:?}"));
        let shown = whole.or_else(|| value.to_f64(4).map(|v| format!("{v:?}"))).unwrap_or_default();
        Err(RuntimeError::Input {
            name: m.inputs.get(*k).map_or_else(String::new, |i| i.name.clone()),
            found: "another value".into(),
            expected: format!("the value that the model was compiled for, {shown}").trim_end_matches(", ").to_owned(),
        })
    }
}
