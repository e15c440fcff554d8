//! What is known about values, by name, while a graph is built.
use ge_plugin_api::types::{ConstTensor, TensorDesc, ValueRef};
use std::collections::HashMap;
use std::rc::Rc;

/// A value of the graph under construction.
#[derive(Clone, Debug)]
pub struct Known {
    /// The node output that makes it.
    pub value: ValueRef,
    /// Known type and shape; shared, because many values have the same.
    pub desc: Rc<TensorDesc>,
    /// Its value, if it is a constant.
    pub constant: Option<ConstTensor>,
}

impl Known {
    /// A value that is not a constant.
    pub fn new(value: ValueRef, desc: impl Into<Rc<TensorDesc>>) -> Known {
        Known { value, desc: desc.into(), constant: None }
    }
    /// An input of a function that its call leaves out.
    pub fn left_out() -> Known {
        Known::new(ValueRef::ABSENT, TensorDesc::unknown())
    }
    /// Whether this is an input of a function that its call leaves out.
    pub fn is_left_out(&self) -> bool {
        self.value.is_absent() && self.constant.is_none()
    }
}

/// Values by the model's names. Only used for look-ups, never iterated into an output.
pub type Scope = HashMap<String, Known>;
