//! Passes made of patterns: `PatternFusionPass` and `DecomposePass`.
use super::rewriter::Boundary;
use super::{Expr, Match, Pattern, PatternBuilder, PatternMatcher, Replacement, SubgraphRewriter, Verdict};
use crate::diagnostic::Result;
use crate::pass::{Pass, PassInfo, PassLevel, PassStage};
use crate::patch::Patch;
use crate::types::ValueRef;
use crate::view::{Graph, Node};

/// A fusion by patterns. [`PatternFusionPass`] turns it into a pass.
///
/// # Examples
/// ```
/// use ge_plugin_api::fusion::{Match, Pattern, PatternFusion, PatternFusionPass, Replacement, Verdict};
/// use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
/// use ge_plugin_api::types::ValueRef;
///
/// /// `x * Sigmoid(x)` becomes `Swish(x)`.
/// struct SwishFusionPass;
///
/// impl PatternFusion for SwishFusionPass {
///     fn info(&self) -> PassInfo {
///         PassInfo::new("SwishFusionPass", PassStage::AFTER_INFER_SHAPE, PassLevel::O1, "x * Sigmoid(x) becomes Swish(x)")
///     }
///     fn patterns(&self) -> Vec<Pattern> {
///         vec![Pattern::new(|p| {
///             let x = p.input("x");
///             x * p.op("Sigmoid", [x])
///         })]
///     }
///     fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
///         Ok(vec![r.op("Swish", [m.value("x")]).into()])
///     }
/// }
/// assert_eq!(PatternFusionPass(SwishFusionPass).info().name.as_str(), "SwishFusionPass");
/// ```
pub trait PatternFusion: Send + Sync {
    /// Name, stage, level and description of the pass.
    fn info(&self) -> PassInfo;
    /// The patterns to look for; if several match at the same nodes, the first one wins.
    fn patterns(&self) -> Vec<Pattern>;
    /// Conditions that a pattern cannot express.
    ///
    /// # Errors
    /// Returns the reason in words if the match must be left as it is.
    fn meets(&self, m: &Match<'_>) -> Verdict {
        let _ = m;
        Ok(())
    }
    /// Makes the replacement: one value for each output of the pattern. If all of them are existing
    /// values, the match is only deleted.
    ///
    /// # Errors
    /// Returns the reason in words if the match must be left as it is.
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>>;
}

/// Turns a [`PatternFusion`] into a pass.
pub struct PatternFusionPass<T>(pub T);

impl<T: PatternFusion> Pass for PatternFusionPass<T> {
    fn info(&self) -> PassInfo {
        self.0.info()
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let name = self.0.info().name.to_string();
        let mut rewriter = SubgraphRewriter::new(&name, graph, patch);
        for pattern in self.0.patterns() {
            let mut matcher = PatternMatcher::new(graph, &pattern);
            while let Some(m) = matcher.next_match() {
                // If the match overlaps an earlier replacement or was not replaced, its nodes may
                // be matched again from a later start.
                let done = !m.nodes().iter().any(|n| rewriter.is_gone(*n))
                    && match self.0.meets(&m) {
                        Ok(()) => rewriter.replace(&Boundary::from(&m), |r| self.0.replacement(&m, r)),
                        Err(why) => {
                            rewriter.refuse(m.root().id(), &why);
                            false
                        }
                    };
                if !done {
                    matcher.give_back(&m);
                }
            }
            for (node, why) in matcher.refusals() {
                if !rewriter.is_gone(node) {
                    rewriter.refuse(node, &why);
                }
            }
        }
        Ok(())
    }
}

/// A fusion made of two closures; see [`crate::register_fusion!`].
pub struct FnFusion {
    /// Name of the pass.
    pub name: &'static str,
    /// The stage of the compilation in which it runs.
    pub stage: PassStage,
    /// The optimization level from which it runs.
    pub level: PassLevel,
    /// One line that says what it does.
    pub help: &'static str,
    /// Makes the pattern to look for.
    pub pattern: for<'p> fn(&'p PatternBuilder) -> Expr<'p>,
    /// Makes the value that replaces the pattern's output.
    pub replacement: for<'m> fn(&'m Match<'m>, &'m Replacement<'m>) -> Verdict<ValueRef>,
}

impl PatternFusion for FnFusion {
    fn info(&self) -> PassInfo {
        PassInfo::new(self.name, self.stage, self.level, self.help)
    }
    fn patterns(&self) -> Vec<Pattern> {
        vec![Pattern::new(self.pattern)]
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        Ok(vec![(self.replacement)(m, r)?])
    }
}

/// Replaces a node by several others: the opposite of a fusion. [`DecomposePass`] turns it into a
/// pass.
///
/// # Examples
/// ```
/// use ge_plugin_api::fusion::{Decompose, DecomposePass, Replacement, Verdict};
/// use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
/// use ge_plugin_api::types::ValueRef;
/// use ge_plugin_api::view::Node;
///
/// /// `Swish(x)` becomes `x * Sigmoid(x)`.
/// struct SwishDecomposePass;
///
/// impl Decompose for SwishDecomposePass {
///     fn info(&self) -> PassInfo {
///         PassInfo::new("SwishDecomposePass", PassStage::AFTER_INFER_SHAPE, PassLevel::O1, "Swish(x) becomes x * Sigmoid(x)")
///     }
///     fn ops(&self) -> &[&str] {
///         &["Swish"]
///     }
///     fn replacement(&self, node: &Node<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
///         let x = node.input(0).ok_or("input 0 is missing")?;
///         Ok(vec![r.op("Mul", [x, r.op("Sigmoid", [x]).into()]).into()])
///     }
/// }
/// assert_eq!(DecomposePass(SwishDecomposePass).info().level, PassLevel::O1);
/// ```
pub trait Decompose: Send + Sync {
    /// Name, stage, level and description of the pass.
    fn info(&self) -> PassInfo;
    /// Operator types that the pass looks at.
    fn ops(&self) -> &[&str];
    /// Conditions on a node.
    ///
    /// # Errors
    /// Returns the reason in words if the node must be left as it is.
    fn meets(&self, node: &Node<'_>) -> Verdict {
        let _ = node;
        Ok(())
    }
    /// Makes the replacement: one value for each output of the node.
    ///
    /// # Errors
    /// Returns the reason in words if the node must be left as it is.
    fn replacement(&self, node: &Node<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>>;
}

/// Turns a [`Decompose`] into a pass.
pub struct DecomposePass<T>(pub T);

impl<T: Decompose> Pass for DecomposePass<T> {
    fn info(&self) -> PassInfo {
        self.0.info()
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let name = self.0.info().name.to_string();
        let mut rewriter = SubgraphRewriter::new(&name, graph, patch);
        for node in graph.nodes_of(self.0.ops()) {
            let outputs = (0..node.outputs().len() as u32).map(|k| node.value(k)).collect();
            let b = Boundary { nodes: vec![node.id()], outputs };
            rewriter.replace(&b, |r| {
                self.0.meets(&node)?;
                self.0.replacement(&node, r)
            });
        }
        Ok(())
    }
}
