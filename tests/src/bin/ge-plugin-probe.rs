//! A small host for the tests: loads a configuration with the binary's crash handlers, makes some
//! calls, and prints what happened.
use ge_plugin::{LoadRequest, PluginSet, Status, Want};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    if what == "check" {
        let library = args.next().unwrap_or_default();
        return ExitCode::from(
            u8::try_from(ge_plugin::conformance::probe_main(library.as_ref(), &mut |_, _, _| ())).unwrap_or(70),
        );
    }
    ge_plugin::crash::arm();
    let request = LoadRequest { config: args.next().map(Into::into), want: Want::All };
    match PluginSet::load(&request) {
        Ok(r) => {
            for p in r.plugins() {
                println!("{} {}", p.name, p.status.name());
                if let Status::Refused(e) = &p.status {
                    println!("warning: {e}");
                }
            }
            if what == "supports" {
                let graph = ge_plugin::sample::SampleGraph::new("BadOp", 1, 1);
                for e in r.engines() {
                    println!("{:?}", e.supports(&graph.node()));
                }
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            println!("{e}");
            ExitCode::from(5)
        }
    }
}
