//! The AI CPU and host CPU engines, with a plain, correct implementation of every operator.
//!
//! A single kernel per operator serves constant folding, `DNN_VM_HOST_CPU`, and tasks of
//! `DNN_VM_AICPU_ASCEND` and `DNN_VM_AICPU` on the device. From `ge-kernels`, kernels use only
//! views, element dispatch, the loop nest, loops over neighbouring elements and `multiversion!`. So
//! the kernels that are tested against them share no arithmetic with them. Floating-point kernels
//! compute in double precision and round once.
#![forbid(unsafe_code)]

/// Checked inputs, outputs and attributes of a call.
pub mod args;
/// The kernels, in one folder per family.
pub mod kernels;
/// Parallel loops over outputs.
pub mod par;
/// The description of an operator and its kernel.
pub mod op;
/// The table of operators and the three engines that share it.
pub mod store;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

ge_plugin_api::ge_plugin! {
    name: "cpu", kinds: ["engine"], provides: ["DNN_VM_AICPU_ASCEND", "DNN_VM_AICPU", "DNN_VM_HOST_CPU"]
}
