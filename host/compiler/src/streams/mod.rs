//! Stream allocation. Input: a placed graph. Output: `StreamPlan` and `ExecutionOrder`.

/// The decisions of the stage.
pub mod plan;
/// Control flow by labels: bodies and their borders.
pub mod flow;
/// Branches of which only one is taken.
pub mod branches;
/// Streams of bodies.
pub mod bodies;
/// Which nodes wake which streams.
pub mod activation;
/// Which nodes run before which.
pub mod order;
/// The node order that an option requests.
pub mod node_order;
/// Logical streams by engine.
pub mod logical;
/// Streams of graphs with unknown shapes.
pub mod dynamic;
/// Which graphs are of unknown shape.
pub mod unknown;
/// Streams from the graph's own parallelism (`ge.x.stream_mode = parallel:N`).
pub mod parallel;

pub use order::ExecutionOrder;
pub use plan::{LogicalStream, StreamPlan};

use crate::error::{CompileError, Result};
use crate::options::Options;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use std::sync::Arc;

/// Allocates logical streams and builds the order relation that memory and sync use. With
/// `ge.x.stream_mode=parallel:N` the node order of the root graph may change before streams are
/// assigned; all later stages use the new order.
pub fn run(
    model: &mut Model,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
) -> Result<(StreamPlan, ExecutionOrder)> {
    logical::assign_by_dependency_pass::check(options, toolbox)?;
    let mut plan = if unknown::is_dynamic(model.root()) {
        dynamic::assign(model, placement, toolbox, options)?
    } else {
        logical::assign(model, placement, toolbox, options)?
    };
    // END_GRAPH needs a stream even if nothing runs before it.
    if let Some(out) = model.root().net_output() {
        plan.of[crate::ids::NodeKey::new(0, out.id())].get_or_insert(crate::ids::StreamId(0));
    }
    plan.mark_taskless(model, placement, toolbox);
    // A single stream that runs its nodes in order needs no regions, unless there are attached
    // streams.
    let alone = plan.single && plan.main_count() == plan.streams.len();
    let mut flow = flow::Flow::of(model).map(Arc::new).filter(|_| !alone);
    if flow.is_none() && !plan.single && model.root().nodes().any(|n| flow::scope_of(n).is_some()) {
        return Err(CompileError::internal("streams", "the labels of control flow do not nest"));
    }
    if flow.is_none() {
        activation::assign(model, &mut plan)?;
    }
    let width = parallel::of_model::width(options)
        .filter(|_| !parallel::of_model::by_engine_all_the_same(model, &plan, flow.as_deref()));
    if let Some(width) = width {
        parallel::of_model::apply(model, &mut plan, placement, toolbox, options, width, flow.as_deref())?;
        // The node order may have changed.
        flow = flow.and_then(|_| flow::Flow::of(model).map(Arc::new));
    }
    if let Some(flow) = flow {
        bodies::spread(model, &mut plan, &flow, placement, toolbox, width.is_some())?;
        plan.flow = Some(flow);
        activation::assign(model, &mut plan)?;
    }
    let order = ExecutionOrder::new(model, &plan);
    Ok((plan, order))
}
