//! `Gears`: the sizes that a model of several static plans is compiled for, of which each run takes
//! one (003 §8, facts 8.7).
//!
//! A front door writes two attributes to the root graph: the names of the open sizes, and a list of
//! their values for each gear. The compiler makes a branch of a `Case` from each gear; the model
//! keeps what the inputs and outputs of each are.
use crate::{CompiledModel, IoInfo};
use ge_plugin_api::types::{AttrMap, AttrValue, Shape};
use serde::{Deserialize, Serialize};

/// Attribute of the root graph: names of the sizes that gears set.
pub const DIMS: &str = "_gear_dims";
/// Attribute of the root graph: for each gear the sizes, in the order of their names.
pub const VALUES: &str = "_gears";
/// Attribute of the `Case`, and of the switch that it becomes: how many gears there are.
pub const BATCH_NUM: &str = "_batch_num";
/// What the labels of gears begin with.
const LABEL: &str = "Batch_";
/// Attribute of each node of a gear: `Batch_<i>`.
pub const BATCH_LABEL: &str = "_batch_label";
/// Attribute of an input: the name of the size that gears set, for each dimension; none where they
/// set none.
pub const OPEN: &str = "_gear_symbols";
/// Attribute of the switch that a `Case` of gears becomes: for each output its sizes in each gear.
pub const OUTPUTS: &str = "_gear_outputs";
/// Operator: a value's memory under the shape of a gear, or with the room of the largest.
pub const VIEW: &str = "GearView";
/// The input behind those of the user: the sizes of the run.
pub const SELECTOR: &str = "ascend_mbatch_shape_data";
/// What the names of graphs and nodes of a gear end with, before its number.
pub const SUFFIX: &str = "_ascend_mbatch_batch_";

/// The gears of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gears {
    /// Names of the sizes.
    pub dims: Vec<String>,
    /// The gears, in the user's order, which is that of the branches.
    pub list: Vec<Gear>,
}

/// One gear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gear {
    /// The graph that is its branch.
    pub graph: String,
    /// Its sizes, in the order of the names.
    pub sizes: Vec<u64>,
    /// The shape of each input.
    pub inputs: Vec<Vec<u64>>,
    /// The shape of each output; none where the run settles one of them.
    pub outputs: Vec<Vec<u64>>,
}

/// A name that stands for two sizes.
pub struct TwoSizes<'m> {
    /// Which.
    pub name: usize,
    /// The input that has the second.
    pub input: &'m IoInfo,
    /// The second.
    pub size: u64,
    /// The first.
    pub known: u64,
    /// The input that has it.
    pub first: &'m IoInfo,
}

/// The label of a gear's nodes.
pub fn label(gear: usize) -> String {
    format!("{LABEL}{gear}")
}

/// Names and values of the gears that a root graph is to be compiled for; None: it has none, or
/// they cannot be read.
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

/// Writes what [`wanted`] reads.
pub fn want(attrs: &mut AttrMap, names: &[String], values: &[Vec<u64>]) {
    attrs.set(DIMS, AttrValue::Strs(names.iter().map(|n| n.as_str().into()).collect()));
    let one = |v: &Vec<u64>| AttrValue::Ints(v.iter().map(|n| *n as i64).collect());
    attrs.set(VALUES, AttrValue::List(values.iter().map(one).collect()));
}

/// Takes from a root graph what [`wanted`] reads: its sizes are open again.
pub fn unwant(attrs: &mut AttrMap) {
    attrs.remove(DIMS);
    attrs.remove(VALUES);
}

impl CompiledModel {
    /// The model that runs sizes of no gear, of a model with gears that was compiled with one
    /// (`ge.compileHybridMode`). Its parts stand behind it in this model's.
    pub fn outside(&self) -> Option<&CompiledModel> {
        self.parts.get(self.outside_at()?)
    }
    /// Where that model stands among the parts: gears' own, before it, are planned.
    pub(crate) fn outside_at(&self) -> Option<usize> {
        self.gears.as_ref()?;
        self.parts.iter().position(CompiledModel::is_dynamic)
    }
    /// Takes the model that runs sizes of no gear, with its parts.
    pub fn take_outside(&mut self) -> Option<CompiledModel> {
        let mut all = self.parts.split_off(self.outside_at()?).into_iter();
        let outside = CompiledModel { shares_weights: false, ..all.next()? };
        Some(CompiledModel { parts: all.collect(), ..outside })
    }
    /// Gives a model with gears the one that runs sizes of none.
    pub fn set_outside(&mut self, mut outside: CompiledModel) {
        let parts = std::mem::take(&mut outside.parts);
        self.parts.extend(std::iter::once(outside).chain(parts));
        self.share_with_parts();
    }
}

impl Gears {
    /// The sizes that gears set, as inputs of these sizes have them.
    ///
    /// # Errors
    /// A name that stands for two sizes: the input that has the second, which name and size that is,
    /// the first and whose that is.
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
    /// The sizes of a gear as users write them: `b=4, s=16`.
    pub fn shown(&self, gear: usize) -> String {
        self.sizes_shown(self.list.get(gear).map_or(&[], |g| &g.sizes))
    }
    /// The same of any sizes.
    pub fn sizes_shown(&self, sizes: &[u64]) -> String {
        self.dims.iter().zip(sizes).map(|(d, n)| format!("{d}={n}")).collect::<Vec<_>>().join(", ")
    }
    /// The gear of these sizes.
    pub fn find(&self, sizes: &[u64]) -> Option<usize> {
        self.list.iter().position(|g| g.sizes == sizes)
    }
    /// The gear whose sizes are nearest to these, by the factors between them; among equals the
    /// first.
    pub fn nearest(&self, sizes: &[u64]) -> Option<usize> {
        let factor = |a: u64, b: u64| {
            let (a, b) = (a.max(1) as f64, b.max(1) as f64);
            if a > b { a / b } else { b / a }
        };
        let far = |g: &Gear| g.sizes.iter().zip(sizes).map(|(a, b)| factor(*a, *b)).product::<f64>();
        (0..self.list.len()).min_by(|a, b| far(&self.list[*a]).total_cmp(&far(&self.list[*b])))
    }
    /// What a command line has for these gears and one more: `--dim b=1,4,8`, or the tuples of
    /// several sizes.
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
    /// Greatest bytes of an input, over all gears; None: its sizes are settled by each run.
    pub fn input_bytes(&self, k: usize) -> Option<u64> {
        let d = &self.inputs.get(k)?.desc;
        match &self.gears {
            Some(g) => {
                g.list.iter().map(|g| bytes(d.dtype, g.inputs.get(k)?)).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            None => d.data_bytes(),
        }
    }
    /// Greatest bytes of an output, over all gears; None: its sizes are settled by each run.
    pub fn output_bytes(&self, k: usize) -> Option<u64> {
        let d = &self.outputs.get(k)?.desc;
        match &self.gears {
            Some(g) => {
                g.list.iter().map(|g| bytes(d.dtype, g.outputs.get(k)?)).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            None => d.data_bytes(),
        }
    }
    /// Bytes of the input behind those of the user, which says the sizes of the run.
    pub fn selector_bytes(&self) -> Option<u64> {
        self.gears.as_ref().map(|g| 4 * g.dims.len() as u64)
    }
    /// The gear that a node belongs to.
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
