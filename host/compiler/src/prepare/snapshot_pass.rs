//! `SnapshotPass`: removes an operator that only observes a value.
//!
//! Before: `%y = Snapshot(%x)` ... reads of `%y`   After: reads of `%x`
//! When: always; the operator returns its input unchanged.
//! Refuses: outputs of another type than the input.
//! Keeps: the order of control edges; graph outputs.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::pass::declare::node_pass;
use crate::pass::rewriter::step_over;

node_pass!(
    SnapshotPass,
    O0,
    ["Snapshot"],
    "`Snapshot(x)` -> `x`",
    needs "input and output of one type",
    keeps "the order of control edges; graph outputs",
    step_over,
);
