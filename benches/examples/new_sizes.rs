//! Time of the first and of the second run of each size of a model of open sizes:
//! `cargo run --release -p ge-benches --example new_sizes -- MODEL.om FIRST COUNT [SYMBOL=N…]`.
//! Symbols without a number take the sizes FIRST to FIRST + COUNT - 1; all inputs are zeros.
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use std::collections::HashMap;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [om, first, count, fixed @ ..] = args.as_slice() else {
        return Err("give MODEL.om FIRST COUNT [SYMBOL=N…]".into());
    };
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let fixed: HashMap<&str, &str> = fixed.iter().filter_map(|f| f.split_once('=')).collect();
    let session = Session::new(SessionOptions::default())?;
    let model = session.load_om(std::path::Path::new(om))?;
    let mut times = [Vec::new(), Vec::new()];
    for size in first..first + count {
        let mut inputs = Vec::new();
        for i in &model.info().inputs {
            let mut dims = Vec::new();
            for d in i.desc.shape.dims() {
                let named = d.symbol_name().and_then(|name| fixed.get(&*name.to_string()).copied());
                dims.push(match (d.size(), named) {
                    (Some(size), _) => size,
                    (None, Some(size)) => size.parse()?,
                    (None, None) => size,
                });
            }
            inputs.push(HostTensor::zeroed(i.desc.dtype, &dims)?);
        }
        for of in &mut times {
            let start = Instant::now();
            model.run(&inputs)?;
            of.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [mut new, mut seen] = times;
    println!("first size {:.1} us", new[0]);
    for (what, of) in [("a new size", &mut new), ("the same size again", &mut seen)] {
        of.sort_by(f64::total_cmp);
        println!("{what}: median {:.1} us, least {:.1}, most {:.1}", of[of.len() / 2], of[0], of[of.len() - 1]);
    }
    println!("{} plans kept, {} made from others", model.plans(), model.plans_amended());
    Ok(())
}
