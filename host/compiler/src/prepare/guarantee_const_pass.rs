//! `GuaranteeConstPass`: removes the promise that a value never changes, which has been used by
//! now.
//!
//! Before: `%y = GuaranteeConst(%x)` ... reads of `%y`   After: reads of `%x`
//! When: always; the operator returns its input unchanged.
//! Refuses: outputs of another type than the input.
//! Keeps: the order of control edges; graph outputs.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::pass::declare::node_pass;
use crate::pass::rewriter::step_over;

node_pass!(
    GuaranteeConstPass,
    O0,
    ["GuaranteeConst"],
    "`GuaranteeConst(x)` -> `x`",
    needs "input and output of one type",
    keeps "the order of control edges; graph outputs",
    step_over,
);
