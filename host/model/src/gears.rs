//! `Gears`: the sets of sizes that a model with several static plans is compiled for. Each run uses
//! one of them (003 §8, facts 8.7).
//!
//! The caller of the compiler writes two attributes to the root graph: the names of the open sizes,
//! and for each gear a list of their values. The compiler makes one branch of a `Case` for each
//! gear; the compiled model keeps the shapes of the inputs and outputs of each.
use crate::{CompiledModel, IoInfo};
use ge_plugin_api::types::{AttrMap, AttrValue, Dim, Expr, Shape};
use serde::{Deserialize, Serialize};

/// Attribute of the root graph: names of the sizes that gears set.
pub const DIMS: &str = "_gear_dims";
/// Attribute of the root graph: for each gear its sizes, in the order of their names.
pub const VALUES: &str = "_gears";
/// Attribute of the `Case`, and of the switch made from it: the number of gears.
pub const BATCH_NUM: &str = "_batch_num";
/// Prefix of the labels of gears.
const LABEL: &str = "Batch_";
/// Attribute of each node of a gear: `Batch_<i>`.
pub const BATCH_LABEL: &str = "_batch_label";
/// Attribute of an input: for each dimension the name of the size that gears set, or the expression
/// of such names, or an empty text if they set none.
pub const OPEN: &str = "_gear_symbols";
/// Attribute of the switch made from a `Case` of gears: the sizes of each output in each gear.
pub const OUTPUTS: &str = "_gear_outputs";
/// Operator that views a value's memory with the shape of a gear, or with the room of the largest
/// gear.
pub const VIEW: &str = "GearView";
/// Name of the input after those of the user that gives the sizes of the run.
pub const SELECTOR: &str = "ascend_mbatch_shape_data";
/// Suffix, before the gear's number, of the names of graphs and nodes of a gear.
pub const SUFFIX: &str = "_ascend_mbatch_batch_";

/// The gears of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gears {
    /// Names of the sizes that the gears set.
    pub dims: Vec<String>,
    /// The gears, in the user's order, which is also the order of the branches.
    pub list: Vec<Gear>,
}

/// One gear: a set of sizes with its own plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gear {
    /// Name of the graph that is its branch.
    pub graph: String,
    /// Its sizes, in the order of [`Gears::dims`].
    pub sizes: Vec<u64>,
    /// The shape of each input.
    pub inputs: Vec<Vec<u64>>,
    /// The shape of each output; empty if the run determines any of them.
    pub outputs: Vec<Vec<u64>>,
}

/// Error: one name stands for two different sizes.
pub struct TwoSizes<'m> {
    /// Index of the name in [`Gears::dims`].
    pub name: usize,
    /// The input that has the second size.
    pub input: &'m IoInfo,
    /// The second size.
    pub size: u64,
    /// The first size.
    pub known: u64,
    /// The input that has the first size.
    pub first: &'m IoInfo,
}

/// The label of a gear's nodes: `Batch_<i>`.
pub fn label(gear: usize) -> String {
    format!("{LABEL}{gear}")
}

/// The size that a gear sets a dimension to: that of its name, or that of its expression if a gear
/// sets all sizes in it. `None` if it has neither.
pub fn size(d: Dim, names: &[String], sizes: &[u64]) -> Option<u64> {
    let of = |s: &str| sizes.get(names.iter().position(|n| n == s)?).copied();
    let name = d.symbol_name()?;
    of(name).or_else(|| {
        let value = Expr::parse(name)?.value(&|s| i64::try_from(of(s)?).ok())?;
        u64::try_from(value).ok()
    })
}

/// Names and values of the gears that a root graph is to be compiled for; `None` if it asks for
/// none or they cannot be read.
pub fn wanted(attrs: &AttrMap) -> Option<(Vec<String>, Vec<Vec<u64>>)> {
    let names: Vec<String> = attrs.strs(DIMS)?.into_iter().map(str::to_owned).collect();
    let AttrValue::List(list) = attrs.get(VALUES)? else { return None };
    let one = |v: &AttrValue| -> Option<Vec<u64>> {
        let sizes: Vec<u64> = v.as_ints()?.iter().map(|n| u64::try_from(*n).ok()).collect::<Option<_>>()?;
        (sizes.len() == names.len()).then_some(sizes)
    };
    let values = list.iter().map(one).collect::<Option<Vec<_>>>()?;
    (!names.is_empty() && !values.is_empty()).then_some((names, values))
}

/// Writes the attributes that [`wanted`] reads.
pub fn want(attrs: &mut AttrMap, names: &[String], values: &[Vec<u64>]) {
    attrs.set(DIMS, AttrValue::Strs(names.iter().map(|n| n.as_str().into()).collect()));
    let one = |v: &Vec<u64>| AttrValue::Ints(v.iter().map(|n| *n as i64).collect());
    attrs.set(VALUES, AttrValue::List(values.iter().map(one).collect()));
}

/// Removes the attributes that [`wanted`] reads; the sizes of the graph are open again.
pub fn unwant(attrs: &mut AttrMap) {
    attrs.remove(DIMS);
    attrs.remove(VALUES);
}

/// Name of the model that runs sizes of no gear, beside the gears of the model `name`.
pub fn outside_name(name: &str) -> String {
    format!("{name}_outside")
}

impl CompiledModel {
    /// The model that runs sizes of no gear, if a model with gears was compiled with one
    /// (`ge.compileHybridMode`). Its parts follow it in `parts` of this model.
    pub fn outside(&self) -> Option<&CompiledModel> {
        self.parts.get(self.outside_at()?)
    }
    /// Index of that model in `parts`; the parts before it are planned and belong to gears.
    pub(crate) fn outside_at(&self) -> Option<usize> {
        self.gears.as_ref()?;
        self.parts.iter().position(CompiledModel::is_dynamic)
    }
    /// Gives the model and its root graph other names. The model that runs sizes of no gear follows
    /// them: it has the name [`outside_name`], and its root graph that of this one.
    pub fn rename(&mut self, name: &str, graph: &str) {
        self.rename_one(name, graph);
        if let Some(outside) = self.outside_at().and_then(|at| self.parts.get_mut(at)) {
            outside.rename_one(&outside_name(name), graph);
        }
    }
    fn rename_one(&mut self, name: &str, graph: &str) {
        name.clone_into(&mut self.name);
        if let Some(root) = self.graphs.first_mut() {
            graph.clone_into(&mut root.name);
        }
    }
    /// Takes out the model that runs sizes of no gear, together with its parts.
    pub fn take_outside(&mut self) -> Option<CompiledModel> {
        let mut all = self.parts.split_off(self.outside_at()?).into_iter();
        let outside = CompiledModel { shares_weights: false, ..all.next()? };
        Some(CompiledModel { parts: all.collect(), ..outside })
    }
    /// Adds to a model with gears the model that runs sizes of no gear.
    pub fn set_outside(&mut self, mut outside: CompiledModel) {
        let mut parts = std::mem::take(&mut outside.parts);
        // Until now they share the weights of `outside`, which get other places here.
        parts.iter_mut().for_each(|p| p.shares_weights = false);
        self.parts.extend(std::iter::once(outside).chain(parts));
        self.share_with_parts();
    }
}

impl Gears {
    /// Returns the values of the gears' sizes in inputs with the given shapes; 0 for a size that no
    /// input has.
    ///
    /// # Errors
    /// Fails if one name stands for two different sizes.
    pub fn sizes_in<'m, 'd>(
        &self,
        inputs: impl Iterator<Item = (&'m IoInfo, &'d [u64])>,
    ) -> Result<Vec<u64>, TwoSizes<'m>> {
        let mut sizes: Vec<Option<(u64, &'m IoInfo)>> = vec![None; self.dims.len()];
        for (input, dims) in inputs {
            for (d, n) in input.desc.shape.dims().iter().zip(dims) {
                let Some(name) = d.symbol_name().and_then(|s| self.dims.iter().position(|x| x == s)) else { continue };
                match sizes[name] {
                    Some((known, first)) if known != *n => {
                        return Err(TwoSizes { name, input, size: *n, known, first });
                    }
                    _ => sizes[name] = Some((*n, input)),
                }
            }
        }
        Ok(sizes.into_iter().map(|s| s.map_or(0, |s| s.0)).collect())
    }
    /// The sizes of a gear as shown to users: `b=4, s=16`.
    pub fn shown(&self, gear: usize) -> String {
        self.sizes_shown(self.list.get(gear).map_or(&[], |g| &g.sizes))
    }
    /// Any sizes as shown to users, in the same form.
    pub fn sizes_shown(&self, sizes: &[u64]) -> String {
        self.dims.iter().zip(sizes).map(|(d, n)| format!("{d}={n}")).collect::<Vec<_>>().join(", ")
    }
    /// Index of the gear with exactly these sizes.
    pub fn find(&self, sizes: &[u64]) -> Option<usize> {
        self.list.iter().position(|g| g.sizes == sizes)
    }
    /// Index of the gear whose sizes are nearest to these, measured by the product of the ratios;
    /// the first one among equals.
    pub fn nearest(&self, sizes: &[u64]) -> Option<usize> {
        let factor = |a: u64, b: u64| {
            let (a, b) = (a.max(1) as f64, b.max(1) as f64);
            if a > b { a / b } else { b / a }
        };
        let far = |g: &Gear| g.sizes.iter().zip(sizes).map(|(a, b)| factor(*a, *b)).product::<f64>();
        (0..self.list.len()).min_by(|a, b| far(&self.list[*a]).total_cmp(&far(&self.list[*b])))
    }
    /// The command-line flag for these gears and one more: `--dim b=1,4,8`, or `--dynamic-dims`
    /// with tuples if there are several sizes.
    pub fn flag_with(&self, sizes: &[u64]) -> String {
        let tuple = |s: &[u64]| s.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut all: Vec<&[u64]> = self.list.iter().map(|g| g.sizes.as_slice()).collect();
        if !all.contains(&sizes) {
            all.push(sizes);
        }
        match self.dims.as_slice() {
            [one] => {
                all.sort_unstable();
                format!("--dim {one}={}", all.iter().map(|s| tuple(s)).collect::<Vec<_>>().join(","))
            }
            _ => format!("--dynamic-dims \"{}\"", all.iter().map(|s| tuple(s)).collect::<Vec<_>>().join(";")),
        }
    }
}

impl CompiledModel {
    /// Greatest size in bytes of an input over all gears; `None` if each run determines it.
    pub fn input_bytes(&self, k: usize) -> Option<u64> {
        let d = &self.inputs.get(k)?.desc;
        match &self.gears {
            Some(g) => {
                g.list.iter().map(|g| bytes(d.dtype, g.inputs.get(k)?)).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            None => d.data_bytes(),
        }
    }
    /// Greatest size in bytes of an output over all gears; `None` if each run determines it.
    pub fn output_bytes(&self, k: usize) -> Option<u64> {
        let d = &self.outputs.get(k)?.desc;
        match &self.gears {
            Some(g) => {
                g.list.iter().map(|g| bytes(d.dtype, g.outputs.get(k)?)).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            None => d.data_bytes(),
        }
    }
    /// Size in bytes of the last input, which gives the sizes of the run; `None` without gears.
    pub fn selector_bytes(&self) -> Option<u64> {
        self.gears.as_ref().map(|g| 4 * g.dims.len() as u64)
    }
    /// The gear that a node belongs to, if any.
    pub fn gear_of(&self, node: &crate::NodeInfo) -> Option<usize> {
        let label = node.attrs.str(BATCH_LABEL)?;
        self.gears.as_ref()?;
        label.strip_prefix(LABEL)?.parse().ok()
    }
}

fn bytes(dtype: ge_plugin_api::types::DType, sizes: &[u64]) -> Option<u64> {
    dtype.bytes_of(Shape::of(sizes).count()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gears(dims: &[&str], sizes: &[&[u64]]) -> Gears {
        let list = sizes.iter().map(|s| Gear { sizes: s.to_vec(), ..Gear::default() }).collect();
        Gears { dims: dims.iter().map(|d| (*d).to_owned()).collect(), list }
    }

    #[test]
    fn the_nearest_gear_is_the_one_of_the_least_factor() {
        let g = gears(&["b"], &[&[1], &[4], &[8]]);
        assert_eq!((g.find(&[4]), g.find(&[5])), (Some(1), None));
        assert_eq!([2, 3, 5, 6, 100].map(|n| g.nearest(&[n])), [Some(0), Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!(g.flag_with(&[6]), "--dim b=1,4,6,8");
        let g = gears(&["h", "w"], &[&[224, 224], &[448, 320]]);
        assert_eq!((g.nearest(&[200, 300]), g.shown(1)), (Some(0), "h=448, w=320".to_owned()));
        assert_eq!(g.flag_with(&[5, 6]), "--dynamic-dims \"224,224;448,320;5,6\"");
    }

    #[test]
    fn a_gear_sets_names_and_what_is_made_of_them() {
        let names = ["s", "past"].map(str::to_owned);
        let at = |name: &str| size(Dim::symbol(name), &names, &[2, 3]);
        assert_eq!([at("s"), at("past+s"), at("2*past"), at("past-s")], [Some(2), Some(5), Some(6), Some(1)]);
        assert_eq!([at("s-past"), at("s+n"), at("n"), at("a name")], [None; 4]);
        assert_eq!(size(Dim::known(4), &names, &[2, 3]), None);
    }

    #[test]
    fn what_is_wanted_is_read_as_it_was_written() {
        let mut a = AttrMap::default();
        assert_eq!(wanted(&a), None);
        let (names, values) = (vec!["b".to_owned(), "s".to_owned()], vec![vec![1, 16], vec![4, 32]]);
        want(&mut a, &names, &values);
        assert_eq!(wanted(&a), Some((names, values)));
        a.set(VALUES, AttrValue::List(vec![AttrValue::Ints(vec![1].into())].into()));
        assert_eq!(wanted(&a), None);
    }
}
