//! Groups of ranks: models that communicate with each other are loaded together, after their
//! collectives have been compared (VerifyCommNodesOrder: 003 §4.2, facts 3.7). Ranks that run their
//! collectives in different orders would wait for each other forever.
use super::{Model, Session, fits_group};
use crate::{Diagnostic, Result};
use ge_model::CompiledModel;
use ge_plugin_api::engine::flags;
use ge_runtime::LoadOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// One collective operation of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Collective {
    node: String,
    op: String,
    data: String,
}

impl Session {
    /// Loads one model per rank, in rank order, as a separate group.
    ///
    /// # Errors
    /// `usage` if a model was made for another number of ranks, or if ranks run their collectives
    /// in different orders.
    pub fn load_group(&self, models: Vec<CompiledModel>) -> Result<Vec<Model>> {
        static GROUPS: AtomicU64 = AtomicU64::new(1);
        let ranks = u32::try_from(models.len()).unwrap_or(u32::MAX);
        models.iter().try_for_each(|m| fits_group(m, ranks))?;
        self.verify_comm_nodes_order(&models)?;
        let Some(first) = models.first() else { return Ok(Vec::new()) };
        let context = self.open_device(&first.soc.clone())?;
        let group = u64::from(std::process::id()) << 32 | GROUPS.fetch_add(1, Ordering::Relaxed);
        let load = |(rank, m): (u32, CompiledModel)| {
            let options = LoadOptions { rank, rank_size: ranks, group, ..LoadOptions::default() };
            self.load_on(m, context.clone(), &options)
        };
        (0..).zip(models).map(load).collect()
    }

    /// Compares the collectives of the ranks: within each group, all ranks must run the same ones
    /// in the same order.
    ///
    /// # Errors
    /// `usage` if two ranks differ; the error shows the first difference, with the node of each
    /// rank.
    pub fn verify_comm_nodes_order(&self, models: &[CompiledModel]) -> Result<()> {
        let Some((first, others)) = models.split_first() else { return Ok(()) };
        let one = self.collectives(first);
        for (rank, m) in (1..).zip(others) {
            let other = self.collectives(m);
            let groups: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for g in groups {
                let (a, b) = (one.get(g).map_or(&[][..], |v| v), other.get(g).map_or(&[][..], |v| v));
                let same = |(x, y): &(&Collective, &Collective)| (&x.op, &x.data) == (&y.op, &y.data);
                let at = a.iter().zip(b).take_while(same).count();
                if at < a.len().max(b.len()) {
                    return Err(differ(g, rank, at, a.get(at), b.get(at)));
                }
            }
        }
        Ok(())
    }

    /// Collectives by group, in the order of their tasks. Operations with a single partner
    /// (`dest_rank`, `src_rank`) are not collectives.
    fn collectives(&self, m: &CompiledModel) -> BTreeMap<String, Vec<Collective>> {
        let between = |e: &str| self.registry().engine(e).is_some_and(|e| e.has(flags::INDEPENDENT));
        let mut out: BTreeMap<String, Vec<Collective>> = BTreeMap::new();
        let mut seen: BTreeSet<(u32, u32)> = BTreeSet::new();
        for t in &m.tasks {
            let Some(n) = m.node(t.graph, t.node).filter(|n| between(&n.engine)) else { continue };
            let partner = n.attrs.get("dest_rank").is_some() || n.attrs.get("src_rank").is_some();
            if partner || !seen.insert((t.graph, t.node)) {
                continue;
            }
            let nodes = m.graphs.get(t.graph as usize).map_or(&[][..], |g| &g.nodes[..]);
            let given =
                n.inputs.iter().flatten().filter_map(|v| nodes.get(v.node as usize)?.outputs.get(v.output as usize));
            let data: Vec<String> = given.map(|d| format!("{}{}", d.dtype, d.shape)).collect();
            let group = n.attrs.str("group").unwrap_or("hccl_world_group").to_owned();
            let one = Collective { node: n.name.clone(), op: n.op.clone(), data: data.join(", ") };
            out.entry(group).or_default().push(one);
        }
        out
    }
}

fn differ(group: &str, rank: u32, at: usize, a: Option<&Collective>, b: Option<&Collective>) -> crate::Error {
    let said = |c: Option<&Collective>| {
        c.map_or_else(|| "no more".to_owned(), |c| format!("`{}` ({} of {})", c.node, c.op, c.data))
    };
    Diagnostic::error(format!("rank 0 and rank {rank} do their collectives of `{group}` in different orders"))
        .subject(format!("collective {} of `{group}`", at + 1))
        .found(format!("{} on rank {rank}", said(b)), format!("{}, as rank 0 does", said(a)))
        .help("give all ranks one model, or models whose collectives have one order: they would wait for each other for ever")
        .raise(ge_codes::COLLECTIVE_ORDER)
}
