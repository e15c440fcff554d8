//! `RefIdentityDeleteOpPass`: replaces an alias of a reference by the reference.
//!
//! Before: `%r = RefIdentity(%v)  %a = Assign(%r, %x)`   After: `%a = Assign(%v, %x)`
//! When: always.
//! Refuses: outputs of another type than the input.
//! Keeps: the order of control edges.
//! Source: facts 4.5 (c). Cost: each node once.
use crate::pass::declare::node_pass;
use crate::pass::rewriter::step_over;

node_pass!(
    RefIdentityDeleteOpPass,
    O0,
    ["RefIdentity"],
    "`RefIdentity(v)` -> `v`",
    needs "input and output of one type",
    keeps "the order of control edges",
    step_over,
);
