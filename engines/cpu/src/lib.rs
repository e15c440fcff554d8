//! The AI CPU and host CPU engines: every operator, plainly and rightly.
//!
//! One kernel an operator serves constant folding,
//! `DNN_VM_HOST_CPU`, and tasks of `DNN_VM_AICPU_ASCEND` and
//! `DNN_VM_AICPU` on the device. Kernels take views, element dispatch, the loop nest and loops over
//! neighbouring elements from `ge-kernels` and nothing else: what is judged by them shares no
//! arithmetic with them. Floating-point kernels compute in double precision and round once.
#![forbid(unsafe_code)]

/// Inputs, outputs and attributes of a call, checked.
pub mod args;
/// The kernels, one folder a family.
pub mod kernels;
/// Parallel loops over outputs.
pub mod par;
/// What a kernel says of its operator.
pub mod op;
/// The table of operators and the three engines over it.
pub mod store;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

ge_plugin_api::ge_plugin! {
    name: "cpu", kinds: ["engine"], provides: ["DNN_VM_AICPU_ASCEND", "DNN_VM_AICPU", "DNN_VM_HOST_CPU"]
}
