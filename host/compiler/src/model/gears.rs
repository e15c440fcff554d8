//! The gears of a model as the compiled model stores them: for each gear the shapes of all inputs
//! and outputs, and the names of the sizes that gears set.
use ge_ir::{AttrValue, Dim, Graph, Model, Shape};
use ge_model::gears::{self, BATCH_NUM, OPEN, OUTPUTS, SELECTOR, SUFFIX, wanted};
use ge_model::{CompiledModel, Gear, Gears, IoInfo};

/// If the model has gears, describes its inputs and outputs as the user sees them, and their shapes
/// in each gear.
pub fn describe(model: &Model, m: &mut CompiledModel) {
    let root = model.root();
    let Some((dims, values)) = wanted(root.attrs()) else { return };
    let Some(switch) = root.nodes().find(|n| n.op() == "LabelSwitchByIndex" && n.attr(BATCH_NUM).is_some()) else {
        return;
    };
    let Some(AttrValue::List(outputs)) = switch.attr(OUTPUTS) else { return };
    m.inputs.retain(|i| i.name != SELECTOR);
    let symbols: Vec<Vec<String>> = m.inputs.iter().map(|i| open(root, &i.name)).collect();
    let list = values.iter().enumerate().map(|(k, sizes)| {
        let shape = |(i, open): (&IoInfo, &Vec<String>)| -> Vec<u64> {
            let known = i.desc.shape.sizes().unwrap_or_default();
            let at = |(d, n): (usize, u64)| {
                let name = open.get(d).filter(|s| !s.is_empty());
                name.and_then(|s| gears::size(Dim::symbol(s), &dims, sizes)).unwrap_or(n)
            };
            known.into_iter().enumerate().map(at).collect()
        };
        let output = |o: &AttrValue| -> Vec<u64> {
            let AttrValue::List(all) = o else { return Vec::new() };
            let own = all.get(k).and_then(|s| s.as_ints()).unwrap_or(&[]);
            own.iter().map(|n| *n as u64).collect()
        };
        Gear {
            graph: format!("{}{SUFFIX}{k}", root.name()),
            sizes: sizes.clone(),
            inputs: m.inputs.iter().zip(&symbols).map(shape).collect(),
            outputs: outputs.iter().map(output).collect(),
        }
    });
    let list: Vec<Gear> = list.collect();
    for (i, open) in m.inputs.iter_mut().zip(&symbols) {
        for (d, s) in i.desc.shape.dims_mut().iter_mut().zip(open).filter(|(_, s)| !s.is_empty()) {
            *d = Dim::symbol(s);
        }
    }
    for (k, o) in m.outputs.iter_mut().enumerate() {
        let own: Vec<&Vec<u64>> = list.iter().filter_map(|g| g.outputs.get(k)).collect();
        let Some((first, rest)) = own.split_first() else { continue };
        // A size that differs between gears is unknown.
        let dim = |(d, n): (usize, &u64)| {
            let same = rest.iter().all(|r| r.get(d) == Some(n));
            if same { Dim::known(*n) } else { Dim::UNKNOWN }
        };
        o.desc.shape = Shape::new(first.iter().enumerate().map(dim));
    }
    m.gears = Some(Gears { dims, list });
}

fn open(root: &Graph, input: &str) -> Vec<String> {
    let data = root.find(input).and_then(|n| n.attrs().strs(OPEN)).unwrap_or_default();
    data.into_iter().map(str::to_owned).collect()
}
