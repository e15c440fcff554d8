//! Plans one stream file: `plan_streams IN.json OUT.json engine|parallel:N EVENT_COST`, for measuring.

use ge_compiler::streams::plan_file::{PlanStreamsOptions, StreamMode, plan_streams_file};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, mode, cost, ..] = args.as_slice() else {
        eprintln!("usage: plan_streams IN.json OUT.json engine|parallel:N EVENT_COST");
        return ExitCode::from(2);
    };
    let mode = match mode.strip_prefix("parallel:").map(str::parse) {
        Some(Ok(n)) => StreamMode::Parallel(n),
        None if mode == "engine" => StreamMode::Engine,
        _ => {
            eprintln!("unknown mode {mode}");
            return ExitCode::from(2);
        }
    };
    let Ok(event_cost) = cost.parse() else {
        eprintln!("event cost {cost} is no whole number");
        return ExitCode::from(2);
    };
    let options = PlanStreamsOptions { mode, event_cost };
    match plan_streams_file(Path::new(input), Path::new(output), &options, &|| false) {
        Ok(report) => {
            println!("{report:?}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(1)
        }
    }
}
