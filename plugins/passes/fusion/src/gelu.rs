//! `GeluFusionPass`: `x/2·(1 + erf(x/√2))` and `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))` become
//! `Gelu`.
//!
//! The form of the arithmetic does not matter. The argument of an erf or tanh is read as a
//! polynomial in some value `x`, and the expression around it as a polynomial in `x` and the erf or
//! tanh; the coefficients decide. An erf of `k·x/√2`, whose constant has few digits, becomes
//! `Gelu(k·x)/k` where the type shows the difference.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, DType, Key, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Most nodes that one expression may have.
const MOST_NODES: usize = 24;
/// Greatest depth to which an expression is read.
const MOST_DEPTH: usize = 12;

/// Greatest relative difference of a constant with few digits from the number that it stands for.
const FEW_DIGITS: f64 = 2e-4;

/// The pass that this module describes.
pub struct GeluFusion;

impl Pass for GeluFusion {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "GeluFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "makes one Gelu of the small operators that compute it by erf or tanh".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut fused: BTreeSet<NodeId> = BTreeSet::new();
        let places = LazyCell::new(|| graph.order().iter().enumerate().map(|(k, id)| (*id, k)).collect());
        for node in graph.nodes_of(&["Erf", "Tanh"]) {
            if let Some(m) = Match::of(graph, &node)
                && m.inner.iter().chain([&m.root]).all(|n| !fused.contains(n))
            {
                fused.extend(m.inner.iter().copied());
                fused.insert(m.root);
                m.record(graph, &places, patch);
            }
        }
        Ok(())
    }
}

/// A polynomial: coefficients of `x^i · t^j`, with i up to 3 and j up to 1.
type Poly = [[f64; 2]; 4];

const ZERO: Poly = [[0.0; 2]; 4];

fn constant(c: f64) -> Poly {
    let mut p = ZERO;
    p[0][0] = c;
    p
}
fn zip(a: &Poly, b: &Poly, f: impl Fn(f64, f64) -> f64) -> Poly {
    std::array::from_fn(|i| std::array::from_fn(|j| f(a[i][j], b[i][j])))
}
fn product(a: &Poly, b: &Poly) -> Option<Poly> {
    let mut p = ZERO;
    for (i, j) in (0..4).flat_map(|i| (0..2).map(move |j| (i, j))) {
        for (k, l) in (0..4).flat_map(|i| (0..2).map(move |j| (i, j))) {
            let c = a[i][j] * b[k][l];
            if c != 0.0 {
                *p.get_mut(i + k)?.get_mut(j + l)? += c;
            }
        }
    }
    Some(p)
}
fn only_constant(p: &Poly) -> Option<f64> {
    let c = p[0][0];
    (zip(p, &constant(c), |a, b| a - b) == ZERO).then_some(c)
}

/// Reads an expression as a polynomial in two values.
struct Reader<'a> {
    g: &'a Graph<'a>,
    x: ValueRef,
    t: Option<ValueRef>,
    inner: Vec<NodeId>,
    x_rank: usize,
}

impl Reader<'_> {
    fn value(&mut self, v: ValueRef, depth: usize) -> Option<Poly> {
        if v == self.x {
            let mut p = ZERO;
            p[1][0] = 1.0;
            return Some(p);
        }
        if Some(v) == self.t {
            let mut p = ZERO;
            p[0][1] = 1.0;
            return Some(p);
        }
        if v.is_absent() || v.output != 0 || depth == 0 {
            return None;
        }
        if let Some(c) = self.g.constant(v) {
            // A constant with more elements, or with more axes than x, would change the shape.
            let one = c.count() == Some(1) && c.shape().rank().is_some_and(|r| r <= self.x_rank);
            return one.then(|| c.to_f64(1))?.and_then(|v| v.first().copied()).map(constant);
        }
        let n = self.g.find(v.node)?;
        if !self.inner.contains(&n.id()) {
            self.inner.push(n.id());
        }
        if self.inner.len() > MOST_NODES {
            return None;
        }
        let a = |s: &mut Self| s.value(n.input(0)?, depth - 1);
        let b = |s: &mut Self| s.value(n.input(1)?, depth - 1);
        match n.op() {
            "Add" => Some(zip(&a(self)?, &b(self)?, |x, y| x + y)),
            "Sub" => Some(zip(&a(self)?, &b(self)?, |x, y| x - y)),
            "Mul" => product(&a(self)?, &b(self)?),
            "Div" | "RealDiv" => {
                let by = only_constant(&b(self)?).filter(|c| *c != 0.0)?;
                product(&a(self)?, &constant(1.0 / by))
            }
            "Muls" => product(&a(self)?, &constant(n.float("value")?)),
            "Adds" => Some(zip(&a(self)?, &constant(n.float("value")?), |x, y| x + y)),
            "Neg" => product(&a(self)?, &constant(-1.0)),
            "Square" => {
                let p = a(self)?;
                product(&p, &p)
            }
            "Pow" => {
                let (p, e) = (a(self)?, only_constant(&b(self)?)?);
                match e {
                    1.0 => Some(p),
                    2.0 => product(&p, &p),
                    3.0 => product(&product(&p, &p)?, &p),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn near(p: &Poly, want: &Poly, tolerance: f64) -> bool {
    (0..4).all(|i| (0..2).all(|j| (p[i][j] - want[i][j]).abs() <= tolerance * want[i][j].abs()))
}

struct Match {
    root: NodeId,
    x: ValueRef,
    /// The factor of x within the erf, beside 1/√2.
    factor: f64,
    inner: Vec<NodeId>,
    approximate: &'static str,
}

impl Match {
    fn of(g: &Graph<'_>, t: &Node<'_>) -> Option<Match> {
        let out = t.outputs().first()?;
        let tolerance: f64 = match out.dtype {
            DType::F64 => 2e-15,
            DType::F32 => 1e-6,
            DType::F16 => 2e-3,
            DType::BF16 => 1.6e-2,
            _ => return None,
        };
        let (approximate, wanted) = if t.op() == "Erf" {
            let mut p = ZERO;
            p[1][0] = FRAC_1_SQRT_2;
            ("none", p)
        } else {
            let mut p = ZERO;
            p[1][0] = (2.0 / PI).sqrt();
            p[3][0] = p[1][0] * 0.044715;
            ("tanh", p)
        };
        let mut whole = ZERO;
        whole[1] = [0.5, 0.5];
        let argument = t.input(0)?;
        for x in bases(g, argument) {
            let x_rank = g.desc(x)?.shape.rank()?;
            let mut reader = Reader { g, x, t: None, inner: vec![t.id()], x_rank };
            let Some(p) = reader.value(argument, MOST_DEPTH) else { continue };
            // The constants in models often have few digits: 1.4142. An erf keeps them as a factor.
            let factor = if near(&p, &wanted, tolerance) {
                1.0
            } else if approximate == "none" && near(&p, &wanted, FEW_DIGITS) {
                p[1][0] / FRAC_1_SQRT_2
            } else {
                continue;
            };
            for root in above(g, t) {
                let mut reader = Reader { g, x, t: Some(t.value(0)), inner: reader.inner.clone(), x_rank };
                let Some(p) = reader.value(root.value(0), MOST_DEPTH) else { continue };
                let same = g.desc(x).zip(root.outputs().first());
                let same = same.is_some_and(|(a, b)| a.dtype == b.dtype && a.shape == b.shape);
                if near(&p, &whole, tolerance) && same && root.controls().is_empty() {
                    reader.inner.retain(|n| *n != root.id());
                    let bound = reader.inner.iter().any(|n| {
                        !g.control_users(*n).is_empty() || g.find(*n).is_some_and(|n| !n.controls().is_empty())
                    });
                    if bound {
                        return None;
                    }
                    return Some(Match { root: root.id(), x, factor, inner: reader.inner, approximate });
                }
            }
        }
        None
    }

    fn record(&self, g: &Graph<'_>, places: &HashMap<NodeId, usize>, patch: &mut Patch) {
        let Some(root) = g.find(self.root) else { return };
        if self.factor == 1.0 {
            edit::becomes(patch, &root, Key::new("Gelu"), &[self.x]);
            patch.set_attr(root.id(), "approximate", self.approximate);
        } else {
            let Some(desc) = g.desc(self.x) else { return };
            let mut attrs = AttrMap::default();
            attrs.set("value", self.factor);
            let name = |what: &str| format!("{}/{what}", root.name());
            let scaled = patch.add("Muls", &name("scaled"), &[self.x], vec![desc.clone()], attrs);
            let mut attrs = AttrMap::default();
            attrs.set("approximate", self.approximate);
            let gelu = patch.add("Gelu", &name("gelu"), &[ValueRef::new(scaled, 0)], vec![desc.clone()], attrs);
            edit::becomes(patch, &root, Key::new("Muls"), &[ValueRef::new(gelu, 0)]);
            patch.set_attr(root.id(), "value", 1.0 / self.factor);
        }
        let mut inner = self.inner.clone();
        inner.sort_by_key(|id| places.get(id));
        let fused: Vec<Node<'_>> = inner.iter().chain([&self.root]).filter_map(|id| g.find(*id)).collect();
        edit::keep_names(patch, &root, &fused);
        edit::remove_unread(patch, g, root.id(), &[self.x.node], &inner);
    }
}

/// Candidates for x: the values that the argument is computed from, without constants, nearest
/// first.
fn bases(g: &Graph<'_>, argument: ValueRef) -> Vec<ValueRef> {
    let mut all = vec![argument];
    let mut at = 0;
    while let Some(v) = all.get(at).copied() {
        at += 1;
        let Some(n) = g.find(v.node) else { continue };
        if matches!(n.op(), "Add" | "Sub" | "Mul" | "Div" | "RealDiv" | "Muls" | "Adds" | "Neg" | "Square" | "Pow") {
            for &i in n.inputs() {
                if !i.is_absent() && g.constant(i).is_none() && !all.contains(&i) && all.len() < MOST_NODES {
                    all.push(i);
                }
            }
        }
    }
    all
}

/// Candidates for the end of the expression: the nodes that follow `t` as long as there is only one
/// reader.
fn above<'a>(g: &Graph<'a>, t: &Node<'a>) -> Vec<Node<'a>> {
    let mut all = Vec::new();
    let mut at = *t;
    while all.len() < 6 {
        let [only] = g.users(at.value(0)) else { break };
        let Some(n) = g.find(only.node) else { break };
        if n.outputs().len() != 1 {
            break;
        }
        all.push(n);
        at = n;
    }
    all
}
