//! Two numbered graphs in one session, each with its own options; one of them has an open size.
use ge::graph_manager::GraphManager;
use ge::options::OptionMap;
use ge::session::{GraphModel, Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::error::Error;

const SUM: &str = "graph @sum(%x: f32[2], %y: f32[2]) {\n  %s = Add(%x, %y) : f32[2]\n  return %s\n}\n";
const RELU: &str = "graph @relu(%x: f32[?,2]) {\n  %r = Relu(%x) : f32[?,2]\n  return %r\n}\n";

fn graph(session: &Session, text: &str) -> Result<GraphModel, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("graph.ge");
    std::fs::write(&path, text)?;
    Ok(session.import(&path, "")?)
}

fn tensor(dims: &[u64], values: &[f32]) -> Result<HostTensor, Box<dyn Error>> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Ok(HostTensor::from_bytes(DType::F32, dims, &bytes)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Options of a graph override those of the session, which override the global options given to
    // the manager.
    let manager = GraphManager::new(Session::new(SessionOptions::default())?, OptionMap::default());
    let mut thorough = OptionMap::default();
    thorough.set_pair("ge.oo.level=O3")?;
    manager.add_graph(1, graph(manager.session(), SUM)?, thorough)?;
    manager.add_graph(2, graph(manager.session(), RELU)?, OptionMap::default())?;

    // A graph is built when it first runs; `build` does it earlier.
    manager.build(1)?;
    let sum = manager.run(1, &[tensor(&[2], &[1.0, 2.0])?, tensor(&[2], &[3.0, 4.0])?])?;
    println!("graph 1: {:?}", sum[0].view().values::<f32>()?);
    // A graph with open sizes is built for the sizes that it gets, and again when they change.
    for rows in [1u64, 3] {
        let input = tensor(&[rows, 2], &vec![-1.5; rows as usize * 2])?;
        let relu = manager.run(2, &[input])?;
        println!("graph 2 with {rows} rows: {:?}", relu[0].view().values::<f32>()?);
    }
    manager.remove_graph(1)?;
    println!("left: {:?}", manager.graphs());
    Ok(())
}
