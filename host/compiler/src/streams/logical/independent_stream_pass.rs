//! `IndependentStreamPass`: engines that share no stream (collectives) get one stream for each
//! engine and stream label. A subgraph with a user's label keeps the stream that the label gave it.
//! Source: 004 §4.1.1, facts 1.4 (3), DESIGN 9.
use super::LogicalStreamPass;
use super::context::{Context, NONE};
use crate::error::Result;
use std::collections::HashMap;

/// See the module documentation.
pub struct IndependentStreamPass;
impl LogicalStreamPass for IndependentStreamPass {
    const NAME: &'static str = "IndependentStreamPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let mut of: HashMap<(crate::toolbox::EngineId, String), u32> = HashMap::new();
        for i in 0..cx.subs.len() {
            let sub = &cx.subs[i];
            if !cx.independent(sub.engine) || (!sub.user_label.is_empty() && sub.stream != NONE) {
                continue;
            }
            let key = (sub.engine, sub.label.clone());
            let s = match of.get(&key) {
                Some(s) => *s,
                None => {
                    let s = cx.take();
                    of.insert(key, s);
                    s
                }
            };
            cx.subs[i].stream = s;
        }
        Ok(())
    }
}
