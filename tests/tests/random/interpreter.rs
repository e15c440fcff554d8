//! A plain interpreter of an imported graph: one thread, node by node in the order of the graph,
//! without plans.
//!
//! It knows the operators that the generator writes (one rank, groups of rows of two), and computes
//! `f32`, `i32` and `bool` alike as `f32`. The output of an assignment is the variable itself: a
//! node that reads it gets what the variable holds at that time. A graph that is called gets
//! values.
use ge::session::GraphModel;
use ge_ir::{Graph, Node};
use ge_plugin_api::types::AttrValue;
use std::collections::{BTreeMap, HashMap};

/// A value of a graph.
#[derive(Clone)]
enum Value {
    Tensor(Vec<f32>),
    /// The variable of this name.
    State(String),
}

/// The state that runs leave behind.
#[derive(Clone, Default)]
pub struct Interpreter {
    /// Variables by name.
    pub variables: BTreeMap<String, Vec<f32>>,
}

fn tensor_attr(n: &Node, key: &str) -> Option<Vec<f32>> {
    let values = n.attrs().tensor(key)?.to_f64(1 << 16)?;
    Some(values.into_iter().map(|v| v as f32).collect())
}

impl Interpreter {
    /// Starts with the initial values of the variables of all graphs.
    pub fn new(model: &GraphModel) -> Interpreter {
        let mut variables = BTreeMap::new();
        for n in model.graphs().iter().flat_map(Graph::nodes).filter(|n| n.op() == "Variable") {
            let count = n.outputs()[0].shape.sizes().unwrap().iter().product::<u64>();
            let init = tensor_attr(n, "init_value").unwrap_or_else(|| vec![0.0; count as usize]);
            variables.insert(n.name().to_owned(), init);
        }
        Interpreter { variables }
    }

    /// Makes one run; returns the outputs of the root graph.
    pub fn run(&mut self, model: &GraphModel, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
        self.graph(model, model.root(), inputs)
    }

    fn graph(&mut self, model: &GraphModel, g: &Graph, args: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let mut values: HashMap<(u32, u32), Value> = HashMap::new();
        for n in g.nodes() {
            let read = |me: &Interpreter, i: usize| -> Vec<f32> {
                let v = n.input(i).unwrap();
                match &values[&(v.node.0, v.output)] {
                    Value::Tensor(t) => t.clone(),
                    Value::State(name) => me.variables[name].clone(),
                }
            };
            let all: Vec<Vec<f32>> = (0..n.inputs().len()).map(|i| read(self, i)).collect();
            let outs: Vec<Value> = match n.op() {
                "Data" => vec![Value::Tensor(args[n.attrs().int("index").unwrap_or(0) as usize].clone())],
                "Variable" => vec![Value::State(n.name().to_owned())],
                "NetOutput" => return all,
                "Assign" | "AssignAdd" | "AssignSub" => {
                    let v = n.input(0).unwrap();
                    let Value::State(name) = values[&(v.node.0, v.output)].clone() else { panic!("no variable") };
                    let held = self.variables.get_mut(&name).unwrap();
                    for (h, x) in held.iter_mut().zip(&all[1]) {
                        *h = match n.op() {
                            "Assign" => *x,
                            "AssignAdd" => *h + x,
                            _ => *h - x,
                        };
                    }
                    vec![Value::State(name)]
                }
                _ => self.plain(model, n, &all).into_iter().map(Value::Tensor).collect(),
            };
            values.extend((0..).zip(outs).map(|(k, v)| ((n.id().0, k), v)));
        }
        Vec::new()
    }

    fn sub(&mut self, model: &GraphModel, n: &Node, key: &str, args: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let Some(AttrValue::Graph(name)) = n.attr(key) else { panic!("`{}` has no {key}", n.name()) };
        self.graph(model, model.graph(name).unwrap(), args)
    }

    fn plain(&mut self, model: &GraphModel, n: &Node, a: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let one = |f: fn(f32) -> f32| vec![a[0].iter().map(|x| f(*x)).collect::<Vec<f32>>()];
        let two = |f: fn(f32, f32) -> f32| {
            let at = |v: &Vec<f32>, i: usize| v[if v.len() == 1 { 0 } else { i }];
            let count = a[0].len().max(a[1].len());
            vec![(0..count).map(|i| f(at(&a[0], i), at(&a[1], i))).collect::<Vec<f32>>()]
        };
        match n.op() {
            "Const" => vec![tensor_attr(n, "value").unwrap()],
            "Identity" | "Reshape" | "Cast" | "HcomAllReduce" => vec![a[0].clone()],
            "GroupedMatmul" => {
                // Rows of two numbers, each times the matrix of its group.
                let groups = a[2].iter().enumerate().flat_map(|(g, n)| std::iter::repeat_n(g, *n as usize));
                let product = |(row, g): (usize, usize)| {
                    let at = move |n: usize| (0..2).map(move |k| (row * 2 + k, g * 4 + k * 2 + n));
                    [0, 1].map(|n| at(n).map(|(x, w)| a[0][x] * a[1][w]).sum::<f32>())
                };
                vec![groups.enumerate().flat_map(product).collect()]
            }
            "Neg" => one(|x| -x),
            "Relu" => one(|x| x.max(0.0)),
            "Add" => two(|x, y| x + y),
            "Sub" => two(|x, y| x - y),
            "Maximum" => two(f32::max),
            "Minimum" => two(f32::min),
            "Less" => two(|x, y| f32::from(u8::from(x < y))),
            "ConcatD" => vec![a.concat()],
            "SplitD" => {
                let count = n.outputs().len();
                a[0].chunks(a[0].len() / count).map(<[f32]>::to_vec).collect()
            }
            "PartitionedCall" => self.sub(model, n, "f", a),
            "If" => {
                let key = if a[0][0] != 0.0 { "then_branch" } else { "else_branch" };
                self.sub(model, n, key, &a[1..])
            }
            "Case" => {
                let Some(AttrValue::List(list)) = n.attr("branches") else { panic!("no branches") };
                let AttrValue::Graph(name) = &list[a[0][0] as usize] else { panic!("no graph") };
                self.graph(model, model.graph(name).unwrap(), &a[1..])
            }
            "While" => {
                let mut state = a.to_vec();
                while self.sub(model, n, "cond", &state)[0][0] != 0.0 {
                    state = self.sub(model, n, "body", &state);
                }
                state
            }
            "For" => {
                let (mut i, limit, delta) = (a[0][0], a[1][0], a[2][0]);
                let mut state = a[3..].to_vec();
                while (limit - i) * delta > 0.0 {
                    let args: Vec<Vec<f32>> = std::iter::once(vec![i]).chain(state).collect();
                    state = self.sub(model, n, "body", &args);
                    i += delta;
                }
                state
            }
            op => panic!("the interpreter does not know {op}"),
        }
    }
}
