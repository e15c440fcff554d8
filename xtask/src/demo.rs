//! `cargo xtask demo`: from a trained model to right answers, on the simulator.
use crate::process::{Result, cargo, root, target};
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::path::Path;

pub(crate) fn run_demo(model: &Path, om: &Path, data: &Path) -> Result<()> {
    let text = |e: ge::Error| e.to_string();
    let session =
        Session::new(SessionOptions { plugins: Some(root().join("plugins.toml")), ..SessionOptions::default() })
            .map_err(text)?;
    let loaded = session.load_om(om).map_err(text)?;
    let read = |name: &str, dtype: DType| -> Result<HostTensor> {
        let path = data.join(name);
        let bytes = std::fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        ge_runtime::npy::read(&bytes, dtype).map_err(|e| format!("{}: {e}", path.display()))
    };
    let (images, labels) = (read("images.npy", DType::F32)?, read("labels.npy", DType::I64)?);
    let labels = labels.view().values::<i64>().map_err(text)?.to_vec();
    let one = images.bytes().len() / labels.len();
    let mut right = 0;
    for (image, label) in images.bytes().chunks_exact(one).zip(&labels) {
        let input = HostTensor::from_bytes(DType::F32, &[1, 1, 8, 8], image).map_err(text)?;
        let out = loaded.run(&[input]).map_err(text)?;
        let scores = out[0].view().values::<f32>().map_err(text)?.to_vec();
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i);
        right += usize::from(best as i64 == *label);
    }
    println!(
        "{}: {right} of {} held-back digits right ({:.1} %)",
        model.display(),
        labels.len(),
        right as f64 * 100.0 / labels.len() as f64
    );
    if right * 100 < labels.len() * 95 {
        return Err("the model answers worse than it was trained to".into());
    }
    Ok(())
}

pub(crate) fn run() -> Result<()> {
    cargo(&["build", "--workspace"])?;
    let out = target().join("demo");
    std::fs::create_dir_all(&out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let data = root().join("tests/models/digits");
    let (model, om) = (data.join("digits.onnx"), out.join("digits.om"));
    let ge = target().join("debug/ge");
    let path = |p: &Path| p.display().to_string();
    run_ge(&ge, &["compile", &path(&model), "-o", &path(&om)])?;
    run_demo(Path::new("digits.onnx"), &om, &data)?;
    let timeline = out.join("timeline.json");
    run_ge(&ge, &["run", &path(&om), "--random", "1", "--quiet", "--json", "--profile", &path(&timeline)])?;
    println!("timeline of one run: {} (open it in https://ui.perfetto.dev)", timeline.display());
    Ok(())
}

fn run_ge(ge: &Path, args: &[&str]) -> Result<()> {
    crate::process::run(ge, args)
}
