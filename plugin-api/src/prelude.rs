//! The items that most plugins use: `use ge_plugin_api::prelude::*;`.
pub use crate::author::SimpleEngine;
pub use crate::engine::{
    Engine, EngineInfo, Hook, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext, Workspace,
};
pub use crate::kernel::{
    Access, BlockArgs, BlockKernel, HostKernel, HostTensor, KernelCtx, LoadedKernel, block_kernel,
};
pub use crate::ops::{AttrKind, InferCtx, OpDef, flags, infer};
pub use crate::pass::{Pass, PassInfo, PassLevel, PassStage};
pub use crate::patch::Patch;
pub use crate::services::{OptionList, OptionSpec, OptionValue};
pub use crate::task::{KernelTask, KernelType, StreamSlot, Task, TaskType};
pub use crate::types::{AttrMap, AttrValue, ConstTensor, DType, NodeId, Shape, TensorDesc, ValueRef};
pub use crate::view::{Graph, Node};
pub use crate::{Diagnostic, Error, Result};
pub use crate::{
    ge_plugin, map_op, register_engine, register_fusion, register_kernel, register_op, register_ops, register_pass,
};
