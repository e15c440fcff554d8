//! Compiles a graph with two independent branches for one stream and for two, and shows which nodes
//! are on which stream.
use ge::options::OptionMap;
use ge::session::{Quiet, Session, SessionOptions};
use std::error::Error;

/// Two independent chains of two products of 1024 x 1024 matrices.
const GRAPH: &str = "graph @branches(%x: f32[1024,1024], %y: f32[1024,1024]) {
  %left = MatMulV2(%x, %x) : f32[1024,1024]
  %left_again = MatMulV2(%left, %x) : f32[1024,1024]
  %right = MatMulV2(%y, %y) : f32[1024,1024]
  %right_again = MatMulV2(%right, %y) : f32[1024,1024]
  return %left_again, %right_again
}
";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("branches.ge");
    std::fs::write(&path, GRAPH)?;
    let session = Session::new(SessionOptions::default())?;
    let mut answers = Vec::new();
    for (what, option) in [("one stream", "ge.enableSingleStream=true"), ("two", "ge.x.stream_mode=parallel:2")] {
        let mut options = OptionMap::default();
        options.set_pair(option)?;
        let compiled = session.compile("branches", session.import(&path, "")?, &options, &Quiet)?;
        println!("{what}: {} events", compiled.model.event_num);
        for stream in compiled.stream_allocation_summary().all_logical_stream_infos() {
            println!("  stream {}: {}", stream.logical_stream_id(), stream.all_nodes().join(", "));
        }
        answers.push(session.load(compiled.model)?.run_random(7)?);
    }
    // The plan decides when nodes run, but never changes what they compute.
    if answers[0][0].bytes() != answers[1][0].bytes() { Err("the two plans differ".into()) } else { Ok(()) }
}
