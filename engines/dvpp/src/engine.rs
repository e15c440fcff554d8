//! The DVPP engine. Source of cost and flags: facts 1.3.
use crate::decode::{PixelFormat, decode};
use crate::ops::{self, CONVERT, CROP, RESIZE};
use crate::pixels::{self, Sides};
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

/// The operator that decodes image files.
const DECODE: &str = "DecodeImage";
/// The function that computes a node from its tensors.
type Run = fn(&mut KernelCtx<'_>) -> Result<()>;
/// Operators and the functions that compute them.
const OPS: [(&str, Run); 4] =
    [(DECODE, run_decode), (RESIZE, run_picture), (CROP, run_picture), (CONVERT, run_picture)];

fn run_of(op: &str) -> Option<&'static Run> {
    OPS.iter().find(|o| o.0 == op).map(|o| &o.1)
}
/// Pixels that a core decodes per microsecond, for planning.
const PIXELS_PER_US: u64 = 100;

/// The engine `DNN_VM_DVPP`.
pub struct Dvpp;

fn refusal(node: &Node<'_>) -> Option<String> {
    if run_of(node.op()).is_none() {
        return Some("type".into());
    }
    if node.op() != DECODE {
        return picture_refusal(node);
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

fn picture_refusal(node: &Node<'_>) -> Option<String> {
    let (Some(x), Some(y)) = (node.input_desc(0), node.outputs().first()) else {
        return Some("input 0 or output 0 is missing".into());
    };
    if x.dtype != DType::U8 || y.dtype != DType::U8 {
        return Some(format!("input 0 is {}, output 0 is {}, it takes u8", x.dtype, y.dtype));
    }
    let Some(shape) = x.shape.sizes() else { return Some(format!("shape {} of input 0 is not known", x.shape)) };
    match ops::sizes(&shape).and_then(|s| ops::made(node.op(), s, |k| node.int(k), |k| node.str(k))) {
        Ok(made) if y.shape.sizes().as_deref() == Some(made.as_slice()) => None,
        Ok(made) => Some(format!("output 0 is {}, it makes {made:?}", y.shape)),
        Err(why) => Some(why),
    }
}

fn run_picture(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (op, attrs) = (ctx.op.to_owned(), ctx.attrs.clone());
    let x = ctx.input(0)?;
    let from = ops::sizes(x.dims).map_err(Error::failed)?;
    let to = ops::made(&op, from, |k| attrs.int(k), |k| attrs.str(k)).map_err(Error::failed)?;
    let (bytes, need) = (x.bytes, from.iter().try_fold(1u64, |a, b| a.checked_mul(*b)));
    if x.dtype != DType::U8 || need != Some(bytes.len() as u64) {
        return Err(Error::failed(format!("input 0 is {}{:?} of {} bytes, expected u8", x.dtype, from, bytes.len())));
    }
    let mut out = ctx.alloc_output(0, &to)?;
    let y = out.values::<u8>()?;
    let sides = |s: [u64; 3]| Sides { h: s[0] as usize, w: s[1] as usize, c: s[2] as usize };
    let place = |key: &str| attrs.int(key).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    match op.as_str() {
        RESIZE => {
            let nearest = attrs.str("interpolation") == Some("nearest");
            pixels::resize(bytes, sides(from), y, sides(to), nearest);
        }
        CROP => pixels::crop(bytes, sides(from), (place("top"), place("left")), y, sides(to)),
        _ => {
            let colour = |key: &str| ops::colour(attrs.str(key), key).map_err(Error::failed);
            let (a, b) = (colour("from")?, colour("to")?);
            let (h, w) = a.sides(from).unwrap_or((0, 0));
            pixels::convert(bytes, a, y, b, h as usize, w as usize);
        }
    }
    Ok(())
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
        OPS.iter().map(|o| o.0.to_owned()).collect()
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
        // The binary is the operator type; attributes travel with the node.
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
        match run_of(&request.op).filter(|_| request.binary.as_slice() == request.op.as_bytes()) {
            Some(run) => host_kernel_on_device(Arc::new(*run), request),
            None => Err(Error::damaged("unknown kernel binary of DNN_VM_DVPP").at_node(&request.node, &request.op)),
        }
    }
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        run_of(op).map(|run| run as &dyn HostKernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::AttrMap;

    #[test]
    fn a_host_kernel_makes_an_image_of_the_size_it_finds() {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 4, 2);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().expect("encodes");
        writer.write_image_data(&[1, 2, 3].repeat(8)).expect("encodes");
        writer.finish().expect("encodes");
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
