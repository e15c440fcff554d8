//! The list of passes: every pass with its stage, in the order in which they run, and why it stands there.
use super::GraphPass;
use crate::{stage1, stage2};

/// A pass at its place.
pub struct Listed {
    /// Stage.
    pub stage: &'static str,
    /// 0: in the stage's list; 1: after the engines and custom passes at its end.
    pub part: u8,
    /// The pass.
    pub pass: &'static dyn GraphPass,
    /// Why it stands here.
    pub why: &'static str,
}

const fn at(stage: &'static str, pass: &'static dyn GraphPass, why: &'static str) -> Listed {
    Listed { stage, part: 0, pass, why }
}

/// All passes in order.
pub const PASSES: &[Listed] = &[
    at(
        "prepare",
        &stage1::reshape_remove_pass::NoUseReshapeRemovePass,
        "shapes have just become known; fusions then see through",
    ),
    at(
        "prepare",
        &stage1::unchanged_transpose_remove_pass::UnchangedTransposeRemovePass,
        "before fusions, which would have to look through it",
    ),
    at("prepare", &stage1::identity_pass::IdentityPass, "front ends leave copies that mean nothing"),
    at("prepare", &stage1::prune_pass::PrunePass, "nothing after it visits what no output needs"),
    at(
        "stage1",
        &stage1::constant_fuse_same_pass::ConstantFuseSamePass,
        "equal constants first: subexpressions over them become equal",
    ),
    at(
        "stage1",
        &stage1::common_subexpression_elimination_pass::CommonSubexpressionEliminationPass,
        "before transposes are merged into readers that could share them",
    ),
    at("stage1", &stage1::permute_pass::PermutePass, "chains that fusions have brought together"),
    at("stage1", &stage1::add_n_pass::AddNPass, "opens the node passes, as in the original's list"),
    at("stage1", &stage1::cast_remove_pass::CastRemovePass, "precision has inserted its casts by now"),
    at("stage1", &stage1::reshape_remove_pass::ReshapeRemovePass, "after the formats have inserted their reshapes"),
    at(
        "stage1",
        &stage1::trans_op_symmetry_elimination_pass::TransOpSymmetryEliminationPass,
        "after reshapes between two format changes are gone",
    ),
    at(
        "stage1",
        &stage1::useless_control_out_remove_pass::UselessControlOutRemovePass,
        "constants are ready from the start",
    ),
    at(
        "stage1",
        &stage1::dim1_transpose_to_squeeze_pass::Dim1TransposeToSqueezePass,
        "the last node pass: what is left of transposes is final",
    ),
    at("stage1", &stage1::prune_pass::PrunePass, "what the passes above have left without readers"),
    at("stage1", &stage1::constant_fuse_same_pass::RemoveSameConstPass, "constants of any size, once folding is over"),
    at("stage1", &stage1::identity_pass::IdentityPass, "last: control edges that held copies are settled"),
    Listed {
        stage: "stage1",
        part: 1,
        pass: &stage1::ctrl_edge_transfer_pass::CtrlEdgeTransferPass,
        why: "after the last pass that may add control edges to constants",
    },
    at(
        "stage2",
        &stage2::concat_notask_pass::ConcatNotaskPass,
        "the graph is stable: what it reads of its neighbours stays true (000, 7.3)",
    ),
    at("stage2", &stage2::pack_notask_pass::PackNotaskPass, "after concat, which has the first claim on a producer"),
];

/// Passes of the documents that are not here, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    (
        "EnterPass, NextIterationPass, SwitchDeadBranchElimination, SwitchLogicRemovePass, MergePass, CondPass, CondRemovePass, SwitchDataEdgesBypass, MergeInputMemcpyPass, MergeToStreamMergePass, SwitchToStreamSwitchPass, ControlTriggerPass",
        "control flow of TensorFlow 1 (Enter, Switch, Merge): no front end makes it",
    ),
    (
        "GlobalStepInsertPass, IteratorOpPass, FlowCtrlPass, HcclTailingOptimizationPass, HcclSequenceAdjustPass",
        "training loops only",
    ),
    ("MultiBatchPass, SubgraphMultiDimsPass", "gears of dynamic batch are not built yet"),
    (
        "VariableOpPass, VariableRefDeleteOpPass, VariableRefUselessControlOutDeletePass, AssignRemovePass",
        "format changes of variables: no front end makes variables",
    ),
    (
        "TransOpWithoutReshapeFusionPass, TransOpBreadthFusionPass, SameTransdataBreadthFusionPass, TransposeTransDataPass, TransOpNearbyAllreduceFusionPass, ReshapeRecoveryPass",
        "no format change is inserted yet: engines offer ND, NCHW and NHWC alone",
    ),
    (
        "DimensionComputePass, ConstantFoldingPass, ReplaceWithEmptyConstPass, InferValueRangePass",
        "folding is one walk with inference (InferShapePass), switched by ge.oo.constantFolding",
    ),
    ("ConstantClipPass", "no pass lowers the type of a constant"),
    (
        "AtomicAddrCleanPass, BufferPoolMemoryPass, SubgraphPass, HcclContinuousMemcpyPass, MemcpyAddrAsyncPass",
        "memory rules that MemConflictProc and the planner keep",
    ),
    (
        "CompileNodesPass, AttachedResourcePass, AttachStreamLabelPass, ParallelGroupPass",
        "done by the stages tasks and streams",
    ),
];

/// The list as a page of the manual.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Passes\n\nMade from the code by `ge opt --list --markdown`. Each runs at its `ge.oo.level` and above; `ge.optimizationSwitch=\"Name:off\"` \
         switches one of O1 to O3. Custom passes of plugins and the engines' own optimizers run at the places that the stages give them.\n\n\
         | stage | pass | level | before -> after | why here |\n|---|---|---|---|---|\n",
    );
    for p in PASSES {
        let level = p.pass.level().name();
        out.push_str(&format!("| {} | {} | {level} | {} | {} |\n", p.stage, p.pass.name(), p.pass.effect(), p.why));
    }
    out.push_str("\n## Left out\n\n| passes | why |\n|---|---|\n");
    for (names, why) in LEFT_OUT {
        out.push_str(&format!("| {names} | {why} |\n"));
    }
    out
}
