//! Runs a compiled classifier of handwritten digits on the images of a folder and counts the
//! correct answers.
//!
//! `digits MODEL.om FOLDER`: the folder has
//! `images.npy` (f32[N,1,1,8,8], values from 0 to 1) and `labels.npy` (i64[N]). `cargo xtask demo`
//! compiles the model and runs this program.
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [om, folder] = args.as_slice() else { return Err("two arguments are needed: MODEL.om FOLDER".into()) };
    // A session finds the plugins as `ge` does: from `GE_PLUGINS`, from `plugins.toml` in this
    // folder, or from the one beside the program.
    let session = Session::new(SessionOptions::default())?;
    let model = session.load_om(om)?;
    let images = read(&folder.join("images.npy"), DType::F32)?;
    let labels = read(&folder.join("labels.npy"), DType::I64)?;
    let labels = labels.view().values::<i64>()?.to_vec();
    let image_bytes = images.bytes().len() / labels.len();
    let mut right = 0;
    for (image, label) in images.bytes().chunks_exact(image_bytes).zip(&labels) {
        let input = HostTensor::from_bytes(DType::F32, &[1, 1, 8, 8], image)?;
        let outputs = model.run(&[input])?;
        let scores = outputs[0].view().values::<f32>()?.to_vec();
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(digit, _)| digit as i64);
        right += usize::from(best == Some(*label));
    }
    let share = right as f64 * 100.0 / labels.len() as f64;
    println!("digits: {right} of {} held-back digits right ({share:.1} %)", labels.len());
    if share < 95.0 {
        return Err("the model answers worse than it was trained to".into());
    }
    Ok(())
}

fn read(path: &Path, dtype: DType) -> Result<HostTensor, Box<dyn Error>> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Ok(ge_runtime::npy::read(&bytes, dtype).map_err(|e| format!("{}: {e}", path.display()))?)
}
