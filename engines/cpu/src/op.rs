//! One row of the operator table, as a kernel's file declares it.
use crate::kernels::text::numbers;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// A kernel: reads the inputs and writes or allocates the outputs.
pub type Run = fn(&mut KernelCtx<'_>) -> Result<()>;

/// How a kernel receives the elements of string tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// As strings.
    Strings,
    /// As numbers that stand for the strings: the kernel only moves elements.
    Places,
    /// As numbers that compare like the strings.
    Ranks,
}

/// A row of the operator table.
#[derive(Clone, Copy)]
pub struct Op {
    /// Operator type.
    pub name: &'static str,
    kernel: Run,
    /// Accepted types of each input; the last list holds for all further inputs.
    pub inputs: &'static [&'static [DType]],
    /// Accepted types of each output, in the same way. If empty, any type that inference gives.
    pub outputs: &'static [&'static [DType]],
    text: Text,
}

impl Op {
    /// A row without restrictions on output types, whose kernel receives strings as strings.
    pub const fn new(name: &'static str, kernel: Run, inputs: &'static [&'static [DType]]) -> Op {
        Op { name, kernel, inputs, outputs: &[], text: Text::Strings }
    }
    /// The row of a kernel that moves elements of any type without computing on them.
    pub const fn moves(name: &'static str, kernel: Run, inputs: &'static [&'static [DType]]) -> Op {
        Op::new(name, kernel, inputs).text(Text::Places)
    }
    /// Sets the accepted types of the outputs.
    pub const fn gives(mut self, outputs: &'static [&'static [DType]]) -> Op {
        self.outputs = outputs;
        self
    }
    /// Sets how the kernel receives strings.
    pub const fn text(mut self, text: Text) -> Op {
        self.text = text;
        self
    }
    /// Runs the kernel.
    ///
    /// # Errors
    /// Returns the kernel's error, which says why the outputs cannot be computed.
    pub fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()> {
        let strings = || ctx.inputs.iter().flatten().any(|x| x.dtype == DType::STRING);
        if self.text != Text::Strings && strings() {
            return numbers::run(self.kernel, self.text, ctx);
        }
        (self.kernel)(ctx)
    }
}
