//! Generates tokens with a decoder that keeps keys and values of the past, and compares them with
//! what onnxruntime generated.
//!
//! `generate MODEL.om FOLDER`: the model was compiled with
//! `ge compile decoder.onnx --state present_key_0:past_key_0,…`; the folder has
//! `prompt.npy`, `tokens.npy` (the prompt and what follows it) and `logits.npy` (of the last
//! position of each step). One OM runs the prompt as a whole and then token by token; what it has
//! kept is handed on in memory.
use ge::session::steps::Steps;
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [om, folder] = args.as_slice() else { return Err("two arguments are needed: MODEL.om FOLDER".into()) };
    let session = Session::new(SessionOptions::default())?;
    let model = session.load_om(om)?;
    let prompt = read(&folder.join("prompt.npy"), DType::I64)?.view().values::<i64>()?.to_vec();
    let right = read(&folder.join("tokens.npy"), DType::I64)?.view().values::<i64>()?.to_vec();
    let logits = read(&folder.join("logits.npy"), DType::F32)?;
    let words = logits.dims.get(1).copied().unwrap_or(1) as usize;
    let logits = logits.view().values::<f32>()?.to_vec();

    let mut steps = Steps::new(&model)?;
    let mut tokens = prompt.clone();
    let mut new = prompt;
    let mut worst = 0f32;
    let mut times = Vec::with_capacity(right.len());
    for want in logits.chunks_exact(words) {
        let bytes: Vec<u8> = new.iter().flat_map(|t| t.to_le_bytes()).collect();
        let input = HostTensor::from_bytes(DType::I64, &[1, new.len() as u64], &bytes)?;
        let begun = std::time::Instant::now();
        let (outputs, _) = steps.step(vec![input], RunOptions::default())?;
        times.push(begun.elapsed());
        let scores = outputs.first().and_then(Option::as_ref).ok_or("the model gives no logits")?;
        let scores = scores.view().values::<f32>()?.to_vec();
        let last = &scores[scores.len() - words..];
        worst = last.iter().zip(want).fold(worst, |w, (a, b)| w.max((a - b).abs()));
        let best = last.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(token, _)| token as i64);
        tokens.push(best);
        new = vec![best];
    }
    let kept: Vec<u64> = steps.info().iter().map(|t| t.dims.get(2).copied().unwrap_or(0)).collect();
    println!("generated {} tokens in {} steps, {} positions kept: {tokens:?}", tokens.len(), steps.taken(), kept[0]);
    let (inputs, bytes) = (steps.copied_inputs(), steps.copied_state_bytes());
    times.sort();
    println!("a step takes {:?} in the median", times.get(times.len() / 2).copied().unwrap_or_default());
    println!("worst difference {worst:e}, {inputs} inputs copied, {bytes} bytes of the past copied");
    if tokens != right || worst > 1e-4 {
        return Err(format!("onnxruntime generated {right:?}").into());
    }
    Ok(())
}

fn read(path: &Path, dtype: DType) -> Result<HostTensor, Box<dyn Error>> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Ok(ge_runtime::npy::read(&bytes, dtype).map_err(|e| format!("{}: {e}", path.display()))?)
}
