//! The collective that a node requests, and its encoding in an HCCL task's private bytes.
use ge_plugin_api::types::{AttrMap, DType};
use ge_plugin_api::view::Node;

/// Kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every rank gets the reduction of all ranks' inputs.
    AllReduce,
    /// Every rank gets all ranks' inputs, in rank order.
    AllGather,
    /// Rank k gets part k of the reduction of all ranks' inputs.
    ReduceScatter,
    /// Every rank gets the root's inputs.
    Broadcast,
    /// Rank k gets part k of every rank's input, in rank order.
    AllToAll,
    /// The destination rank gets the source rank's input, all others get zeros: an HcomSend and its
    /// HcomReceive.
    Transfer,
}

const KINDS: [Kind; 6] =
    [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast, Kind::AllToAll, Kind::Transfer];
/// Names of the reductions; the position is the number in REDUCE_ASYNC.
const REDUCTIONS: [&str; 4] = ["sum", "max", "min", "prod"];
/// Largest group whose size no node states: the notifies for its barriers are planned before the
/// size is known.
pub const ANY_RANKS: u32 = 256;
/// First bytes of the private bytes, including their version.
const MAGIC: &[u8; 6] = b"GEHC\x02\x00";

/// The collective that a node requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Kind of the collective.
    pub kind: Kind,
    /// Reduction: 0 sum, 1 max, 2 min, 3 prod.
    pub reduction: u8,
    /// Element type of input 0.
    pub dtype: DType,
    /// Number of elements of input 0.
    pub count: u64,
    /// Number of ranks of the group; 0 if it is decided at run time, up to [`ANY_RANKS`].
    pub ranks: u32,
    /// Rank whose inputs a broadcast or a transfer sends.
    pub root: u32,
    /// Rank that receives the inputs of a transfer.
    pub dest: u32,
    /// Name of the group.
    pub group: String,
}

/// Whether the device can reduce elements of this type.
pub fn reduces(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::I8
            | DType::U8
            | DType::F16
            | DType::BF16
            | DType::I16
            | DType::U16
            | DType::F32
            | DType::I32
            | DType::U32
            | DType::F64
            | DType::I64
            | DType::U64
    )
}

impl Collective {
    /// The collective of a node, in a model for `ranks` ranks.
    ///
    /// # Errors
    /// Returns a message if an attribute is wrong, or input 0 is missing or of unknown shape.
    pub fn of_node(node: &Node<'_>, kind: Kind, ranks: u32) -> Result<Collective, String> {
        let attrs: AttrMap = node.attrs().into();
        let name = attrs.str("reduction").unwrap_or("sum");
        let reduction = REDUCTIONS.iter().position(|r| *r == name);
        let reduction =
            reduction.ok_or_else(|| format!("reduction is `{name}`, it takes {}", REDUCTIONS.join(", ")))?;
        let rank = |key: &str| {
            let n = attrs.int(key).unwrap_or(0);
            u32::try_from(n).map_err(|_| format!("{key} is {n}, ranks count from 0"))
        };
        let (root, dest) = match kind {
            Kind::Transfer => (rank("src_rank")?, rank("dest_rank")?),
            _ => (rank("root_rank")?, 0),
        };
        let x = node.input_desc(0).ok_or("input 0 is missing")?;
        let count = x.shape.count().ok_or_else(|| format!("shape {} of input 0 is not known", x.shape))?;
        let group = attrs.str("group").unwrap_or("hccl_world_group").to_owned();
        Ok(Collective { kind, reduction: reduction as u8, dtype: x.dtype, count, ranks, root, dest, group })
    }

    /// Why the collective cannot run in a group of `ranks` ranks; `None` if it can.
    pub fn misfit(&self, ranks: u32) -> Option<String> {
        let beyond = |key: &str, rank: u32| (rank >= ranks).then(|| format!("{key} is {rank}, the group has {ranks}"));
        match self.kind {
            _ if self.ranks == 0 && ranks > ANY_RANKS => {
                Some(format!("without rank_size a group has at most {ANY_RANKS} ranks, this one has {ranks}"))
            }
            Kind::Broadcast => beyond("root_rank", self.root),
            Kind::Transfer => beyond("src_rank", self.root).or_else(|| beyond("dest_rank", self.dest)),
            _ => None,
        }
    }

    /// Number of rounds of a barrier. After round `j` a rank has been signalled, directly or
    /// indirectly, by the `2^(j+1) - 1` ranks before it.
    pub fn rounds(&self) -> u32 {
        let ranks = if self.ranks == 0 { ANY_RANKS } else { self.ranks };
        ranks.next_power_of_two().trailing_zeros()
    }

    /// Number of barriers between the ranks: one before any rank reads another's memory, one
    /// between the two halves if there are any, and one after the last read.
    pub fn barriers(&self) -> u32 {
        if self.ranks == 1 || self.kind == Kind::Transfer {
            return 0;
        }
        if self.in_two_halves() { 3 } else { 2 }
    }

    /// Whether an all-reduce first reduces one part in each rank and then gathers the parts, which
    /// means less traffic for large tensors.
    pub fn in_two_halves(&self) -> bool {
        /// Number of elements from which the third barrier is worthwhile.
        const LARGE: u64 = 16 * 1024;
        self.kind == Kind::AllReduce && self.ranks != 1 && self.count >= LARGE
    }

    /// Number of notifies that the node needs: one for each round of each barrier; a transfer needs
    /// one in each direction.
    pub fn notifies(&self) -> u32 {
        if self.kind == Kind::Transfer { 2 } else { self.barriers() * self.rounds() }
    }

    /// Key of a notify. Nodes of one stream and one key share their notifies. A rank records a
    /// notify for the next node only after it has passed the last barrier of this node; by then
    /// every rank has reached that barrier and consumed all notifies of the earlier ones. The ranks
    /// of a transfer wait only for each other, so only transfers between the same two ranks share
    /// notifies.
    pub fn reuse_key(&self, notify: u32) -> String {
        match self.kind {
            Kind::Transfer => format!("hccl:{}:{}>{}:{notify}", self.group, self.root, self.dest),
            _ => format!("hccl:{}:{notify}", self.group),
        }
    }

    /// Encodes the collective as a task's private bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        b.push(KINDS.iter().position(|k| *k == self.kind).unwrap_or(0) as u8);
        b.push(self.reduction);
        b.push(self.dtype.code());
        b.extend_from_slice(&self.count.to_le_bytes());
        b.extend_from_slice(&self.ranks.to_le_bytes());
        b.extend_from_slice(&self.root.to_le_bytes());
        b.extend_from_slice(&self.dest.to_le_bytes());
        b.extend_from_slice(self.group.as_bytes());
        b
    }

    /// Decodes a task's private bytes; `None` if they are not an encoded collective.
    pub fn decode(bytes: &[u8]) -> Option<Collective> {
        let rest = bytes.strip_prefix(MAGIC.as_slice())?;
        let (&[kind, reduction, dtype], rest) = rest.split_first_chunk::<3>()?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let (ranks, rest) = rest.split_first_chunk::<4>()?;
        let (root, rest) = rest.split_first_chunk::<4>()?;
        let (dest, rest) = rest.split_first_chunk::<4>()?;
        let group = std::str::from_utf8(rest).ok()?.to_owned();
        let kind = *KINDS.get(kind as usize)?;
        (usize::from(reduction) < REDUCTIONS.len()).then_some(Collective {
            kind,
            reduction,
            dtype: DType(dtype),
            count: u64::from_le_bytes(*count),
            ranks: u32::from_le_bytes(*ranks),
            root: u32::from_le_bytes(*root),
            dest: u32::from_le_bytes(*dest),
            group,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_bytes_come_back_and_damage_is_seen() {
        let c = Collective {
            kind: Kind::ReduceScatter,
            reduction: 2,
            dtype: DType::F16,
            count: 1 << 40,
            ranks: 8,
            root: 3,
            dest: 5,
            group: "tp".into(),
        };
        let b = c.encode();
        assert_eq!(Collective::decode(&b).as_ref(), Some(&c));
        for n in 0..b.len() - 2 {
            assert_eq!(Collective::decode(&b[..n]), None, "cut to {n}");
        }
        let mut other = b.clone();
        other[6] = 9;
        assert_eq!(Collective::decode(&other), None);
    }
}
