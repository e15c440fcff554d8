//! Writes a pass against the plugin interface and runs it on a graph without building a plugin, as
//! one does to test a pass.
//!
//! `examples/vendor` is a crate of a vendor that ships such a pass in its own library.
use ge_ir::text::{NoFiles, parse, to_string};
use ge_ir::view::GraphContext;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::view::Graph;
use std::error::Error;

/// `Neg(Neg(x))` becomes `x`.
struct DoubleNegPass;

impl Pass for DoubleNegPass {
    fn info(&self) -> PassInfo {
        PassInfo::new("DoubleNegPass", PassStage::AFTER_INFER_SHAPE, PassLevel::O1, "Neg(Neg(x)) becomes x")
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> ge_plugin_api::Result<()> {
        for outer in graph.nodes_of(&["Neg"]) {
            let inner = outer.input(0).map(|v| graph.node(v.node)).filter(|n| n.op() == "Neg");
            // The edits are recorded; the graph changes only when all of them are applied.
            if let Some(x) = inner.and_then(|n| n.input(0)) {
                patch.replace_uses(outer.value(0), x);
                patch.remove(outer.id());
            }
        }
        Ok(())
    }
}

const GRAPH: &str = "graph @main(%x: f32[2]) {
  %a = Neg(%x) : f32[2]
  %b = Neg(%a) : f32[2]
  %y = Exp(%b) : f32[2]
  return %y
}
";

fn main() -> Result<(), Box<dyn Error>> {
    let mut model = parse(GRAPH, "graph.ge", &NoFiles).map_err(|d| d[0].message.to_string())?;
    let edits = {
        let context = GraphContext::new(&model, 0, &());
        let graph = context.graph();
        let mut patch = Patch::new(&graph);
        DoubleNegPass.run(&graph, &mut patch)?;
        patch.into_edits()
    };
    println!("{}: {} edits", DoubleNegPass.info().name, edits.len());
    model.apply(0, edits.into())?;
    let text = to_string(&model)?;
    print!("{text}");
    if !text.contains("Exp(%x)") { Err("the two Negs should be gone before Exp".into()) } else { Ok(()) }
}
