//! Compiles a graph in text form to an OM file, loads the file and runs it, all in one program.
use ge::options::OptionMap;
use ge::session::{Quiet, Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::error::Error;

const GRAPH: &str = "graph @dense(%x: f32[2,3]) {
  %w = Const() {value = dense<f32[3,2]: 1 0 0 1 1 1>} : f32[3,2]
  %product = MatMulV2(%x, %w) : f32[2,2]
  %y = Relu(%product) : f32[2,2]
  return %y
}
";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (graph, om) = (folder.path().join("dense.ge"), folder.path().join("dense.om"));
    std::fs::write(&graph, GRAPH)?;

    let session = Session::new(SessionOptions::default())?;
    // An ONNX file is imported the same way; the second argument gives sizes that the model leaves
    // open, as in "x:1,3,224,224".
    let model = session.import(&graph, "")?;
    let mut options = OptionMap::default();
    options.set_pair("ge.oo.level=O3")?;
    let compiled = session.compile("dense", model, &options, &Quiet)?;
    let report = compiled.write_om(&om)?;
    println!("dense.om: {} bytes, {} tasks", report.file_len, compiled.model.tasks.len());

    let loaded = session.load_om(&om)?;
    let x: Vec<u8> = [1.0f32, 2.0, 3.0, -1.0, -2.0, -3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let outputs = loaded.run(&[HostTensor::from_bytes(DType::F32, &[2, 3], &x)?])?;
    let y = outputs[0].view().values::<f32>()?.to_vec();
    println!("y = {y:?}");
    if y != [4.0, 5.0, 0.0, 0.0] { Err("y should be [4, 5, 0, 0]".into()) } else { Ok(()) }
}
