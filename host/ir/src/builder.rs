//! Builds graphs in Rust code: each call adds a node and returns its value. The edits are the same
//! ones that plugins use.
use crate::graph::{EditError, Model};
use ge_plugin_api::frontend::{GraphBuilder, NodeBuilder};
use ge_plugin_api::types::{AttrValue, ConstTensor, NodeId, TensorDesc, ValueRef};

/// Builds a model: a root graph, and subgraphs within it.
///
/// ```
/// use ge_ir::{DType, Shape, TensorDesc, builder::Builder};
/// let mut b = Builder::new("main");
/// let d = TensorDesc::new(DType::F32, Shape::of(&[2, 3]));
/// let x = b.input("x", d.clone());
/// let y = b.node("Relu").name("y").input(x).output(d).build();
/// b.output("y", y);
/// let model = b.build()?;
/// assert_eq!(model.root().len(), 3);
/// # Ok::<(), ge_ir::EditError>(())
/// ```
pub struct Builder {
    inner: GraphBuilder<'static>,
    root: String,
    /// Graphs being built; the innermost is last.
    open: Vec<Open>,
}

/// A graph being built.
struct Open {
    name: String,
    inputs: u32,
    outputs: Vec<(String, ValueRef)>,
}
impl Open {
    fn new(name: &str) -> Open {
        Open { name: name.to_owned(), inputs: 0, outputs: Vec::new() }
    }
}

impl Builder {
    /// Starts an empty root graph named `root`.
    pub fn new(root: &str) -> Builder {
        Builder { inner: GraphBuilder::new(None), root: root.to_owned(), open: vec![Open::new(root)] }
    }
    /// Adds the next input of the graph: a `Data` node.
    pub fn input(&mut self, name: &str, desc: TensorDesc) -> ValueRef {
        let mut index = 0;
        if let Some(top) = self.open.last_mut() {
            index = top.inputs;
            top.inputs += 1;
        }
        self.inner.data(name, index, desc)
    }
    /// Adds a constant.
    pub fn constant(&mut self, name: &str, tensor: ConstTensor) -> ValueRef {
        self.inner.constant(name, tensor)
    }
    /// Starts a node of operator type `op`.
    pub fn node(&mut self, op: &str) -> NodeBuilder<'_, 'static> {
        self.inner.node(op)
    }
    /// Adds a control edge, so that `second` runs after `first`.
    pub fn order(&mut self, first: NodeId, second: NodeId) {
        self.inner.patch().push(ge_plugin_api::patch::Edit::AddControl(first, second));
    }
    /// Adds the next output of the graph under the name that the user knows.
    pub fn output(&mut self, name: &str, value: ValueRef) {
        if let Some(top) = self.open.last_mut() {
            top.outputs.push((name.to_owned(), value));
        }
    }
    /// Sets an attribute of the graph that is being built.
    pub fn graph_attr(&mut self, key: &str, value: impl Into<AttrValue>) {
        self.inner.graph_attr(key, value);
    }
    /// Builds a subgraph and returns the attribute value that names it; set it on the node that
    /// owns the subgraph. The body cannot use values of other graphs.
    pub fn subgraph(&mut self, name: &str, body: impl FnOnce(&mut Builder)) -> AttrValue {
        let outer = self.open.last().map_or_else(|| self.root.clone(), |o| o.name.clone());
        self.inner.enter(&outer, name);
        self.open.push(Open::new(name));
        body(self);
        self.close();
        self.inner.enter(name, &outer);
        AttrValue::Graph(name.into())
    }
    fn close(&mut self) {
        if let Some(done) = self.open.pop() {
            self.inner.outputs(&done.outputs);
        }
    }
    /// Returns the finished model.
    ///
    /// # Errors
    /// Fails if an edit is invalid, for example if a node reads a value of another graph.
    pub fn build(mut self) -> Result<Model, EditError> {
        self.close();
        let mut m = Model::new(&self.root);
        m.apply(0, self.inner.into_patch().into_edits().into())?;
        Ok(m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Shape};

    #[test]
    fn a_built_model_is_the_one_that_its_text_says() {
        let d = || TensorDesc::new(DType::F32, Shape::of(&[2]));
        let mut b = Builder::new("main");
        let c = b.input("c", TensorDesc::new(DType::BOOL, Shape::scalar()));
        let x = b.input("x", d());
        let branch = |op: &'static str, name: &'static str| {
            move |b: &mut Builder| {
                let a = b.input(&format!("{name}_a"), d());
                let r = b.node(op).name(&format!("{name}_r")).input(a).output(d()).build();
                b.output("r", r);
            }
        };
        let then = b.subgraph("then", branch("Relu", "t"));
        let other = b.subgraph("else", branch("Neg", "e"));
        let y = b.node("If").name("y").inputs(&[c, x]).attr("then_branch", then).attr("else_branch", other);
        let y = y.output(d()).build();
        b.output("y", y);
        let m = b.build().expect("legal");
        let text = r#"graph @main(%c: bool[], %x: f32[2]) {
  %y = If(%c, %x) {else_branch = @else, then_branch = @then} : f32[2]
  return %y {_output_names = ["y"]}
}
graph @then(%t_a: f32[2]) {
  %t_r = Relu(%t_a) : f32[2]
  return %t_r {_output_names = ["r"]}
}
graph @else(%e_a: f32[2]) {
  %e_r = Neg(%e_a) : f32[2]
  return %e_r {_output_names = ["r"]}
}
"#;
        assert_eq!(crate::text::to_string(&m).expect("prints"), text);
        assert!(
            crate::verify::verify_with(
                &m,
                &crate::verify::NoOps,
                crate::verify::VerifyOptions { unknown_ops: crate::verify::UnknownOps::Allow, ..Default::default() }
            )
            .is_ok()
        );
    }
}
