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

/// Allocates logical streams and builds the relation that memory and sync use. With `ge.x.stream_mode=parallel:N` the root
/// graph's order may become another one before streams are written: it is the order of all later stages.
pub fn run(
    model: &mut Model,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
) -> Result<(StreamPlan, ExecutionOrder)> {
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
    if let Some(width) = parallel::of_model::width(options) {
        if !parallel::of_model::by_engine_all_the_same(model, &plan) {
            parallel::of_model::apply(model, &mut plan, placement, toolbox, options, width)?;
        }
    }
    let order = ExecutionOrder::new(model, &plan);
    Ok((plan, order))
}
