//! A model that serves requests from several threads: workers take them from a queue and all run
//! the same loaded model.
use ge::options::OptionMap;
use ge::session::{Quiet, Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::error::Error;
use std::sync::{Mutex, mpsc};

const GRAPH: &str = "graph @double(%x: f32[4]) {\n  %y = Add(%x, %x) : f32[4]\n  return %y\n}\n";
const WORKERS: usize = 4;
const REQUESTS: usize = 100;

/// A request, and the channel for its answer.
struct Request {
    number: usize,
    answer: mpsc::Sender<(usize, Result<Vec<f32>, String>)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("double.ge");
    std::fs::write(&path, GRAPH)?;
    let session = Session::new(SessionOptions::default())?;
    let compiled = session.compile("double", session.import(&path, "")?, &OptionMap::default(), &Quiet)?;
    // A loaded model is `Sync`: each run has its own memory, and nothing is compiled or looked up
    // by name.
    let model = session.load(compiled.model)?;
    let run = |number: usize| -> Result<Vec<f32>, String> {
        let bytes: Vec<u8> = [number as f32; 4].iter().flat_map(|v| v.to_le_bytes()).collect();
        let input = HostTensor::from_bytes(DType::F32, &[4], &bytes).map_err(|e| e.to_string())?;
        let outputs = model.run(&[input]).map_err(|e| e.to_string())?;
        Ok(outputs[0].view().values::<f32>().map_err(|e| e.to_string())?.to_vec())
    };
    let (queue, requests) = mpsc::channel::<Request>();
    let (answer, answers) = mpsc::channel();
    let requests = Mutex::new(requests);
    let next = || requests.lock().ok()?.recv().ok();
    std::thread::scope(|threads| {
        for _ in 0..WORKERS {
            threads.spawn(|| {
                while let Some(request) = next() {
                    // The requester may be gone, and then nobody needs the answer.
                    let _ = request.answer.send((request.number, run(request.number)));
                }
            });
        }
        for number in 0..REQUESTS {
            if queue.send(Request { number, answer: answer.clone() }).is_err() {
                break;
            }
        }
        drop((queue, answer));
    });
    let mut right = 0;
    for (number, values) in answers {
        right += usize::from(values? == [2.0 * number as f32; 4]);
    }
    println!("{right} of {REQUESTS} requests answered right by {WORKERS} threads");
    if right == REQUESTS { Ok(()) } else { Err("some answers are missing or wrong".into()) }
}
