//! The state that the rest of a path depends on.
use super::walk::{Moment, Walk};
use std::hash::{DefaultHasher, Hash, Hasher};

impl<'m> Walk<'m> {
    /// Streams whose knowledge counts. A sleeping stream learns what its waker knows; the waker
    /// knows everything that the stream did, hence also everything that it knew.
    fn awake(&self) -> impl Iterator<Item = usize> + use<'_, 'm> {
        let awake = &self.awake;
        (0..awake.len()).filter(|q| awake[*q])
    }
    /// Forgets what every stream knows to be over: nothing that follows can come too early for it.
    pub(super) fn forget(&mut self) {
        let (clocks, awake) = (&self.clocks, self.awake().collect::<Vec<_>>());
        let open = |m: &Moment| awake.iter().any(|q| m.0 != *q && clocks[*q][m.0] < m.1);
        for last in &mut self.last {
            *last = last.filter(open);
        }
        self.served.retain(|_, (_, m)| open(m));
        self.touched.retain(|_, t| {
            t.read.retain(|(_, m)| open(m));
            t.wrote = t.wrote.filter(|(_, m)| open(m));
            t.wrote.is_some() || !t.read.is_empty()
        });
    }
    /// A hash of everything that the rest of a walk depends on: the positions of the streams, and
    /// for everything that was done, which streams know that it is over. Two walks with equal
    /// hashes continue alike, so a loop iteration that ends as it began covers all later ones.
    pub(super) fn state(&self) -> u64 {
        let mut h = DefaultHasher::new();
        let awake: Vec<usize> = self.awake().collect();
        awake.iter().for_each(|q| (q, self.at[*q]).hash(&mut h));
        let mut events: Vec<(&(bool, u32), &Vec<u32>)> = self.recorded.iter().collect();
        events.sort_unstable_by_key(|(k, _)| **k);
        events.iter().for_each(|(k, _)| k.hash(&mut h));
        let mut known = |what: (u8, u64, u64), m: Moment| {
            (what, m.0).hash(&mut h);
            awake.iter().for_each(|q| (m.0 == *q || self.clocks[*q][m.0] >= m.1).hash(&mut h));
            events.iter().for_each(|(_, c)| (c[m.0] >= m.1).hash(&mut h));
        };
        for (s, n) in self.done.iter().enumerate() {
            known((0, 0, 0), (s, *n));
        }
        for (n, m) in self.last.iter().enumerate().filter_map(|(n, m)| Some((n, (*m)?))) {
            known((1, n as u64, 0), m);
        }
        let mut served: Vec<_> = self.served.iter().collect();
        served.sort_unstable_by_key(|(k, _)| **k);
        for ((notify, id), (_, m)) in served {
            known((2, u64::from(*notify), u64::from(*id)), *m);
        }
        let mut touched: Vec<_> = self.touched.iter().collect();
        touched.sort_unstable_by_key(|(k, _)| **k);
        for ((memory, offset), t) in touched {
            let place = u64::from(*memory) << 56 | *offset;
            t.wrote.iter().for_each(|(_, m)| known((3, place, 0), *m));
            let mut read: Vec<Moment> = t.read.iter().map(|(_, m)| *m).collect();
            read.sort_unstable();
            read.into_iter().for_each(|m| known((4, place, 0), m));
        }
        let mut beside: Vec<_> = self.beside.iter().collect();
        beside.sort_unstable_by_key(|(k, _)| **k);
        for ((node, stream), (ended, m)) in beside {
            // How many runs the attached work is ahead of the node's own work.
            let ahead = i64::from(*ended) - i64::from(self.begun.get(node).copied().unwrap_or(0));
            known((5, u64::from(*node) << 32 | *stream as u64, ahead as u64), *m);
        }
        h.finish()
    }
}
