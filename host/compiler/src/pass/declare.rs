//! `node_pass!` and `graph_pass!` declare a pass in one place: name, level, operator types, effect,
//! what it needs and keeps, and the function that implements it.
use ge_ir::{Graph, Model, Node, TensorDesc};

/// The node that a pass visits, with its graph and model.
pub struct At<'m> {
    /// The model.
    pub model: &'m Model,
    /// Index of the node's graph.
    pub gi: usize,
    /// The node's graph.
    pub g: &'m Graph,
    /// The node.
    pub n: &'m Node,
}

impl<'m> At<'m> {
    /// Descriptor of input `i`.
    pub fn input_desc(&self, i: usize) -> Option<&'m TensorDesc> {
        self.g.input_desc(self.n, i)
    }
    /// The node that produces input `i`.
    pub fn producer(&self, i: usize) -> Option<&'m Node> {
        self.g.producer(self.n, i)
    }
}

/// The trait methods that return the declared properties of a pass.
macro_rules! declared {
    ($name:ident, $level:ident, $effect:literal, $needs:literal, $keeps:literal $(, $option:literal $field:ident)?) => {
        fn name(&self) -> &'static str {
            stringify!($name)
        }
        fn level(&self) -> $crate::pass::PassLevel {
            $crate::pass::PassLevel::$level
        }
        fn effect(&self) -> &'static str {
            $effect
        }
        fn needs(&self) -> &'static str {
            $needs
        }
        fn keeps(&self) -> &'static str {
            $keeps
        }
        $(fn switch(&self) -> Option<$crate::options::Switch> {
            Some($crate::options::Switch { name: $option, is_on: |o| o.$field })
        })?
    };
}

/// `node_pass!(Name, Level, ["Op"], "before -> after", needs "...", keeps "...", function[, switch "option" field])`:
/// the function has the signature `fn(&mut PassContext, &At, &mut Rewriter) -> Result<()>`.
macro_rules! node_pass {
    ($name:ident, $level:ident, [$($op:literal),* $(,)?], $effect:literal, needs $needs:literal, keeps $keeps:literal,
     $visit:ident $(, switch $option:literal $field:ident)? $(,)?) => {
        /// See the module documentation.
        pub struct $name;
        impl $crate::pass::NodePass for $name {
            $crate::pass::declare::declared!($name, $level, $effect, $needs, $keeps $(, $option $field)?);
            fn ops(&self) -> &'static [&'static str] {
                &[$($op),*]
            }
            fn visit(
                &self,
                cx: &mut $crate::pass::PassContext<'_>,
                model: &ge_ir::Model,
                gi: usize,
                n: &ge_ir::Node,
                r: &mut $crate::pass::Rewriter<'_>,
            ) -> $crate::error::Result<()> {
                $visit(cx, &$crate::pass::declare::At { model, gi, g: &model.graphs()[gi], n }, r)
            }
        }
    };
}

/// `graph_pass!(Name, Level, "before -> after", needs "...", keeps "...", function[, switch "option" field])`:
/// the function has the signature `fn(&mut PassContext, &Model, usize) -> Result<Vec<Edit>>`.
macro_rules! graph_pass {
    ($name:ident, $level:ident, $effect:literal, needs $needs:literal, keeps $keeps:literal,
     $run:ident $(, switch $option:literal $field:ident)? $(,)?) => {
        /// See the module documentation.
        pub struct $name;
        impl $crate::pass::GraphPass for $name {
            $crate::pass::declare::declared!($name, $level, $effect, $needs, $keeps $(, $option $field)?);
            fn run(
                &self,
                cx: &mut $crate::pass::PassContext<'_>,
                model: &ge_ir::Model,
                gi: usize,
            ) -> $crate::error::Result<Vec<ge_plugin_api::patch::Edit>> {
                $run(cx, model, gi)
            }
        }
    };
}

pub(crate) use declared;
pub(crate) use graph_pass;
pub(crate) use node_pass;
