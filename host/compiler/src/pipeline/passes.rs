//! The list of passes: every pass with its stage, in the order in which they run, and the reason
//! for its position.
use crate::original::{self, FORMAT, PRECISION};
use crate::pass::listed::{Listed, at, node};
use crate::prepare::{self, AFTER, BEFORE, GEARS, NORMALISE};
use crate::{conflict, stage1, stage2};

/// All passes in order.
pub const PASSES: &[Listed] = &[
    at(
        "prepare",
        &prepare::multi_batch_clone_pass::MultiBatchClonePass,
        "first of all: each gear is inferred, folded and optimised with its own sizes",
    )
    .later(GEARS),
    node("prepare", &prepare::fixed_input_pass::FixedInputPass, "what is given is a constant for all that follows")
        .later(NORMALISE),
    at("prepare", &prepare::name_open_sizes_pass::NameOpenSizesPass, "behind gears and given values, which close sizes; before anything is inferred of those that stay open")
        .later(NORMALISE),
    at("prepare", &prepare::handle_summary_op::HandleSummaryOp, "before the outputs are settled (003 §1.2, D1c)")
        .later(NORMALISE),
    node("prepare", &prepare::for_pass::ForPass, "later passes know one kind of loop").later(NORMALISE),
    at("prepare", &prepare::net_output_pass::NetOutputPass, "everything after it goes back from the outputs")
        .later(NORMALISE),
    node("prepare", &prepare::assert_pass::AssertPass, "opens the list at each node, earlier than in PrepareOptimize, where the document has it again: what is asserted needs no shape")
        .later(BEFORE),
    node("prepare", &prepare::print_op_pass::PrintOpPass, "earlier than in the document: no engine prints, inference needs no prototype").later(BEFORE),
    node("prepare", &prepare::stop_gradient_pass::StopGradientPass, "earlier than in the document: no engine has it, inference needs no prototype").later(BEFORE),
    node("prepare", &prepare::prevent_gradient_pass::PreventGradientPass, "earlier than in the document: no engine has it, inference needs no prototype").later(BEFORE),
    node("prepare", &prepare::placeholder_with_default_pass::PlaceholderWithDefaultPass, "earlier than in the document: no engine has it, inference needs no prototype")
        .later(BEFORE),
    node("prepare", &prepare::snapshot_pass::SnapshotPass, "earlier than in the document: no engine has it, inference needs no prototype").later(BEFORE),
    node("prepare", &prepare::guarantee_const_pass::GuaranteeConstPass, "earlier than in the document: folding sees the constant").later(BEFORE),
    node("prepare", &prepare::var_is_initialized_op_pass::VarIsInitializedOpPass, "earlier than in the document: what depends on it is folded")
        .later(BEFORE),
    node("prepare", &prepare::parallel_concat_start_op_pass::ParallelConcatStartOpPass, "earlier than in the document: no engine has it, inference needs no prototype")
        .later(BEFORE),
    node("prepare", &prepare::split_shape_n_pass::SplitShapeNPass, "earlier than in the document: each shape is inferred and folded on its own")
        .later(BEFORE),
    node("prepare", &prepare::enter_pass::EnterPass, "earlier than in the document: inference sees a constant within a loop as one").later(BEFORE),
    node(
        "prepare",
        &prepare::switch_dead_branch_elimination::SwitchDeadBranchElimination,
        "the predicate is folded by now; nothing dead is inferred",
    )
    .later(BEFORE),
    node("prepare", &prepare::cond_remove_pass::CondRemovePass, "a branch that is never taken is not inferred")
        .later(BEFORE),
    node("prepare", &prepare::inline_subgraph_pass::InlineSubgraphPass, "passes see through calls").later(BEFORE),
    node("prepare", &prepare::merge_pass::MergePass, "after the branches that it lost").later(BEFORE),
    node(
        "prepare",
        &prepare::replace_with_empty_const_pass::ReplaceWithEmptyConstPass,
        "as soon as the outputs are known to be empty",
    )
    .later(AFTER),
    node(
        "prepare",
        &prepare::dimension_compute_pass::DimensionComputePass,
        "shapes become constants before what reads them is inferred (003 §8)",
    )
    .later(AFTER),
    node(
        "prepare",
        &prepare::constant_clip_pass::ConstantClipPass,
        "before the cast is folded; only a graph that was written after precision has such a cast here",
    )
    .later(AFTER),
    node(
        "prepare",
        &prepare::counted_list_pass::CountedListPass,
        "the loop's graphs are inferred and its length is folded; what reads it is inferred with the shape of all turns",
    )
    .later(AFTER),
    node(
        "prepare",
        &prepare::constant_folding_pass::ConstantFoldingPass,
        "closes the list at each node: its readers are inferred with its value",
    )
    .later(AFTER),
    node(
        "prepare",
        &prepare::infer_value_range_pass::InferValueRangePass,
        "what is no constant after folding may still be known of sizes",
    )
    .later(AFTER),
    node(
        "prepare",
        &prepare::computed_reshape_pass::ComputedReshapePass,
        "while values are known that are no constants; fusions then see views without what computed their shapes",
    )
    .later(AFTER),
    node("prepare", &prepare::shape_operate_op_remove_pass::ShapeOperateOpRemovePass, "opens PrepareOptimize"),
    node("prepare", &prepare::replace_trans_shape_pass::ReplaceTransShapePass, "a reshape is what later passes know"),
    node("prepare", &prepare::cond_pass::CondPass, "types are known; control flow is lowered with one bool"),
    node(
        "prepare",
        &prepare::branch_to_select_pass::BranchToSelectPass,
        "conditions are one bool; fusions then see the nodes of both branches",
    ),
    node(
        "prepare",
        &stage1::reshape_remove_pass::NoUseReshapeRemovePass,
        "shapes have just become known; fusions then see through",
    ),
    node("prepare", &prepare::drop_out_pass::DropOutPass, "an inference drops nothing; fusions see through"),
    node(
        "prepare",
        &stage1::unchanged_transpose_remove_pass::UnchangedTransposeRemovePass,
        "before fusions, which would have to look through it",
    ),
    node("prepare", &prepare::unused_const_pass::UnusedConstPass, "folding leaves constants behind"),
    node("prepare", &stage1::identity_pass::IdentityPass, "front ends leave copies that mean nothing"),
    node(
        "prepare",
        &prepare::loop_invariant_pass::LoopInvariantPass,
        "views and copies that mean nothing are gone; fusions then see what a turn really does",
    ),
    at("prepare", &stage1::prune_pass::PrunePass, "nothing after it visits what no output needs"),
    at(
        "original",
        &original::precision::customize_dtypes_pass::CustomizeDtypesPass,
        "what the user says of single nodes stands before the mode decides the rest",
    )
    .later(PRECISION),
    at(
        "original",
        &original::precision::RefineRunningPrecision,
        "types before auto fusion, which joins what is of one type, and before formats, whose blocks follow the type (003 §1.2, D1i)",
    )
    .later(PRECISION),
    node(
        "original",
        &stage1::trans_op_without_reshape_fusion_pass::TransOpWithoutReshapeFusionPass,
        "casts that meet the model's own are gone before auto fusion makes them steps (facts 4.2, AfterPrecisionRefine)",
    )
    .later(PRECISION),
    node("original", &prepare::constant_clip_pass::ConstantClipPass, "before the casts of precision are folded")
        .later(PRECISION),
    node(
        "original",
        &prepare::constant_folding_pass::ConstantFoldingPass,
        "weights are constants again before engines look for them",
    )
    .later(PRECISION),
    at(
        "original",
        &original::format::RefineRunningFormat,
        "types are settled, nodes fused: what is left to choose is the layout; stage 1 then joins and folds the changes (003 §1.2, D1k)",
    )
    .later(FORMAT),
    node(
        "original",
        &original::subexpression_migration_pass::SubexpressionMigrationPass,
        "after the formats, so that changes of layout move too (facts 4.2)",
    )
    .later(FORMAT),
    node(
        "stage1",
        &stage1::merge_input_memcpy_pass::MergeInputMemcpyPass,
        "before passes that would let its inputs share",
    ),
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
    at(
        "stage1",
        &stage1::fuse_data_nodes_with_common_input_pass::FuseDataNodesWithCommonInputPass,
        "equal values outside are one by now",
    ),
    at(
        "stage1",
        &stage1::common_subexpression_elimination_pass::CommonSubexpressionEliminationPass,
        "again: what read twins of an input is equal now",
    ),
    at("stage1", &stage1::permute_pass::PermutePass, "chains that fusions have brought together"),
    at(
        "stage1",
        &stage1::same_transdata_breadth_fusion_pass::SameTransdataBreadthFusionPass,
        "before the changes of layout are merged by value",
    ),
    node("stage1", &stage1::variable_op_pass::VariableOpPass, "the layouts that readers want are known"),
    node(
        "stage1",
        &stage1::trans_op_without_reshape_fusion_pass::TransOpWithoutReshapeFusionPass,
        "after the casts and layouts of precision and format",
    ),
    at(
        "stage1",
        &stage1::trans_op_breadth_fusion_pass::TransOpBreadthFusionPass,
        "after chains are cut short: more of them are alike",
    ),
    node("stage1", &prepare::enter_pass::EnterPass, "opens the node passes, as in the original's list"),
    node("stage1", &stage1::add_n_pass::AddNPass, "a sum of one hides nothing from those that follow"),
    node(
        "stage1",
        &prepare::switch_dead_branch_elimination::SwitchDeadBranchElimination,
        "predicates that fusions and folding have made constant",
    ),
    node(
        "stage1",
        &stage1::switch_logic_remove_pass::SwitchLogicRemovePass,
        "after dead branches, before their merges",
    ),
    node("stage1", &prepare::merge_pass::MergePass, "after the branches that it lost"),
    node("stage1", &stage1::cast_remove_pass::CastRemovePass, "precision has inserted its casts by now"),
    node(
        "stage1",
        &stage1::transpose_trans_data_pass::TransposeTransDataPass,
        "before changes of layout are compared with their inverses",
    ),
    node("stage1", &stage1::reshape_remove_pass::ReshapeRemovePass, "after the formats have inserted their reshapes"),
    node(
        "stage1",
        &stage1::trans_op_symmetry_elimination_pass::TransOpSymmetryEliminationPass,
        "after reshapes between two format changes are gone",
    ),
    node(
        "stage1",
        &stage1::trans_op_nearby_allreduce_fusion_pass::TransOpNearbyAllreduceFusionPass,
        "pairs with nothing between them are gone",
    ),
    node("stage1", &prepare::replace_with_empty_const_pass::ReplaceWithEmptyConstPass, "what fusions have made empty"),
    node("stage1", &prepare::dimension_compute_pass::DimensionComputePass, "shapes that fusions ask for"),
    node("stage1", &prepare::constant_clip_pass::ConstantClipPass, "before the casts of precision are folded"),
    node("stage1", &prepare::constant_folding_pass::ConstantFoldingPass, "casts and layout changes of constants"),
    node("stage1", &stage1::dimension_adjust_pass::DimensionAdjustPass, "axes are constants by now"),
    node(
        "stage1",
        &stage1::useless_control_out_remove_pass::UselessControlOutRemovePass,
        "constants are ready from the start",
    ),
    node(
        "stage1",
        &stage1::dim1_transpose_to_squeeze_pass::Dim1TransposeToSqueezePass,
        "the last node pass: what is left of transposes is final",
    ),
    node("stage1", &stage1::unused_args_clean_pass::UnusedArgsCleanPass, "what the node passes left without readers"),
    at("stage1", &stage1::prune_pass::PrunePass, "what the passes above have left without readers"),
    at(
        "stage1",
        &stage1::next_iteration_pass::NextIterationPass,
        "the nodes of loops are final; their borders come before the merges that stand at them",
    ),
    at(
        "stage1",
        &stage1::control_trigger_pass::ControlTriggerPass,
        "its merges are merges like others for the pass that follows",
    ),
    at(
        "stage1",
        &stage1::merge_to_stream_merge_pass::MergeToStreamMergePass,
        "before the switches are gone: they say which side a value comes from",
    ),
    at("stage1", &stage1::switch_to_stream_switch_pass::SwitchToStreamSwitchPass, "after the last pass that reads a switch"),
    at(
        "stage1",
        &stage1::attach_stream_label_pass::AttachStreamLabelPass,
        "what the switches wake is known; stage streams goes by labels",
    ),
    at(
        "stage1",
        &stage1::multi_batch_pass::MultiBatchPass,
        "engines have changed the gears on their own: each node of one is labelled as it is now",
    ),
    at("stage1", &stage1::subgraph_multi_dims_pass::SubgraphMultiDimsPass, "graphs within a gear, behind the gear itself"),
    node("stage1", &stage1::iterator_op_pass::IteratorOpPass, "readers of iterators are final"),
    at("stage1", &stage1::constant_fuse_same_pass::RemoveSameConstPass, "constants of any size, once folding is over"),
    at(
        "stage1",
        &stage1::global_step_insert_pass::GlobalStepInsertPass,
        "after the last pass that removes what nobody reads",
    ),
    at(
        "stage1",
        &stage1::hccl_tailing_optimization_pass::HcclTailingOptimizationPass,
        "the changes behind collectives are final",
    ),
    node("stage1", &stage1::identity_pass::IdentityPass, "last: control edges that held copies are settled"),
    at(
        "stage1",
        &stage1::ctrl_edge_transfer_pass::CtrlEdgeTransferPass,
        "after the last pass that may add control edges to constants",
    )
    .later(1),
    at(
        "stage1",
        &stage1::process_nullable_output::ProcessNullableOutput,
        "opens PreRunOptimizeSubGraph: readers are final, and engines are then asked for what is read alone (003 §1.2, D2a)",
    )
    .later(1),
    node(
        "stage2",
        &stage2::inner_identity_delete_pass::InnerIdentityDeletePass,
        "before stages insert copies of their own",
    ),
    at("stage2", &stage2::link_gen_mask_nodes_pass::LinkGenMaskNodesPass, "the masks that are left are final"),
    node(
        "stage2",
        &stage2::hccl_continuous_memcpy_pass::HcclContinuousMemcpyPass,
        "after copies are deleted: its own must stay",
    ),
    node(
        "stage2",
        &prepare::constant_folding_pass::ConstantFoldingPass,
        "second round: engines may have left constants (003 §2.3)",
    ),
    node("stage2", &stage1::reshape_remove_pass::ReshapeRemovePass, "views that engines have made superfluous"),
    node(
        "stage2",
        &prepare::cond_remove_pass::CondRemovePass,
        "predicates that the second round of folding has made constant; what is lowered to labels by then has none",
    ),
    node("stage2", &stage2::assign_remove_pass::AssignRemovePass, "layouts of variables are settled"),
    node("stage2", &stage1::dimension_adjust_pass::DimensionAdjustPass, "second round, as folding"),
    node("stage2", &prepare::unused_const_pass::UnusedConstPass, "constants that folding has left alone"),
    at(
        "stage2",
        &stage1::multi_batch_pass::MultiBatchPass,
        "again: gears are labels and jumps by now, with nodes that engines have inserted",
    ),
    node(
        "stage2",
        &stage2::ref_identity_delete_op_pass::RefIdentityDeleteOpPass,
        "memory knows references by operator",
    ),
    at(
        "stage2",
        &stage1::attach_stream_label_pass::AttachStreamLabelPass,
        "again: engines and passes have inserted nodes; those that come later label themselves",
    ),
    at("stage2", &stage2::parallel_group_pass::ParallelGroupPass, "before streams are given to groups"),
    at(
        "stage2",
        &stage2::concat_notask_pass::ConcatNotaskPass,
        "the graph is stable: what it reads of its neighbours stays true (000, 7.3)",
    ),
    at("stage2", &stage2::pack_notask_pass::PackNotaskPass, "after concat, which has the first claim on a producer"),
    node(
        "stage2",
        &stage2::tensor_move_delete_pass::TensorMoveDeletePass,
        "after the engines' last look at the graph (facts 4.2)",
    )
    .later(1),
    at(
        "conflict",
        &conflict::ir_definition_recovery::IrDefinitionRecovery,
        "behind the memory conflicts, before the build: the operators of the model are final (003 §1.2, E2)",
    ),
];

/// Passes of the documents that this compiler does not have, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("SavePass, DataPass", "no operator saves a checkpoint; the text form and front ends give every input its index"),
    (
        "InnerIdentityAddPass, SplitVariableIntoSubgraphPass, VariablePrepareOpPass, VariableRefDeleteOpPass, VariableRefUselessControlOutDeletePass",
        "they make and undo helper nodes (RefVariable, copies for later deletion) that this graph does not need: a reference is a flag of the operator, a variable is one node",
    ),
    (
        "InferShapePass",
        "it drives the list of `prepare` at each node rather than standing in it; it cannot be switched off",
    ),
    (
        "MarkForceUnknownForCondPass",
        "it marks what stands under a `Merge` of an unknown shape: `MergeToStreamMergePass` refuses such a `Merge` by name, nothing behind it would read the marks",
    ),
    (
        "MarkAgnosticPass, PrepareRunningFormatRefiner",
        "which operators take any layout is said by prototypes and engines, not by marks on nodes",
    ),
    (
        "SwitchDataEdgesBypass",
        "a control edge leaves a node here, not one of its outputs: only the data edge tells the branch that a reader belongs to. `SwitchToStreamSwitchPass` lets readers read past the switch",
    ),
    (
        "LabelAllocator, SubgraphPass, MemcpyAddrAsyncPass",
        "If, Case, While and For reach the device by labels: `feature/control_flow` makes labels, jumps and the copies at the borders of subgraphs",
    ),
    ("DataFlowPreparePass", "no operator has resources that handles name (stacks, queues)"),
    (
        "MergeUnknownShapeNPass",
        "it makes a `ShapeN`, which no engine here has: `SplitShapeNPass` takes those of a model apart, and each `Shape` of known sizes is a constant",
    ),
    (
        "SubgraphConstMigrationPass",
        "equal constants of all graphs are stored once with the weights; those that `SubexpressionMigrationPass` needs outside go with it",
    ),
    ("ReshapeRecoveryPass", "an input has no descriptor of its own here: it cannot differ from its producer's"),
    (
        "HcclMemcpyPass, HcclSequenceAdjustPass, AttachedResourcePass",
        "collectives here write beside their inputs; their order and their attached streams are decided by the stage streams",
    ),
    (
        "FlowCtrlPass, RecomputePass, SwapSpacePass, EndOfSequenceAddControlPass, StartOfSequencePass",
        "they need a loop of training steps, marks of a backward graph, or host memory behind the device, none of which a model file here has",
    ),
    (
        "OptimizeOriginalGraphForQuantize",
        "a call of the engines, not a pass: their `OptimizeGraphPrepare` hook runs at its place in `prepare`; quantised chains become integer kernels by the fusions of the engine that has them",
    ),
    (
        "DynamicDataFlowEngineReassignPass",
        "no operator has resources that handles name; an engine that cannot compile what it took loses it to the next one (`place/reassign.rs`)",
    ),
    (
        "CompileNodesPass",
        "the stage tasks compiles what the subgraphs have not; its fallback to another engine is `place/reassign.rs`",
    ),
    (
        "HcclGroupPass",
        "its marks (`_hccl_fused_group`) come from a training framework; the changes behind collectives are `HcclTailingOptimizationPass`'s",
    ),
    ("HostcpuEngineUpdatePass", "it changes a placement, not a graph: stage place runs it behind the `EnginePlacer`"),
    ("SetFftsPlusAttrPass", "a subgraph in slices is one node by then, made with its attributes (`feature/ffts_plus`)"),
    (
        "InplaceSupportCheckPass, InputOutputConnectionIdentifyPass, BufferPoolMemoryPass",
        "decided from the graph itself by the stages tasks and memory, without marks on nodes",
    ),
    (
        "AtomicAddrCleanPass",
        "`feature/atomic_clean` puts the clearing nodes in before streams are assigned: what must be zero is known when the engines have said their workspaces",
    ),
];

/// Returns the list of passes as a page of the manual.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Passes\n\nMade from the code by `ge opt --list --markdown`. Each runs at its `ge.oo.level` and above; `ge.optimizationSwitch=\"Name:off\"` \
         switches one of O1 to O3. Custom passes of plugins and the engines' own optimizers run at the places that the stages give them.\n\n\
         | stage | pass | level | before -> after | needs | keeps | why here |\n|---|---|---|---|---|---|---|\n",
    );
    for p in PASSES {
        let level = p.pass.level().name();
        let k = p.pass;
        out.push_str(&format!(
            "| {} | {} | {level} | {} | {} | {} | {} |\n",
            p.stage,
            k.name(),
            k.effect(),
            k.needs(),
            k.keeps(),
            p.why
        ));
    }
    out.push_str("\n## Left out\n\n| passes | why |\n|---|---|\n");
    for (names, why) in LEFT_OUT {
        out.push_str(&format!("| {names} | {why} |\n"));
    }
    out
}
