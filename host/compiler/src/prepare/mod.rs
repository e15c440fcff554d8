//! Preparation. in: the graph as the front end built it, out: the same graph with every type and shape that can be known.
pub mod fold;
pub mod infer_shape_pass;
mod subgraphs;

pub use infer_shape_pass::InferShapePass;

use crate::error::Result;
use crate::pass::Records;
use crate::toolbox::Toolbox;
use ge_ir::Model;

/// Infers shapes and folds constants until nothing changes.
pub fn run(model: &mut Model, toolbox: &Toolbox, records: &mut Records) -> Result<()> {
    InferShapePass::new(toolbox).run(model, records)?;
    model.compact();
    Ok(())
}
