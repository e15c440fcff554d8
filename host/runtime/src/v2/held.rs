//! Growing states in a plan: new rows are written after the existing ones, and readers work piece
//! by piece because there is spare room between the pieces.
use super::graph::Node;
use super::growth::{Growing, Reader, by_heads, turn};
use super::pieces::{Cut, Operand, sized};
use ge_plugin_api::types::{AttrMap, ConstTensor, TensorDesc};

/// Value, descriptor and known contents of each input of a node.
pub(crate) type Given = [Option<(u32, TensorDesc, Option<ConstTensor>)>];

/// A state of a run, as plans see it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Its role in the graph.
    pub(crate) of: Growing,
    /// Number of pieces, capacity in rows, and elements per row.
    pub(crate) room: [u64; 3],
    /// Number of rows in use.
    pub(crate) rows: u64,
    /// Bytes per row.
    pub(crate) row_bytes: u64,
}

impl Held {
    fn step(&self) -> Option<u64> {
        self.room[1].checked_mul(self.row_bytes)
    }

    /// The concatenation as a node on one piece, which writes the new rows after the existing ones.
    /// `given` are its inputs, `out` is its output.
    pub(crate) fn extend<'c>(&self, n: &'c Node, given: &Given, out: &TensorDesc) -> Option<Cut<'c>> {
        let ones = vec![1u64; self.of.axis];
        let mut inputs = Vec::with_capacity(given.len());
        for (value, d, _) in given.iter().skip(1).map(|g| g.as_ref()).collect::<Option<Vec<_>>>()? {
            let dims = d.shape.sizes()?;
            let desc = sized(d, &[&ones[..], &dims[self.of.axis..]].concat());
            let step = desc.data_bytes()?;
            inputs.push(Operand { value: *value, desc, known: None, offset: 0, step });
        }
        let dims = out.shape.sizes()?;
        let rows = dims.get(self.of.axis)?.checked_sub(self.rows)?;
        let desc = sized(out, &[&ones[..], &[rows], &dims[self.of.axis + 1..]].concat());
        let mut attrs = n.attrs.clone();
        attrs.set("N", inputs.len() as i64);
        let output = (desc, self.rows.checked_mul(self.row_bytes)?, self.step()?);
        Some(Cut { name: &n.name, op: n.op, flags: n.flags, attrs, turned: 0, pieces: self.room[0], inputs, output })
    }

    /// One piece of the state as an operand. `whole` describes the whole state as its reader sees
    /// it.
    fn operand(&self, r: &Reader, whole: &TensorDesc) -> Option<Operand> {
        let dims = whole.shape.sizes()?;
        let (a, b) = (*dims.get(self.of.axis)?, *dims.get(self.of.axis + 1)?);
        let tail = if r.through.is_some() { [b, a] } else { [a, b] };
        let desc = sized(whole, &[&vec![1u64; self.of.axis][..], &tail[..]].concat());
        Some(Operand { value: self.of.value, desc, known: None, offset: 0, step: self.step()? })
    }
}

/// A product or an attention as a node on one piece of each operand. `states` are the states that
/// it reads.
pub(crate) fn reading<'c>(states: &[(Held, Reader)], n: &'c Node, given: &Given, out: &TensorDesc) -> Option<Cut<'c>> {
    let (first, at) = states.first().map(|(h, r)| (h, r.at))?;
    let dims = given.get(at)?.as_ref()?.1.shape.sizes()?;
    let lead = dims.get(..first.of.axis)?;
    let alike = |(h, _): &(Held, Reader)| h.of.axis == first.of.axis && h.room[0] == first.room[0];
    if !states.iter().all(alike) {
        return None;
    }
    // In an attention, several query heads may share one key head.
    let group = if by_heads(n) { group(given.first()?.as_ref().map(|g| &g.1)?, lead)? } else { 1 };
    let present = given.iter().rposition(Option::is_some)? + 1;
    let mut inputs = Vec::with_capacity(present);
    for (k, g) in given[..present].iter().enumerate() {
        let (value, d, known) = g.as_ref()?;
        let operand = match states.iter().find(|(_, r)| r.at == k) {
            Some((h, r)) => h.operand(r, d)?,
            None => match share(d, lead, group) {
                Some((desc, step)) => Operand { value: *value, desc, known: None, offset: 0, step },
                None => {
                    Operand { value: *value, desc: shared(n, d, dims.len())?, known: known.clone(), offset: 0, step: 0 }
                }
            },
        };
        inputs.push(operand);
    }
    let (desc, step) = share(out, lead, group)?;
    let attrs = attrs_of_piece(n, states, group)?;
    let output = (desc, 0, step);
    let turned = states.iter().filter(|(_, r)| r.through.is_some()).fold(0, |all, (_, r)| all | 1 << r.at);
    Some(Cut { name: &n.name, op: n.op, flags: n.flags, attrs, turned, pieces: first.room[0], inputs, output })
}

/// Number of query heads for each piece.
fn group(query: &TensorDesc, lead: &[u64]) -> Option<u64> {
    let heads = *query.shape.sizes()?.get(lead.len().checked_sub(1)?)?;
    let own = *lead.last()?;
    (own > 0 && heads > 0 && heads.is_multiple_of(own)).then(|| heads / own)
}

/// One piece of a tensor that has one piece for each piece of a state, with `group` rows on the
/// last leading axis; and the distance between the pieces in bytes.
fn share(d: &TensorDesc, lead: &[u64], group: u64) -> Option<(TensorDesc, u64)> {
    let dims = d.shape.sizes()?;
    let mut own = lead.to_vec();
    if let Some(last) = own.last_mut() {
        *last = last.checked_mul(group)?;
    }
    if dims.len() != lead.len() + 2 || dims[..lead.len()] != own[..] {
        return None;
    }
    let mut piece = vec![1u64; lead.len()];
    if let Some(last) = piece.last_mut() {
        *last = group;
    }
    piece.extend_from_slice(&dims[lead.len()..]);
    let desc = sized(d, &piece);
    let step = desc.data_bytes()?;
    Some((desc, step))
}

/// A tensor that every piece reads as a whole. `rank` is the rank of the state.
fn shared(n: &Node, d: &TensorDesc, rank: usize) -> Option<TensorDesc> {
    let dims = d.shape.sizes()?;
    // The mask that an attention adds to its scores may have fewer axes.
    let fits = dims.len() == rank || (by_heads(n) && dims.len() < rank);
    let lead = dims.len().saturating_sub(2);
    (fits && dims[..lead].iter().all(|d| *d == 1)).then(|| sized(d, &dims))
}

fn attrs_of_piece(n: &Node, states: &[(Held, Reader)], group: u64) -> Option<AttrMap> {
    let mut attrs = n.attrs.clone();
    for (_, r) in states.iter().filter(|(_, r)| r.through.is_some()) {
        let key = turn(n, r.at)?;
        attrs.set(key, !n.attrs.flag(key));
    }
    if by_heads(n) {
        attrs.set("num_heads", i64::try_from(group).ok()?);
        attrs.set("num_key_value_heads", 1i64);
    }
    Some(attrs)
}
