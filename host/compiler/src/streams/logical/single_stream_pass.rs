//! `SingleStreamPass` (`ge.enableSingleStream`): puts everything on one stream; a stream label is
//! an error. Source: 002, facts 1.4.
use super::LogicalStreamPass;
use super::context::{Context, NONE, label_of};
use crate::error::{CompileError, Result};
use ge_plugin_api::diagnostic::Diagnostic;

/// See the module documentation.
pub struct SingleStreamPass;
impl LogicalStreamPass for SingleStreamPass {
    const NAME: &'static str = "SingleStreamPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let labelled: Vec<Diagnostic> = cx
            .graph
            .nodes()
            .filter_map(|n| Some((n, label_of(n)?)))
            .map(|(n, label)| {
                Diagnostic::error(format!(
                    "`{}` has the stream label `{label}`, but the model is compiled for a single stream",
                    n.name()
                ))
                .code(ge_codes::SINGLE_STREAM)
                .atc("E10055")
                .node(n.name(), n.op())
                .help("take the label away, or compile without ge.enableSingleStream=true")
            })
            .collect();
        if !labelled.is_empty() {
            return Err(CompileError::Model { code: ge_codes::SINGLE_STREAM, all: labelled });
        }
        let s = if cx.default == NONE { cx.take() } else { cx.default };
        for sub in &mut cx.subs {
            sub.stream = s;
        }
        Ok(())
    }
}
