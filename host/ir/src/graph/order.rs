//! The order of a graph: a topological order that keeps the old order where the edges allow it.
use super::{Graph, Node};
use ge_plugin_api::types::{Key, NodeId};

impl Graph {
    /// Recomputes the order in linear time, without recursion. Nodes keep their old order; a node
    /// that must come earlier is placed just before its first reader. Returns the nodes of a cycle,
    /// in order, as the error if there is one.
    pub(super) fn reorder(&mut self) -> Result<(), Vec<NodeId>> {
        const GONE: u8 = 0;
        const NEW: u8 = 1;
        const OPEN: u8 = 2;
        const DONE: u8 = 3;
        let mut state = vec![GONE; self.nodes.len()];
        let mut out: Vec<NodeId> = Vec::with_capacity(self.live);
        // Nodes in their old order first, then new nodes by id.
        let mut seeds: Vec<NodeId> = Vec::with_capacity(self.live);
        for id in self.order.iter().copied().chain((0..self.nodes.len() as u32).map(NodeId)) {
            if state[id.index()] == GONE && self.get(id).is_some() {
                state[id.index()] = NEW;
                seeds.push(id);
            }
        }
        // NetOutput always comes last, whatever the edges allow.
        let net_output = Key::new("NetOutput");
        let net = self.nodes.iter().flatten().rev().find(|n| n.op == net_output).map(|n| n.id);
        if let Some(net) = net {
            seeds.retain(|&s| s != net);
            seeds.push(net);
        }
        let mut stack: Vec<(NodeId, usize)> = Vec::new();
        for seed in seeds {
            if state[seed.index()] != NEW {
                continue;
            }
            state[seed.index()] = OPEN;
            stack.push((seed, 0));
            while let Some((id, next)) = stack.last().copied() {
                let Some(node) = self.get(id) else {
                    stack.pop();
                    continue;
                };
                match dependency(node, next) {
                    Some(dep) => {
                        if let Some(top) = stack.last_mut() {
                            top.1 += 1;
                        }
                        match state.get(dep.index()).copied().unwrap_or(GONE) {
                            NEW => {
                                state[dep.index()] = OPEN;
                                stack.push((dep, 0));
                            }
                            OPEN => {
                                let from = stack.iter().position(|(n, _)| *n == dep).unwrap_or(0);
                                return Err(stack[from..].iter().map(|(n, _)| *n).rev().collect());
                            }
                            _ => {}
                        }
                    }
                    None => {
                        state[id.index()] = DONE;
                        out.push(id);
                        stack.pop();
                    }
                }
            }
        }
        self.order = out;
        Ok(())
    }

    /// Renumbers the nodes in topological order; ids held elsewhere become invalid.
    pub fn compact(&mut self) {
        if self.order.iter().enumerate().all(|(i, id)| id.index() == i) && self.order.len() == self.nodes.len() {
            return;
        }
        let mut to = vec![NodeId::NONE; self.nodes.len()];
        for (i, id) in self.order.iter().enumerate() {
            to[id.index()] = NodeId(i as u32);
        }
        let mut nodes: Vec<Option<Node>> = Vec::with_capacity(self.order.len());
        for id in &self.order {
            let Some(mut n) = self.nodes[id.index()].take() else { continue };
            n.id = to[id.index()];
            for v in &mut n.inputs {
                if !v.is_absent() {
                    v.node = to[v.node.index()];
                }
            }
            if let Some(e) = &mut n.control {
                for c in e.sources.iter_mut().chain(e.users.iter_mut()) {
                    *c = to[c.index()];
                }
            }
            for u in n.uses.iter_mut().flatten() {
                u.node = to[u.node.index()];
            }
            nodes.push(Some(n));
        }
        self.order = (0..nodes.len() as u32).map(NodeId).collect();
        self.nodes = nodes;
    }

    /// Replaces the order by another topological order, for example one that a stream planner has
    /// chosen; ids do not change. Returns false and changes nothing if `order` is not a topological
    /// order of all nodes.
    pub fn set_order(&mut self, order: &[NodeId]) -> bool {
        if order.len() != self.live {
            return false;
        }
        let mut at = vec![usize::MAX; self.nodes.len()];
        for (i, id) in order.iter().enumerate() {
            match at.get_mut(id.index()) {
                Some(a) if *a == usize::MAX && self.get(*id).is_some() => *a = i,
                _ => return false,
            }
        }
        for (i, id) in order.iter().enumerate() {
            let Some(n) = self.get(*id) else { return false };
            let early = |d: NodeId| at[d.index()] < i;
            if !n.inputs.iter().all(|v| v.is_absent() || early(v.node)) || !n.controls().iter().all(|c| early(*c)) {
                return false;
            }
        }
        self.order = order.to_vec();
        true
    }
}

fn dependency(node: &Node, k: usize) -> Option<NodeId> {
    match node.inputs.get(k) {
        Some(v) => Some(v.node),
        None => node.controls().get(k - node.inputs.len()).copied(),
    }
}
