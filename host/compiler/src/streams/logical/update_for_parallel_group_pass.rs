//! `UpdateForParallelGroupPass`: one stream for each `_parallel_group`. A Hcom operator of group
//! "-1" with one data input takes the current stream of that input; all other nodes of "-1" form a
//! group like any other. Source: 004 §4.1.1, facts 1.4 (6), DESIGN 9.
use super::LogicalStreamPass;
use super::context::{Context, NONE};
use crate::error::Result;
use crate::feature::parallel_group::group_of;
use std::collections::HashMap;

/// See the module documentation.
pub struct UpdateForParallelGroupPass;
impl LogicalStreamPass for UpdateForParallelGroupPass {
    const NAME: &'static str = "UpdateForParallelGroupPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let mut of: HashMap<&str, u32> = HashMap::new();
        let graph = cx.graph;
        for n in graph.nodes() {
            let Some(group) = group_of(n) else { continue };
            if n.attrs().str("_user_stream_label").is_some_and(|l| !l.is_empty()) {
                continue;
            }
            if group == "-1" {
                let inputs: Vec<_> = n.inputs().iter().filter(|v| !v.is_absent()).collect();
                if let ([only], true) = (inputs.as_slice(), n.op().starts_with("Hcom")) {
                    let s = cx.stream(only.node);
                    if s != NONE {
                        cx.node_stream[n.id().index()] = s;
                        continue;
                    }
                }
            }
            let s = match of.get(group) {
                Some(s) => *s,
                None => {
                    let s = cx.take();
                    of.insert(group, s);
                    s
                }
            };
            cx.node_stream[n.id().index()] = s;
        }
        Ok(())
    }
}
