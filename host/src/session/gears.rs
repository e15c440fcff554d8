//! Gears: turns `--dim b=1,4,8` and atc's `--dynamic-batch-size`, `--dynamic-image-size` and
//! `--dynamic-dims` into attributes of a graph that is compiled for each of these sizes.
use crate::options::unknown_name;
use crate::{Diagnostic, Error, Result};
use ge_compiler::dynamic::RANGES;
use ge_compiler::prepare::name_open_sizes_pass::SizeNames;
use ge_ir::{AttrValue, Dim, Model, ValueRef};
use ge_model::gears;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DictEntry, Expr};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of gears of a model (facts 8.7).
const MOST: usize = 100;

/// How the user asks for gears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `NAME=SIZE,SIZE,…`: each combination is a gear.
    pub by_name: Vec<String>,
    /// Sizes of the first dimension, where it is open.
    pub batch: Option<String>,
    /// Heights and widths for the two open dimensions: `224,224;448,448`.
    pub image: Option<String>,
    /// One size for each open dimension, in the order of the inputs: `1,20;4,40`.
    pub dims: Option<String>,
}

impl Asked {
    /// Whether no gears are asked for.
    pub fn is_empty(&self) -> bool {
        *self == Asked::default()
    }
}

/// An open dimension of an input.
struct Open {
    input: String,
    at: ValueRef,
    dim: usize,
    symbol: Option<String>,
}

impl Open {
    /// Whether the size is an expression over sizes that `is_known` accepts. Such a size is not
    /// given: it follows from them.
    fn follows_from(&self, is_known: impl Fn(&str) -> bool) -> bool {
        let e = self.symbol.as_deref().and_then(Expr::parse).filter(|e| !e.is_symbol());
        e.is_some_and(|e| e.value(&|s| is_known(s).then_some(1)).is_some())
    }
}

/// Divides open dimensions into those that gears set, and those that follow from them.
fn divided(open: Vec<Open>) -> (Vec<Open>, Vec<Open>) {
    let names: BTreeSet<String> = open.iter().filter_map(|o| o.symbol.clone()).collect();
    open.into_iter().partition(|o| !o.follows_from(|s| names.contains(s)))
}

fn bad(flag: &str, found: &str, expected: &str) -> Error {
    Diagnostic::error(format!("`{flag}` cannot be read"))
        .found(format!("`{found}`"), expected)
        .help("for example `--input-shape \"x:b,3,224,224\" --dim b=1,4,8`")
        .raise(ge_codes::GEARS)
}

/// Parses sizes separated by commas. 0 is allowed: a cache that is empty at first has size 0.
fn sizes(flag: &str, text: &str) -> Result<Vec<u64>> {
    let one = |t: &str| t.trim().parse::<u64>().ok().filter(|n| (0..=i32::MAX as u64).contains(n));
    let all: Option<Vec<u64>> = text.split(',').map(one).collect();
    all.ok_or_else(|| bad(flag, text, "whole sizes, apart by commas"))
}

/// Parses tuples separated by semicolons, each with a size for each name.
fn tuples(flag: &str, text: &str, names: &[impl AsRef<str>]) -> Result<Vec<Vec<u64>>> {
    let one = |t: &str| {
        let all = sizes(flag, t)?;
        let named: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let expected = format!("{} size(s) in each gear: {}", named.len(), named.join(", "));
        if all.len() == named.len() { Ok(all) } else { Err(bad(flag, t, &expected)) }
    };
    text.split(';').map(str::trim).filter(|t| !t.is_empty()).map(one).collect()
}

/// Adds gears to a graph: its open dimensions get the names that the gears set.
///
/// # Errors
/// Fails if sizes cannot be read, if no dimension has a given name, if no gear sets an open
/// dimension, or if there are fewer than two or more than 100 gears.
pub fn apply(model: &mut Model, asked: &Asked) -> Result<()> {
    if asked.is_empty() {
        return Ok(());
    }
    let ways = [!asked.by_name.is_empty(), asked.batch.is_some(), asked.image.is_some(), asked.dims.is_some()];
    if ways.into_iter().filter(|w| *w).count() > 1 {
        return Err(Error::usage(
            "gears are given once: by --dim, --dynamic-batch-size, --dynamic-image-size or --dynamic-dims",
        ));
    }
    let (open, made) = divided(open_dims(model)?);
    if open.is_empty() {
        return Err(Diagnostic::error("no input has an open size: there is nothing that gears could set")
            .help("export the model with the size open, as `b`, and give its sizes: `--dim b=1,4,8`")
            .raise(ge_codes::GEARS));
    }
    let (names, values) = match asked {
        Asked { batch: Some(text), .. } => {
            let flag = "--dynamic-batch-size";
            let all: Vec<Vec<u64>> = sizes(flag, text)?.into_iter().map(|n| vec![n]).collect();
            let name = |o: &Open| (o.dim == 0).then_some("batch");
            (tie(model, (&open, &made), name, flag, "dimension 0 of an input")?, all)
        }
        Asked { image: Some(text), .. } => {
            let flag = "--dynamic-image-size";
            let all = tuples(flag, text, &["height", "width"])?;
            let mut place = 0;
            let mut last = None;
            let name = |o: &Open| {
                place = if last.replace(o.at) == Some(o.at) { place + 1 } else { 0 };
                ["height", "width"].get(place).copied()
            };
            (tie(model, (&open, &made), name, flag, "height and width of an input")?, all)
        }
        Asked { dims: Some(text), .. } => {
            let names = own_names(model, &open);
            let all = tuples("--dynamic-dims", text, &names)?;
            (names, all)
        }
        _ => by_name(&open, &asked.by_name)?,
    };
    let mut seen = BTreeSet::new();
    if let Some(twice) = values.iter().find(|v| !seen.insert(v.as_slice())) {
        return Err(bad("gears", &format!("{twice:?} twice"), "each gear once"));
    }
    if !(2..=MOST).contains(&values.len()) {
        return Err(bad(
            "gears",
            &format!("{} gear(s)", values.len()),
            "2 to 100 gears; one size is given with `--input-shape`",
        ));
    }
    within(model, open.iter().chain(&made), &names, &values)?;
    gears::want(model.root_mut().attrs_mut(), &names, &values);
    Ok(())
}

fn open_dims(model: &Model) -> Result<Vec<Open>> {
    let mut out = Vec::new();
    for n in model.root().data_nodes() {
        // The sizes of sequences and optionals come from the run.
        let Some(d) = n.outputs().first().filter(|d| d.container == Container::TENSOR) else { continue };
        if d.shape.is_unranked() {
            return Err(Diagnostic::error(format!(
                "input `{}` is of unknown rank: no gear can set its sizes",
                n.name()
            ))
            .help(format!("say which sizes it has: `--input-shape \"{}:b,3,224,224\"`", n.name()))
            .raise(ge_codes::GEARS));
        }
        for (k, d) in d.shape.dims().iter().enumerate().filter(|(_, d)| !d.is_known()) {
            let symbol = d.symbol_name().map(str::to_owned);
            out.push(Open { input: n.name().to_owned(), at: ValueRef::new(n.id(), 0), dim: k, symbol });
        }
    }
    Ok(out)
}

/// Gives open dimensions the names of a flag. Returns the names in the order of first use.
fn tie(
    model: &mut Model,
    (open, made): (&[Open], &[Open]),
    mut name: impl FnMut(&Open) -> Option<&'static str>,
    flag: &str,
    what: &str,
) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut renamed: BTreeMap<&str, &str> = BTreeMap::new();
    for o in open {
        let Some(n) = name(o) else {
            return Err(Diagnostic::error(format!("`{flag}` sets {what}, size {} of `{}` stays open", o.dim, o.input))
                .help("give it with `--input-shape`, or name all sizes: `--dynamic-dims`")
                .raise(ge_codes::GEARS));
        };
        if !names.iter().any(|x| x == n) {
            names.push(n.to_owned());
        }
        set(model, o, Dim::symbol(n));
        renamed.extend(o.symbol.as_deref().map(|s| (s, n)));
    }
    for o in made {
        let Some(own) = o.symbol.as_deref() else { continue };
        set(model, o, Expr::replaced(Dim::symbol(own), &|s| renamed.get(s).map(|n| Dim::symbol(n))));
    }
    if flag.ends_with("image-size") && names.len() != 2 {
        return Err(bad(flag, "one open size", "two open sizes of an input, its height and width"));
    }
    Ok(names)
}

/// The letters of open dimensions; a dimension without a letter gets a name of its own.
fn own_names(model: &mut Model, open: &[Open]) -> Vec<String> {
    let mut made = SizeNames::of(model);
    let mut names: Vec<String> = Vec::new();
    for o in open {
        let name = o.symbol.clone().unwrap_or_else(|| made.make(&o.input, o.dim));
        if o.symbol.is_none() {
            set(model, o, Dim::symbol(&name));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn set(model: &mut Model, o: &Open, to: Dim) {
    if let Some(d) = model.root_mut().output_mut(o.at) {
        if let Some(d) = d.shape.dims_mut().get_mut(o.dim) {
            *d = to;
        }
    }
}

/// `b=1,4,8`: every combination of the sizes of all names.
fn by_name(open: &[Open], list: &[String]) -> Result<(Vec<String>, Vec<Vec<u64>>)> {
    // Several inputs may share a name.
    let first = |(k, o): &(usize, &Open)| !open[..*k].iter().any(|before| before.symbol == o.symbol);
    let known = || open.iter().enumerate().filter(first).filter_map(|(_, o)| o.symbol.as_deref());
    let mut names: Vec<String> = Vec::new();
    let mut values: Vec<Vec<u64>> = vec![Vec::new()];
    for text in list {
        let (name, of) = text.split_once('=').ok_or_else(|| bad("--dim", text, "NAME=SIZE,SIZE,…"))?;
        let name = name.trim();
        if !known().any(|k| k == name) {
            let d = unknown_name("size of --dim", name, known());
            let nameless: Vec<String> = open
                .iter()
                .filter(|o| o.symbol.is_none())
                .map(|o| format!("size {} of `{}`", o.dim, o.input))
                .collect();
            return Err(d.with(|d| {
                if nameless.is_empty() {
                    d
                } else {
                    d.note(format!("without a name: {}; `--input-shape` gives one", nameless.join(", ")))
                }
            }));
        }
        if names.iter().any(|n| n == name) {
            return Err(bad("--dim", text, "each name once"));
        }
        names.push(name.to_owned());
        let of = sizes("--dim", of)?;
        if values.len().saturating_mul(of.len()) > MOST {
            return Err(bad("--dim", &format!("{} gears", values.len().saturating_mul(of.len())), "2 to 100 gears"));
        }
        let with = |v: &Vec<u64>| of.iter().map(|n| [v.as_slice(), &[*n]].concat()).collect::<Vec<_>>();
        values = values.iter().flat_map(with).collect();
    }
    let left = |o: &&Open| o.symbol.as_ref().is_none_or(|s| !names.contains(s));
    if let Some(o) = open.iter().find(left) {
        let shown = o.symbol.clone().unwrap_or_else(|| "?".into());
        return Err(Diagnostic::error(format!(
            "size {} of input `{}` ({shown}) is open, and no gear sets it",
            o.dim, o.input
        ))
        .help("give it with `--input-shape`, or name it and give its sizes with another `--dim`")
        .raise(ge_codes::GEARS));
    }
    Ok((names, values))
}

/// Checks that the gears lie within the ranges of `--input-shape`. The ranges follow the names that
/// the sizes have now; they hold for what runs beside the gears.
fn within<'o>(
    model: &mut Model,
    open: impl Iterator<Item = &'o Open> + Clone,
    names: &[String],
    values: &[Vec<u64>],
) -> Result<()> {
    let Some(ranges) = model.root_mut().attrs_mut().remove(RANGES) else { return Ok(()) };
    let mut kept: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for e in ranges.as_dict().unwrap_or_default() {
        let Some(&[low, high]) = e.value.as_ints() else { continue };
        let named = |o: &&'o Open| match &o.symbol {
            Some(s) => s == e.key.as_str(),
            None => e.key.as_str() == format!("{}:{}", o.input, o.dim),
        };
        let now = |o: &'o Open| model.root().desc(o.at)?.shape.dims().get(o.dim).copied();
        let Some(dim) = open.clone().find(named).and_then(now) else { continue };
        let Some(name) = dim.symbol_name() else { continue };
        let set = || values.iter().filter_map(move |v| gears::size(dim, names, v));
        if set().next().is_none() {
            continue;
        }
        if let Some(n) = set().find(|n| !(low as u64..=high as u64).contains(n)) {
            let expected = format!("{low} to {high}, as `--input-shape` says");
            return Err(bad("gears", &format!("{name}={n}"), &expected));
        }
        // Sizes with ranges of their own may have become one.
        let both = kept.entry(name.to_owned()).or_insert((low, high));
        *both = (both.0.max(low), both.1.min(high));
    }
    let value = |(low, high): (i64, i64)| AttrValue::Ints(vec![low, high].into());
    let entries = kept.into_iter().map(|(k, r)| DictEntry { key: k.as_str().into(), value: value(r) });
    model.root_mut().attrs_mut().set(RANGES, AttrValue::Dict(entries.collect()));
    Ok(())
}

/// Removes the ranges of sizes from a graph with gears: its model runs the gears alone, which lie
/// within the ranges.
pub fn leave_ranges(model: &mut Model) {
    model.root_mut().attrs_mut().remove(RANGES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Model {
        ge_ir::text::parse(text, "t.ge", &ge_ir::text::NoFiles).expect("a graph")
    }
    const TWO: &str = "graph @main(%x: f32[b,3], %y: f32[b,?]) { %z = Neg(%x) : f32[b,3] return %z }";
    const IMAGE: &str = "graph @main(%x: f32[1,3,?,?]) { %z = Neg(%x) : f32[1,3,?,?] return %z }";

    fn wanted(text: &str, asked: &Asked) -> Result<(Vec<String>, Vec<Vec<u64>>)> {
        let mut m = model(text);
        apply(&mut m, asked)?;
        Ok(gears::wanted(m.root().attrs()).expect("gears"))
    }
    fn text(t: &str) -> Option<String> {
        Some(t.to_owned())
    }

    #[test]
    fn each_way_to_ask_gives_names_and_values() {
        let one = "graph @main(%x: f32[b,3]) { %z = Neg(%x) : f32[b,3] return %z }";
        let by_name = |l: &[&str]| Asked { by_name: l.iter().map(|s| (*s).to_owned()).collect(), ..Asked::default() };
        assert_eq!(wanted(one, &by_name(&["b=1,4"])).expect("two"), (vec!["b".into()], vec![vec![1], vec![4]]));
        // Both inputs have the name; the message lists it once.
        let both = TWO.replace("b,?", "b,2");
        assert_eq!(wanted(&both, &by_name(&["c=1,4"])).expect_err("no such size").diagnostics[0].expected, "one of b");
        let (names, values) = wanted(TWO, &Asked { dims: text("1,20;4,40"), ..Asked::default() }).expect("tuples");
        assert_eq!((names, values), (vec!["b".to_owned(), "y_1".to_owned()], vec![vec![1, 20], vec![4, 40]]));
        let (names, values) = wanted(IMAGE, &Asked { image: text("8,16;32,32"), ..Asked::default() }).expect("sizes");
        assert_eq!((names, values), (vec!["height".to_owned(), "width".to_owned()], vec![vec![8, 16], vec![32, 32]]));
        let mut m = model("graph @main(%x: f32[?,3], %y: f32[n,2]) { %z = Neg(%x) : f32[?,3] return %z }");
        apply(&mut m, &Asked { batch: text("1,2,8"), ..Asked::default() }).expect("a batch");
        let y = m.root().find("y").and_then(|n| n.outputs().first()).expect("an input");
        assert_eq!(y.shape.dims()[0].symbol_name(), Some("batch"));
        let both = "graph @main(%x: f32[a,b]) { %z = Neg(%x) : f32[a,b] return %z }";
        assert_eq!(wanted(both, &by_name(&["a=1,2", "b=3,4"])).expect("all").1, [[1, 3], [1, 4], [2, 3], [2, 4]]);
    }

    #[test]
    fn a_size_that_is_made_of_others_is_not_asked_for() {
        let text = "graph @main(%x: f32[b,s], %p: f32[b,past], %m: f32[b,\"past+s\",\"2*b\"]) {
            %z = Neg(%x) : f32[b,s] return %z }";
        let dims = Asked { dims: self::text("1,2,3;4,5,6"), ..Asked::default() };
        assert_eq!(wanted(text, &dims).expect("three sizes").0, ["b", "s", "past"]);
        let by_name = |l: &[&str]| Asked { by_name: l.iter().map(|s| (*s).to_owned()).collect(), ..Asked::default() };
        assert_eq!(wanted(text, &by_name(&["b=1,2", "s=1", "past=3"])).expect("three sizes").1.len(), 2);
        let four = Asked { dims: self::text("1,2,3,5;4,5,6,11"), ..Asked::default() };
        let why = wanted(text, &four).expect_err("four sizes").to_string();
        assert!(why.contains("3 size(s) in each gear: b, s, past"), "{why}");
        let why = wanted(text, &by_name(&["b=1,2", "s=1"])).expect_err("`past` is open").to_string();
        assert!(why.contains("size 1 of input `p`"), "{why}");
        let mut m = model("graph @main(%x: f32[n,3], %y: f32[\"2*n\",2]) { %z = Neg(%x) : f32[n,3] return %z }");
        apply(&mut m, &Asked { batch: self::text("1,2,8"), ..Asked::default() }).expect("a batch");
        let shape = |name: &str| m.root().find(name).expect("an input").outputs()[0].shape.to_string();
        assert_eq!([shape("x"), shape("y")], ["[batch,3]", "[2*batch,2]"]);
    }

    #[test]
    fn what_cannot_be_read_or_leaves_a_size_open_is_refused() {
        let by_name = |s: &str| Asked { by_name: vec![s.to_owned()], ..Asked::default() };
        for (t, asked, says) in [
            (TWO, by_name("b=1,4"), "size 1 of input `y`"),
            (TWO, by_name("c=1,4"), "`c`"),
            (TWO, by_name("b"), "cannot be read"),
            (IMAGE, Asked { batch: text("1,2"), ..Asked::default() }, "stays open"),
            (IMAGE, Asked { image: text("1,2,3;4,5,6"), ..Asked::default() }, "cannot be read"),
            (IMAGE, Asked { image: text("8,8;8,8"), ..Asked::default() }, "cannot be read"),
            (IMAGE, Asked { image: text("8,8"), ..Asked::default() }, "cannot be read"),
            (IMAGE, Asked { image: text("8,-1;1,1"), ..Asked::default() }, "cannot be read"),
            (
                "graph @main(%x: f32[2]) { %z = Neg(%x) : f32[2] return %z }",
                by_name("b=1,2"),
                "no input has an open size",
            ),
        ] {
            let e = wanted(t, &asked).expect_err(says);
            assert_eq!(e.kind, crate::ErrorKind::USAGE);
            assert!(e.to_string().contains(says), "{e}: {says}");
        }
    }

    /// Two inputs whose names differ in a character that no size's name has.
    #[test]
    fn sizes_without_a_name_are_never_tied() {
        let two = "graph @main(%a/b: f32[?], %a.b: f32[?]) { %z = Neg(%a/b) : f32[?] return %z }";
        let (names, _) = wanted(two, &Asked { dims: text("1,2;3,4"), ..Asked::default() }).expect("two sizes");
        assert_eq!(names, ["a_b_0", "a_b_0_2"]);
        let own = "graph @main(%x: f32[?], %y: f32[x_0]) { %z = Neg(%x) : f32[?] return %z }";
        let (names, _) = wanted(own, &Asked { dims: text("1,2;3,4"), ..Asked::default() }).expect("two sizes");
        assert_eq!(names, ["x_0_2", "x_0"]);
    }

    #[test]
    fn ranges_follow_the_names_of_their_sizes() {
        let mut m = model("graph @main(%x: f32[?]) { %z = Neg(%x) : f32[?] return %z }");
        crate::session::symbols::apply(&mut m, "x:1..4").expect("a range");
        apply(&mut m.clone(), &Asked { dims: text("2;9"), ..Asked::default() }).expect_err("9 is out of range");
        apply(&mut m, &Asked { dims: text("2;4"), ..Asked::default() }).expect("gears");
        let ranges = m.root().attrs().get(RANGES).and_then(AttrValue::as_dict).expect("ranges");
        assert_eq!((ranges.len(), ranges[0].key.as_str()), (1, "x_0"));
    }
}
