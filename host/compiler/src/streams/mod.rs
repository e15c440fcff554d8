//! Stream allocation. in: a placed graph, out: `StreamPlan` and `ExecutionOrder`.

/// What the stage decides.
pub mod plan;
/// Which nodes wake which streams.
pub mod activation;
/// What runs before what.
pub mod order;
/// Logical streams by engine.
pub mod logical;
/// Streams of graphs with unknown shapes.
pub mod dynamic;
/// Streams from the graph's own parallelism (`ge.x.stream_mode = parallel:N`).
pub mod parallel;
/// One stream per engine, the default of document 004, over plain data.
pub mod engine;
/// The JSON forms of `ge plan streams`: a graph in, a plan out.
pub mod plan_file;

pub use order::ExecutionOrder;
pub use plan::{LogicalStream, StreamPlan};

use crate::error::Result;
use crate::options::Options;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;

/// Allocates logical streams and builds the relation that memory and sync use.
pub fn run(
    model: &Model,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
) -> Result<(StreamPlan, ExecutionOrder)> {
    let mode = options.get("ge.x.stream_mode");
    if mode.starts_with("parallel:") {
        return Err(crate::error::CompileError::Option {
            message: format!("`ge.x.stream_mode={mode}` is not supported by compile yet: its streams go by engine"),
            help: "leave the option away; `ge plan streams --mode parallel:N` plans a graph of costs".into(),
        });
    }
    let mut plan = if dynamic::is_dynamic(model.root()) {
        dynamic::assign(model, placement, toolbox, options)?
    } else {
        logical::assign(model, placement, toolbox, options)?
    };
    // END_GRAPH needs a stream even where nothing runs before it.
    if let Some(out) = model.root().net_output() {
        plan.of[crate::ids::NodeKey::new(0, out.id())].get_or_insert(crate::ids::StreamId(0));
    }
    activation::assign(model, &mut plan)?;
    plan.mark_taskless(model, placement, toolbox);
    let order = ExecutionOrder::new(model, &plan);
    Ok((plan, order))
}
