//! One operator of the table: what a kernel's file says of it.
use crate::kernels::text::numbers;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// A kernel: reads inputs, writes or allocates outputs.
pub type Run = fn(&mut KernelCtx<'_>) -> Result<()>;

/// As what a kernel gets the elements of tensors of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// As strings.
    Strings,
    /// As numbers that stand for them: it moves elements and computes nothing of them.
    Places,
    /// As numbers that compare as the strings do.
    Ranks,
}

/// One operator.
#[derive(Clone, Copy)]
pub struct Op {
    /// Operator type.
    pub name: &'static str,
    kernel: Run,
    /// Types of each input; the last list holds for all further inputs.
    pub inputs: &'static [&'static [DType]],
    /// Types of each output, in the same way; empty: those that inference gives.
    pub outputs: &'static [&'static [DType]],
    text: Text,
}

impl Op {
    /// A row.
    pub const fn new(name: &'static str, kernel: Run, inputs: &'static [&'static [DType]]) -> Op {
        Op { name, kernel, inputs, outputs: &[], text: Text::Strings }
    }
    /// The row of a kernel that moves elements, whatever they are.
    pub const fn moves(name: &'static str, kernel: Run, inputs: &'static [&'static [DType]]) -> Op {
        Op::new(name, kernel, inputs).text(Text::Places)
    }
    /// With types of outputs.
    pub const fn gives(mut self, outputs: &'static [&'static [DType]]) -> Op {
        self.outputs = outputs;
        self
    }
    /// With another form of strings.
    pub const fn text(mut self, text: Text) -> Op {
        self.text = text;
        self
    }
    /// Runs the kernel.
    ///
    /// # Errors
    /// Why the outputs cannot be computed.
    pub fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()> {
        let strings = || ctx.inputs.iter().flatten().any(|x| x.dtype == DType::STRING);
        if self.text != Text::Strings && strings() {
            return numbers::run(self.kernel, self.text, ctx);
        }
        (self.kernel)(ctx)
    }
}
