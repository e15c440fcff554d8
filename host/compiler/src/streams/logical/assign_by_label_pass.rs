//! `AssignByLabelPass`: one stream for each stream label of the graph. Source: 004 §4.1.1, facts
//! 1.4 (2).
use super::LogicalStreamPass;
use super::context::Context;
use crate::error::Result;
use std::collections::HashMap;

/// See the module documentation.
pub struct AssignByLabelPass;
impl LogicalStreamPass for AssignByLabelPass {
    const NAME: &'static str = "AssignByLabelPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let mut of: HashMap<String, u32> = HashMap::new();
        for i in 0..cx.subs.len() {
            let label = cx.subs[i].label.clone();
            if label.is_empty() {
                continue;
            }
            let s = match of.get(&label) {
                Some(s) => *s,
                None => {
                    let s = cx.take();
                    of.insert(label, s);
                    s
                }
            };
            cx.subs[i].stream = s;
        }
        Ok(())
    }
}
