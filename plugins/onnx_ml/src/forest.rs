//! Evaluation of trees for many rows: each tree is converted to a form that needs no checks and
//! processes several rows at a time, so that no row waits for the comparisons of another.
use crate::trees::{NODE, Tables};

/// A comparison, or a leaf, which leads to itself.
#[derive(Clone, Copy)]
struct Step {
    split: f64,
    feature: u32,
    /// Whether NaN counts as satisfying the comparison.
    missing: bool,
    /// Next step if the comparison holds, and if it does not.
    next: [u32; 2],
}

/// Number of rows that are processed together.
const LANES: usize = 8;

/// One tree, all of whose nodes use the same comparison.
#[derive(Default)]
pub struct Tree {
    steps: Vec<Step>,
    /// For each step that is a leaf, its index in the table.
    leaves: Vec<u32>,
    mode: i32,
    /// Nodes still to be placed: index in the table, and the step and branch that lead to it.
    open: Vec<(i32, Option<(u32, usize)>)>,
    /// For each node of the table, the last tree in which it was seen.
    seen: Vec<u32>,
}

impl Tree {
    /// Loads tree `number` of the tables, for rows of `width` features. Returns false if this form
    /// cannot represent its nodes or if they lead nowhere; such trees are evaluated node by node.
    pub fn read(&mut self, tables: &Tables<'_>, number: usize, width: usize) -> bool {
        self.steps.clear();
        self.leaves.clear();
        self.open.clear();
        self.seen.resize(tables.splits.len(), 0);
        let stamp = number as u32 + 1;
        self.mode = -1;
        self.open.push((tables.roots[number], None));
        while let Some((at, from)) = self.open.pop() {
            let here = self.steps.len() as u32;
            if let Some((from, way)) = from {
                self.steps[from as usize].next[way] = here;
            }
            let Ok(i) = usize::try_from(at) else {
                let leaf = (-1 - i64::from(at)) as u32;
                self.steps.push(Step { split: 0.0, feature: 0, missing: false, next: [here; 2] });
                self.leaves.push(leaf);
                continue;
            };
            let (Some(node), Some(split)) = (tables.nodes.get(i * NODE..(i + 1) * NODE), tables.splits.get(i)) else {
                return false;
            };
            let again = std::mem::replace(&mut self.seen[i], stamp) == stamp;
            let other_way = self.mode >= 0 && node[1] != self.mode;
            let feature = usize::try_from(node[0]).ok().filter(|f| *f < width);
            let Some(feature) = feature.filter(|_| !again && !other_way && (0..=3).contains(&node[1])) else {
                return false;
            };
            self.mode = node[1];
            self.steps.push(Step { split: *split, feature: feature as u32, missing: node[2] != 0, next: [0; 2] });
            self.leaves.push(0);
            self.open.extend([(node[4], Some((here, 1))), (node[3], Some((here, 0)))]);
        }
        width > 0
    }

    /// Calls `f(row, leaf)` for each row of `width` features.
    pub fn each(&self, rows: &[f64], width: usize, f: impl FnMut(usize, u32)) {
        match self.mode {
            1 => self.walk(rows, width, |x, split| x < split, f),
            2 => self.walk(rows, width, |x, split| x >= split, f),
            3 => self.walk(rows, width, |x, split| x > split, f),
            _ => self.walk(rows, width, |x, split| x <= split, f),
        }
    }

    fn walk(&self, rows: &[f64], width: usize, holds: impl Fn(f64, f64) -> bool, mut f: impl FnMut(usize, u32)) {
        for (block, rows) in rows.chunks(width * LANES).enumerate() {
            let mut at = [0u32; LANES];
            let lanes = rows.len() / width;
            loop {
                let before = at;
                for (at, row) in at.iter_mut().zip(rows.chunks_exact(width)) {
                    let step = &self.steps[*at as usize];
                    let x = row[step.feature as usize];
                    let goes = holds(x, step.split) | (step.missing & x.is_nan());
                    *at = step.next[usize::from(!goes)];
                }
                if at == before {
                    break;
                }
            }
            at[..lanes].iter().enumerate().for_each(|(l, at)| f(block * LANES + l, self.leaves[*at as usize]));
        }
    }
}
