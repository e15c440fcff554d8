//! Loads a configuration and prints the state of each entry, and the time that loading took.
use ge_plugin::{LoadRequest, PluginSet, Want};

fn main() {
    let request = LoadRequest { config: std::env::args_os().nth(1).map(Into::into), want: Want::All };
    let start = std::time::Instant::now();
    match PluginSet::load_lenient(&request) {
        Ok(r) => {
            let took = start.elapsed();
            for p in r.plugins() {
                println!("{} {} {} {}", p.name, p.version, p.status.name(), p.file_name());
                if let ge_plugin::Status::Refused(e) = &p.status {
                    println!("  {e}");
                }
            }
            println!("{} engines, {} operators, {took:?}", r.engines().len(), r.ops().len());
        }
        Err(e) => println!("{e}"),
    }
}
