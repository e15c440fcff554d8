//! Plans a CSV of buffers: `cargo run -p ge-compiler --example plan_memory -- IN.csv OUT.csv
//! [fast|default|max] [CAPACITY]`. Prints arena, lower bound, their ratio and who made the plan.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use ge_compiler::memory::assign::MemoryEffort;
use ge_compiler::memory::plan_file::{PlanMemoryOptions, plan_memory_file};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(input), Some(output)) = (words.first(), words.get(1)) else {
        eprintln!("usage: plan_memory IN.csv OUT.csv [fast|default|max] [CAPACITY]");
        return ExitCode::from(2);
    };
    let effort = match words.get(2).map(String::as_str) {
        Some("fast") => MemoryEffort::Fast,
        Some("default") => MemoryEffort::Default,
        _ => MemoryEffort::Max,
    };
    let capacity = words.get(3).and_then(|word| word.parse().ok());
    let options = PlanMemoryOptions { effort, capacity };
    let begin = Instant::now();
    match plan_memory_file(Path::new(input), Path::new(output), &options, &|_, _| {}, &|| false) {
        Ok(report) => {
            // Only for people: above 2^53 bytes the ratio loses digits.
            #[allow(clippy::cast_precision_loss)]
            let ratio = report.arena as f64 / (report.lower_bound.max(1)) as f64;
            println!(
                "{} buffers, arena {} of bound {}, ratio {ratio:.4}, by {}, {:.2} s",
                report.buffers,
                report.arena,
                report.lower_bound,
                report.assigner,
                begin.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
