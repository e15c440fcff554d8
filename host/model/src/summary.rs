//! The stream allocation summary (004 §3.1): describes the streams of a compiled model to users.
use crate::CompiledModel;

/// The streams of a compiled model, as document 004 lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamAllocationSummary {
    logical: Vec<LogicalStreamAllocationInfo>,
    assigned_by_stream_pass: bool,
}

/// One logical stream of the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogicalStreamAllocationInfo {
    id: u32,
    user_label: String,
    attached_to: Vec<u32>,
    is_attached: bool,
    physical: Vec<u32>,
    hccl_followed: u32,
    nodes: Vec<String>,
}

impl StreamAllocationSummary {
    /// Builds the summary of a compiled model.
    pub fn of(m: &CompiledModel) -> StreamAllocationSummary {
        let mut logical: Vec<LogicalStreamAllocationInfo> = (0u32..)
            .zip(&m.streams.logical)
            .map(|(id, l)| LogicalStreamAllocationInfo {
                id,
                user_label: l.user_label.clone(),
                is_attached: l.attached,
                hccl_followed: l.hccl_followed,
                ..LogicalStreamAllocationInfo::default()
            })
            .collect();
        let of_physical = |p: u32| m.streams.physical.get(p as usize).map(|p| p.logical);
        for (p, s) in (0u32..).zip(&m.streams.physical) {
            if let Some(l) = logical.get_mut(s.logical as usize) {
                l.physical.push(p);
            }
        }
        for n in m.graphs.iter().flat_map(|g| &g.nodes) {
            let mut attached: Vec<u32> = n.attached_streams.iter().filter_map(|p| of_physical(*p)).collect();
            attached.sort_unstable();
            attached.dedup();
            if let Some(l) = n.logical_stream.and_then(|l| logical.get_mut(l as usize)) {
                l.nodes.push(n.name.clone());
                l.attached_to.extend(&attached);
            }
            for a in attached {
                if let Some(l) = logical.get_mut(a as usize) {
                    l.nodes.push(n.name.clone());
                }
            }
        }
        for l in &mut logical {
            l.attached_to.sort_unstable();
            l.attached_to.dedup();
        }
        StreamAllocationSummary { logical, assigned_by_stream_pass: m.streams.assigned_by_stream_pass }
    }
    /// All logical streams by id: main streams first, then attached ones.
    pub fn all_logical_stream_infos(&self) -> &[LogicalStreamAllocationInfo] {
        &self.logical
    }
    /// Labels that users gave to streams, in stream order.
    pub fn usr_stream_labels(&self) -> Vec<&str> {
        self.logical.iter().map(|l| l.user_label.as_str()).filter(|l| !l.is_empty()).collect()
    }
    /// Number of physical streams.
    pub fn physical_stream_nums(&self) -> usize {
        self.logical.iter().map(LogicalStreamAllocationInfo::physical_stream_num).sum()
    }
    /// Ids of the attached streams.
    pub fn attached_stream_ids(&self) -> Vec<u32> {
        self.logical.iter().filter(|l| l.is_attached).map(|l| l.id).collect()
    }
    /// Number of streams that follow others for their collectives.
    pub fn hccl_followed_stream_nums(&self) -> usize {
        self.logical.iter().map(|l| l.hccl_followed as usize).sum()
    }
    /// Whether a custom stream pass moved a node.
    pub fn is_assigned_by_stream_pass(&self) -> bool {
        self.assigned_by_stream_pass
    }
}

impl LogicalStreamAllocationInfo {
    /// Id of the logical stream.
    pub fn logical_stream_id(&self) -> u32 {
        self.id
    }
    /// The user's label; empty if there is none.
    pub fn usr_stream_label(&self) -> &str {
        &self.user_label
    }
    /// Ids of the attached streams of its nodes.
    pub fn attached_stream_ids(&self) -> &[u32] {
        &self.attached_to
    }
    /// Number of its physical streams.
    pub fn physical_stream_num(&self) -> usize {
        self.physical.len()
    }
    /// Ids of its physical streams.
    pub fn physical_stream_ids(&self) -> &[u32] {
        &self.physical
    }
    /// Number of streams that follow it for its collectives.
    pub fn hccl_followed_stream_num(&self) -> usize {
        self.hccl_followed as usize
    }
    /// Names of its nodes, in order; for an attached stream, of the nodes that it serves.
    pub fn all_nodes(&self) -> &[String] {
        &self.nodes
    }
}
