//! `AssignByDependencyPass`: a subgraph without a stream takes the stream of a predecessor if the
//! reuse rule allows it, and otherwise a stream of its engine. Source: 004 §4.1.1, facts 1.5;
//! DESIGN 9 settles ties and the sibling rule.
//!
//! The reuse rule takes the first of these conditions that holds:
//! 1. another scheduler: no;
//! 2. an independent engine's or a labelled stream: no;
//! 3. the first visit of a subgraph with `_force_attach_stream`: yes;
//! 4. another successor of the predecessor has the predecessor's engine, unless the memory policy
//!    is MemoryPriority or the assignment skips the subgraph's engine: no;
//! 5. the same engine, or an engine that attaches: yes;
//! 6. the predecessor itself follows a stream of this engine: yes;
//! 7. otherwise: no.
use super::LogicalStreamPass;
use super::context::{Context, NONE};
use crate::error::OptionFault;
use crate::error::Result;
use crate::options::{MemoryPolicy, Options};
use crate::toolbox::{EngineId, Toolbox};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// See the module documentation.
pub struct AssignByDependencyPass;

/// The stream that the pass chooses for a subgraph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Not chosen yet.
    Open,
    /// The subgraph had a stream before this pass.
    Given,
    /// The k-th stream of its engine.
    Own(u32),
    /// The stream of another subgraph.
    Reuses(u32),
}

impl LogicalStreamPass for AssignByDependencyPass {
    const NAME: &'static str = "AssignByDependencyPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let n = cx.subs.len();
        let mut claim: Vec<Claim> =
            cx.subs.iter().map(|s| if s.stream == NONE { Claim::Open } else { Claim::Given }).collect();
        // Root of each subgraph's chain of reuse.
        let mut root: Vec<Option<u32>> = vec![None; n];
        let mut counters: HashMap<EngineId, (u32, u32)> = HashMap::new();
        let mut seen = vec![false; n];
        let limits = &cx.options.stream_max_parallel_num;
        let mut own = |cx: &Context<'_>, i: usize| {
            let e = cx.subs[i].engine;
            let limit = limits.get(cx.toolbox.engine(e).info.name.as_str()).copied().unwrap_or(1);
            let (next, count) = counters.entry(e).or_default();
            let k = if *next >= limit { 0 } else { *next };
            *next = k + 1;
            *count = (*count).max(k + 1);
            Claim::Own(k)
        };
        for i in 0..n {
            if claim[i] != Claim::Open {
                continue;
            }
            let mut best: Option<(u32, u32)> = None;
            for &p in &cx.subs[i].preds {
                if could_reuse(cx, &root, &mut seen, i, p as usize) {
                    let cost = cx.toolbox.engine(cx.subs[p as usize].engine).info.cost;
                    if best.is_none_or(|b| (cost, p) < b) {
                        best = Some((cost, p));
                    }
                }
            }
            seen[i] = true;
            match best {
                None => claim[i] = own(cx, i),
                Some((_, p)) => {
                    if claim[p as usize] == Claim::Open {
                        claim[p as usize] = own(cx, p as usize);
                    }
                    claim[i] = Claim::Reuses(p);
                    root[i] = Some(root[p as usize].unwrap_or(p));
                }
            }
        }
        // Engines get ranges of ids in the order of their names. In a subgraph, the first new
        // stream is its parent's.
        let mut names: BTreeMap<String, (EngineId, u32)> = BTreeMap::new();
        for (e, (_, count)) in counters.iter().map(|(e, c)| (*e, *c)).collect::<BTreeMap<_, _>>() {
            names.insert(cx.toolbox.engine(e).info.name.to_string(), (e, count));
        }
        let mut base: HashMap<EngineId, u32> = HashMap::new();
        let first = cx.next;
        for (e, count) in names.into_values() {
            base.insert(e, cx.next);
            cx.next += count;
        }
        for (sub, c) in cx.subs.iter_mut().zip(&claim) {
            if let Claim::Own(k) = c {
                let id = base.get(&sub.engine).copied().unwrap_or(first) + k;
                sub.stream = if id == first && cx.default != NONE { cx.default } else { id };
            }
        }
        for i in 0..n {
            // The list is not topological: a chain may lead to a later subgraph.
            let mut at = i;
            for _ in 0..=n {
                match claim[at] {
                    Claim::Reuses(p) => at = p as usize,
                    _ => break,
                }
            }
            cx.subs[i].stream = cx.subs[at].stream;
        }
        Ok(())
    }
}

/// Checks that `ge.streamMaxParallelNum` names only engines that exist.
///
/// # Errors
/// Fails if it names an engine that no loaded plugin has.
pub fn check(options: &Options, toolbox: &Toolbox) -> Result<()> {
    let known: BTreeSet<&str> = toolbox.engines.iter().map(|e| e.info.name.as_str()).collect();
    let mut asked = options.stream_max_parallel_num.keys();
    match asked.find(|e| !known.contains(e.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(OptionFault::Model {
            option: "ge.streamMaxParallelNum",
            value: unknown.clone(),
            what: "names an engine that no loaded plugin has".into(),
            help: format!("engines are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        }
        .into()),
    }
}

fn could_reuse(cx: &Context<'_>, root: &[Option<u32>], seen: &mut [bool], i: usize, p: usize) -> bool {
    let (sub, pred) = (&cx.subs[i], &cx.subs[p]);
    let (mine, its) = (&cx.toolbox.engine(sub.engine).info, &cx.toolbox.engine(pred.engine).info);
    if mine.scheduler_id != its.scheduler_id || cx.independent(pred.engine) || !pred.label.is_empty() {
        return false;
    }
    if !seen[i] {
        let forced = |id: &ge_ir::NodeId| cx.graph.get(*id).is_some_and(|n| n.attrs().flag("_force_attach_stream"));
        if sub.nodes.iter().any(forced) {
            seen[i] = true;
            return true;
        }
    }
    let memory_first = cx.options.memory_policy == MemoryPolicy::MemoryPriority;
    if !memory_first
        && !cx.skipped(sub.engine)
        && pred.succs.iter().any(|&s| s as usize != i && cx.subs[s as usize].engine == pred.engine)
    {
        return false;
    }
    if sub.engine == pred.engine || cx.has(sub.engine, ge_plugin_api::engine::flags::ATTACH) {
        return true;
    }
    root[p].is_some_and(|r| cx.subs[r as usize].engine == sub.engine)
}
