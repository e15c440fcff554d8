//! Inputs with an initializer: they are constants unless `--input-shape` names them. In that case
//! they are inputs, and the initializer is the default value for runs that give none.
//!
//! Source: ONNX IR, "Graphs": an initializer with the name of an input is its default value.
use crate::inputs::declared;
use crate::proto::ValueInfoProto;
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{Attr, AttrValue, ConstTensor, DType, Key, Shape, TensorDesc};
use std::collections::HashMap;

/// Attribute of an input: its default value.
pub const VALUE: &str = "_default_value";
/// Attribute of the graph: inputs that became constants, in the form of `--input-shape` entries.
const LEFT_OUT: &str = "_defaulted_inputs";

/// The inputs of a model that have an initializer.
#[derive(Default)]
pub struct Defaults {
    values: HashMap<String, ConstTensor>,
    left_out: Vec<String>,
}

impl Defaults {
    /// Records an input that stays an input, with its default.
    pub fn keep(&mut self, name: &str, value: ConstTensor) {
        self.values.insert(name.to_owned(), value);
    }
    /// Records an input that becomes a constant; inputs that cannot be declared are left out.
    pub fn left_out(&mut self, v: &ValueInfoProto) {
        if let Ok(d) = declared(v).map(|d| d.shape) {
            self.left_out.push(format!("{}:{}", v.name, entry(&d)));
        }
    }
    /// The declared descriptor of an input, with the type of its default if the model states none.
    pub fn typed(&self, name: &str, mut d: TensorDesc) -> TensorDesc {
        if let Some(value) = self.values.get(name).filter(|_| d.dtype == DType::UNKNOWN) {
            d = TensorDesc { container: Container::TENSOR, ..TensorDesc::new(value.dtype, d.shape) };
        }
        d
    }
    /// The default of an input, if its sizes match the input's.
    pub fn of(&mut self, name: &str, d: &TensorDesc) -> Option<ConstTensor> {
        let value = self.values.remove(name)?;
        let sizes = d.shape.dims().iter().zip(value.dims.iter());
        let fits = d.shape.is_unranked()
            || d.shape.rank() == Some(value.dims.len())
                && sizes.into_iter().all(|(d, n)| d.size().is_none_or(|s| s == *n));
        (fits && d.dtype == value.dtype).then_some(value)
    }
    /// Stores the inputs that became constants as an attribute of the graph.
    pub fn tell(&mut self, p: &mut Patch) {
        if self.left_out.is_empty() {
            return;
        }
        let list: Vec<_> = self.left_out.drain(..).map(|e| e.as_str().into()).collect();
        p.push(Edit::SetGraphAttr(Attr { key: Key::new(LEFT_OUT), value: AttrValue::Strs(list.into()) }));
    }
}

/// A shape in the form of `--input-shape`.
fn entry(shape: &Shape) -> String {
    if shape.is_unranked() {
        return "?".to_owned();
    }
    let one = |d: &ge_plugin_api::types::Dim| d.size().map_or_else(|| "?".to_owned(), |n| n.to_string());
    shape.dims().iter().map(one).collect::<Vec<_>>().join(",")
}
