//! Sharing of weights between models of one file: weights that both have are stored once.
use crate::{CompiledModel, SlotInfo};
use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Alignment, in bytes, of weights that are added.
const ALIGN: u64 = 512;

impl CompiledModel {
    /// Lets the parts share this model's weights, so that the file stores equal weights once.
    pub fn share_with_parts(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.iter_mut().filter(|p| !p.shares_weights).for_each(|p| self.share_weights(p));
        // Earlier parts also get the weights that later ones have added.
        for p in &mut parts {
            p.weights.clone_from(&self.weights);
            p.memory.weights = self.memory.weights;
        }
        self.parts = parts;
    }

    /// Appends those weights of another model that this one does not have. Afterwards both have the
    /// same weights, and the other model is marked as sharing them.
    fn share_weights(&mut self, other: &mut CompiledModel) {
        let hasher = RandomState::new();
        let key = |b: &Bytes| (hasher.hash_one(b), b.len());
        let mut known: HashMap<(u64, usize), Vec<(u64, Bytes)>> = HashMap::new();
        for (at, b) in &self.weights {
            known.entry(key(b)).or_default().push((*at, b.clone()));
        }
        let end = self.weights.last().map_or(0, |(at, b)| at + b.len() as u64);
        let mut end = end.max(self.memory.weights);
        // Start of each stretch of the other model's weights: its old offset and its offset here.
        let mut moved: Vec<(u64, u64)> = Vec::with_capacity(other.weights.len());
        for (from, b) in &other.weights {
            let same = known.entry(key(b)).or_default();
            let to = same.iter().find(|(_, s)| s == b).map(|(at, _)| *at).unwrap_or_else(|| {
                let at = end.next_multiple_of(ALIGN);
                end = at + b.len() as u64;
                same.push((at, b.clone()));
                self.weights.push((at, b.clone()));
                at
            });
            moved.push((*from, to));
        }
        let place = |s: &mut SlotInfo| {
            if s.space != SlotInfo::WEIGHTS {
                return;
            }
            let before = moved.partition_point(|(from, _)| *from <= s.offset);
            if let Some((from, to)) = before.checked_sub(1).and_then(|k| moved.get(k)) {
                s.offset = to + (s.offset - from);
            }
        };
        for n in other.graphs.iter_mut().flat_map(|g| &mut g.nodes) {
            n.slots.iter_mut().chain(&mut n.workspaces).for_each(place);
        }
        other.inputs.iter_mut().chain(&mut other.outputs).for_each(|io| place(&mut io.slot));
        self.memory.weights = end.max(self.memory.weights);
        other.memory.weights = self.memory.weights;
        other.weights.clone_from(&self.weights);
        other.shares_weights = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphInfo, NodeInfo};

    fn model(weights: &[(u64, &[u8])]) -> CompiledModel {
        let mut m = CompiledModel::default();
        let node = |(at, b): &(u64, &[u8])| NodeInfo {
            slots: vec![SlotInfo {
                space: SlotInfo::WEIGHTS,
                offset: *at,
                size: b.len() as u64,
                ..SlotInfo::default()
            }],
            ..NodeInfo::default()
        };
        m.graphs.push(GraphInfo { nodes: weights.iter().map(node).collect(), ..GraphInfo::default() });
        m.weights = weights.iter().map(|(at, b)| (*at, Bytes::copy_from_slice(b))).collect();
        m.memory.weights = weights.last().map_or(0, |(at, b)| at + b.len() as u64);
        m
    }

    #[test]
    fn equal_weights_stand_once_and_every_node_reads_its_own() {
        let (own, others): (&[(u64, &[u8])], &[(u64, &[u8])]) =
            (&[(0, b"abc"), (512, b"defg")], &[(0, b"defg"), (512, b"new"), (1024, b"abd"), (1536, b"abc")]);
        let (mut a, mut b) = (model(own), model(others));
        a.share_weights(&mut b);
        assert_eq!((&a.weights, a.memory.weights), (&b.weights, b.memory.weights));
        assert_eq!(a.weights.len(), 4);
        reads(&a, own);
        reads(&b, others);
        assert!(b.shares_weights && !a.shares_weights);
    }

    /// Checks that the nodes of a model read these weights.
    fn reads(m: &CompiledModel, list: &[(u64, &[u8])]) {
        let whole = |s: &SlotInfo| {
            let (at, b) = m.weights.iter().find(|(at, b)| (*at..at + b.len() as u64).contains(&s.offset)).unwrap();
            b.slice((s.offset - at) as usize..).slice(..s.size as usize)
        };
        let found: Vec<Bytes> = m.graphs[0].nodes.iter().map(|n| whole(&n.slots[0])).collect();
        assert_eq!(found, list.iter().map(|(_, b)| Bytes::copy_from_slice(b)).collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_the_model_of_other_sizes_read_their_own_weights_beside_gears() {
        let own: [&[(u64, &[u8])]; 3] =
            [&[(0, b"abc"), (512, b"de")], &[(0, b"fg"), (512, b"h")], &[(0, b"h"), (512, b"abc"), (1024, b"i")]];
        let [mut whole, mut outside, part] = own.map(model);
        outside.parts.push(part);
        outside.share_with_parts();
        whole.set_outside(outside);
        for (m, own) in [&whole, &whole.parts[0], &whole.parts[1]].into_iter().zip(own) {
            reads(m, own);
            assert_eq!(m.weights, whole.weights);
        }
        assert!(whole.parts.iter().all(|p| p.shares_weights));
    }
}
