//! Tiling on the device (TILING_ON_AICPU): the function of a PREPROCESS_KERNEL, for every kernel
//! that has `Kernel::tile`.
use crate::kernel::{Kernel, Tiling};
use ge_kernels::view::Kind;
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::engine::LoadRequest;
use ge_plugin_api::kernel::{BlockArgs, BlockKernel, LoadedKernel, block_kernel};
use ge_plugin_api::{Error, Result};

/// Reads the values and writes key, blocks and tiling data to the context, which is argument 0.
struct OnDeviceTiling {
    kernel: Box<dyn Kernel>,
    /// For each value, its argument and whether its numbers have eight bytes; `None`: the input is
    /// absent.
    values: Vec<Option<(usize, bool)>>,
    /// The values of those inputs that are constants.
    constants: Vec<Option<Vec<i64>>>,
    /// Maximum number of cores that the kernel was compiled for.
    cores: u32,
    node: String,
    op: String,
}

impl BlockKernel for OnDeviceTiling {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        let mut values = self.constants.clone();
        for (value, at) in values.iter_mut().zip(&self.values) {
            if let (None, Some((arg, wide))) = (&value, at) {
                *value = Some(match wide {
                    true => call.input::<i64>(*arg)?.to_vec(),
                    false => call.input::<i32>(*arg)?.iter().map(|v| i64::from(*v)).collect(),
                });
            }
        }
        let words = self.kernel.tile(&values).map_err(|e| e.at_node(&self.node, &self.op))?;
        let mut data = Tiling { units: self.kernel.units() as u64, block_dim: 1 }.encode();
        words.iter().for_each(|w| data.extend_from_slice(&w.to_le_bytes()));
        let cores = self.cores.min(tiling_sink::read_context(call, 0)?.platform.aic_cores).max(1);
        let block_dim = Tiling::of(self.kernel.as_ref(), cores).block_dim;
        tiling_sink::write_context(call, 0, 0, block_dim, &data)
    }
}

/// Loads the tiling function of a PREPROCESS_KERNEL. Argument 0 is the context; the node's inputs
/// and outputs follow.
///
/// # Errors
/// `damaged` if the request does not match the node.
pub fn load(
    request: &LoadRequest,
    sig: &crate::sig::Sig,
    kernel: Box<dyn Kernel>,
    reads: &[u32],
) -> Result<LoadedKernel> {
    let bad = |what: String| Error::damaged(format!("tiling of `{}` {what}", request.node));
    let (mut values, mut constants) = (Vec::new(), Vec::new());
    for input in reads {
        let Some(t) = sig.opt_input(*input as usize) else {
            values.push(None);
            constants.push(None);
            continue;
        };
        let arg = request.args.iter().position(|a| a.kind.as_str() == "i" && a.index == *input);
        let wide = match t.kind {
            Some(Kind::I64) => true,
            Some(Kind::I32) => false,
            _ => return Err(bad(format!("reads input {input}, which is {}", t.dtype))),
        };
        values.push(Some((arg.ok_or_else(|| bad(format!("lacks input {input}")))?, wide)));
        constants.push(t.values.clone());
    }
    let cores = request.launch()?.tiling.first_chunk::<4>().copied();
    let cores = u32::from_le_bytes(cores.unwrap_or([1, 0, 0, 0])).clamp(1, 65_535);
    let (node, op) = (request.node.to_string(), request.op.to_string());
    let tiling = OnDeviceTiling { kernel, values, constants, cores, node, op };
    let lens = request.args.iter().map(|a| a.bytes).collect();
    Ok(block_kernel(Box::new(tiling), lens, tiling_sink::tiling_access(&request.args), 0))
}
