//! One operator of the table: what a kernel's file says of it.
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// A kernel: reads inputs, writes or allocates outputs.
pub type Run = fn(&mut KernelCtx<'_>) -> Result<()>;

/// One operator.
#[derive(Clone, Copy)]
pub struct Op {
    /// Operator type.
    pub name: &'static str,
    /// Its kernel.
    pub run: Run,
    /// Types of each input; the last list holds for all further inputs.
    pub inputs: &'static [&'static [DType]],
    /// Types of each output, in the same way; empty: those that inference gives.
    pub outputs: &'static [&'static [DType]],
}

impl Op {
    /// A row.
    pub const fn new(name: &'static str, run: Run, inputs: &'static [&'static [DType]]) -> Op {
        Op { name, run, inputs, outputs: &[] }
    }
    /// With types of outputs.
    pub const fn gives(mut self, outputs: &'static [&'static [DType]]) -> Op {
        self.outputs = outputs;
        self
    }
}
