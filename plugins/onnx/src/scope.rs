//! What is known of a value by name while a graph is built.
use ge_plugin_api::types::{ConstTensor, TensorDesc, ValueRef};
use std::collections::HashMap;
use std::rc::Rc;

/// A value of the graph under construction.
#[derive(Clone, Debug)]
pub struct Known {
    /// Where it comes from.
    pub value: ValueRef,
    /// What is known of type and shape: of most values the same few things.
    pub desc: Rc<TensorDesc>,
    /// Its bytes, where it is a constant.
    pub constant: Option<ConstTensor>,
}

impl Known {
    /// A value of which nothing is known but where it comes from and perhaps its rank.
    pub fn new(value: ValueRef, desc: impl Into<Rc<TensorDesc>>) -> Known {
        Known { value, desc: desc.into(), constant: None }
    }
}

/// Values by the model's names. Looked up only, never iterated into an output.
pub type Scope = HashMap<String, Known>;
