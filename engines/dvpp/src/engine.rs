//! The engine. Source of cost and flags: facts 1.3.
use crate::decode::{PixelFormat, decode};
use ge_plugin_api::author::simple::{host_kernel_on_device, plain_args_format};
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::{
    Engine, EngineInfo, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext, flags,
};
use ge_plugin_api::kernel::{HostKernel, KernelCtx, LoadedKernel};
use ge_plugin_api::task::{KernelTask, KernelType, Task};
use ge_plugin_api::types::DType;
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};
use std::sync::Arc;

/// The operator that it decodes.
const DECODE: &str = "DecodeImage";
/// Pixels that a core decodes in a microsecond, for planning.
const PIXELS_PER_US: u64 = 100;

/// The engine.
pub struct Dvpp;

fn refusal(node: &Node<'_>) -> Option<String> {
    if node.op() != DECODE {
        return Some("type".into());
    }
    let format = match PixelFormat::parse(node.str("pixel_format").unwrap_or("RGB")) {
        Ok(f) => f,
        Err(why) => return Some(why),
    };
    let (Some(x), Some(y)) = (node.input_desc(0), node.outputs().first()) else {
        return Some("input 0 or output 0 is missing".into());
    };
    if x.dtype != DType::U8 || y.dtype != DType::U8 {
        return Some(format!("input 0 is {}, output 0 is {}, it takes u8", x.dtype, y.dtype));
    }
    match (x.shape.sizes().as_deref(), y.shape.sizes().as_deref()) {
        (Some([_]), Some([_, _, c])) if *c == format.channels() => None,
        (_, None) => Some(format!("the image's size {} is known only when it is decoded", y.shape)),
        _ => Some(format!("shapes {} and {}, it takes [n] and [H,W,{}]", x.shape, y.shape, format.channels())),
    }
}

fn run_decode(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let format = PixelFormat::parse(ctx.attrs.str("pixel_format").unwrap_or("RGB")).map_err(Error::failed)?;
    let x = ctx.input(0)?;
    if x.dtype != DType::U8 {
        return Err(Error::failed(format!("input 0 is {}, expected u8", x.dtype)));
    }
    let image = decode(x.bytes, format)?;
    let mut out = ctx.alloc_output(0, &[image.height, image.width, format.channels()])?;
    let bytes = out.values::<u8>()?;
    if bytes.len() != image.bytes.len() {
        return Err(Error::failed(format!("output 0 has {} bytes, the image {}", bytes.len(), image.bytes.len())));
    }
    bytes.copy_from_slice(&image.bytes);
    Ok(())
}

impl Engine for Dvpp {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "DNN_VM_DVPP".into(),
            kernel_lib: "DNN_VM_DVPP_OP_STORE".into(),
            user_name: "Dvpp".into(),
            cost: 5,
            flags: flags::ATTACH,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 4,
        }
    }
    fn op_types(&self) -> Vec<String> {
        vec![DECODE.to_owned()]
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        match refusal(node) {
            None => Support::Yes,
            Some(why) => Support::no(why),
        }
    }
    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        match refusal(node) {
            None => Ok(RunningParams { task_count: 1, ..RunningParams::default() }),
            Some(why) => Err(Error::unsupported(why).at_node(node.name(), node.op())),
        }
    }
    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        // The binary is the operator's type: attributes travel with the node.
        let name = format!("dvpp_{}", node.op());
        Ok(Some(KernelBinary { name: name.into(), binary: node.op().as_bytes().into() }))
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        Ok(vec![Task::kernel(KernelTask {
            kernel_name: context.kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default(),
            kernel_type: KernelType::TE.code(),
            block_dim: 1,
            args_format: plain_args_format(node, 0).into(),
            ..KernelTask::default()
        })])
    }
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        let pixels = node.outputs().first().and_then(|d| d.shape.count()).unwrap_or(0) / 3;
        soc.task_launch_ns + pixels.saturating_mul(1000) / PIXELS_PER_US
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        if request.op.as_str() != DECODE || request.binary.as_slice() != DECODE.as_bytes() {
            return Err(Error::damaged("unknown kernel binary of DNN_VM_DVPP").at_node(&request.node, &request.op));
        }
        host_kernel_on_device(Arc::new(run_decode), request)
    }
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        const RUN: fn(&mut KernelCtx<'_>) -> Result<()> = run_decode;
        (op == DECODE).then_some(&RUN as &dyn HostKernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::AttrMap;

    #[test]
    fn a_host_kernel_makes_an_image_of_the_size_it_finds() {
        let picture = image::RgbImage::from_pixel(4, 2, image::Rgb([1, 2, 3]));
        let mut file = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut file, image::ImageFormat::Png).expect("encodes");
        let file = file.into_inner();
        let dims = [file.len() as u64];
        let x = ge_plugin_api::kernel::TensorView { dtype: DType::U8, dims: &dims, bytes: &file };
        let mut attrs = AttrMap::default();
        attrs.set("pixel_format", "BGR");
        let mut ctx = KernelCtx::new(DECODE, "n", &attrs, vec![Some(x)], &[DType::U8]);
        Dvpp.host_kernel(DECODE).expect("is there").run(&mut ctx).expect("decodes");
        let made = ctx.into_made();
        let y = made[0].as_ref().expect("made");
        assert_eq!(y.dims.as_slice(), [2, 4, 3]);
        assert_eq!(y.bytes()[..6], [3, 2, 1, 3, 2, 1]);
    }
}
