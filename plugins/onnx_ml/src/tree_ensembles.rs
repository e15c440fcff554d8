//! `TreeEnsembleClassifier`, `TreeEnsembleRegressor` (nodes identified by tree and number) and
//! `TreeEnsemble` (nodes and leaves identified by index): all become one table of [`crate::trees`].
//! A leaf whose weight for the only target is repeated counts it once, as in onnxruntime.
use crate::classify::{self, Second};
use crate::labels::Labels;
use crate::post::Post;
use crate::shared::{Outs, ints, known_type, reals};
use crate::trees::{Branch, Mode, Trees};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::DType;
use ge_plugin_api::{Result, map_op};
use std::collections::HashMap;

/// Index of each tree's nodes: a comparison, or a leaf if negative.
type Places = HashMap<(i64, i64), i32>;

fn mode(name: &str) -> Option<Mode> {
    let names = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
    names.iter().position(|n| *n == name).map(|p| Mode::ALL[p])
}

/// The trees of a classifier (`class`) or a regressor (`target`) with this many scores per row.
fn numbered(n: &ForeignNode, kind: &str, scores: usize) -> Result<Trees> {
    let list = |name: &str| ints(n, name);
    let (trees, ids) = (list("nodes_treeids"), list("nodes_nodeids"));
    let (features, yes, no) = (list("nodes_featureids"), list("nodes_truenodeids"), list("nodes_falsenodeids"));
    let modes = n.attrs.strs("nodes_modes").unwrap_or_default();
    let splits = reals(n, "nodes_values").unwrap_or_default();
    let missing = list("nodes_missing_value_tracks_true");
    let count = ids.len();
    let all = [trees.len(), features.len(), yes.len(), no.len(), modes.len(), splits.len()];
    if count == 0 || all.iter().any(|c| *c != count) || !(missing.is_empty() || missing.len() == count) {
        return Err(n.refuse(format!("its lists of nodes have different lengths: {count} numbers, {all:?}")));
    }
    let mut out = Trees::default();
    let mut places = Places::new();
    for i in 0..count {
        let place = if modes[i] == "LEAF" {
            out.leaves.push((0, 0));
            -(out.leaves.len() as i32)
        } else {
            let Some(mode) = mode(modes[i]) else {
                return Err(n.refuse(format!("node mode `{}` is unknown", modes[i])));
            };
            let feature = i32::try_from(features[i]).unwrap_or(-1);
            let missing = missing.get(i).is_some_and(|m| *m != 0);
            let (split, set) = (splits[i], 0);
            out.nodes.push(Branch { feature, mode, missing, split, yes: 0, no: 0, set });
            out.nodes.len() as i32 - 1
        };
        if places.insert((trees[i], ids[i]), place).is_some() {
            return Err(n.refuse(format!("tree {} has two nodes {}", trees[i], ids[i])));
        }
    }
    let find = |tree: i64, id: i64| {
        let lacks = || n.refuse(format!("tree {tree} has no node {id}"));
        places.get(&(tree, id)).copied().ok_or_else(lacks)
    };
    let mut seen = std::collections::HashSet::new();
    for i in 0..count {
        let place = find(trees[i], ids[i])?;
        if seen.insert(trees[i]) {
            out.roots.push(place);
        }
        if let Ok(at) = usize::try_from(place) {
            out.nodes[at].yes = find(trees[i], yes[i])?;
            out.nodes[at].no = find(trees[i], no[i])?;
        }
    }
    weigh(n, kind, scores, &mut out, find)?;
    Ok(out)
}

/// Collects the weights of each leaf, so that they are adjacent. `find` gives the node of a tree and
/// a number.
fn weigh(
    n: &ForeignNode,
    kind: &str,
    scores: usize,
    out: &mut Trees,
    find: impl Fn(i64, i64) -> Result<i32>,
) -> Result<()> {
    let of = |what: &str| ints(n, &format!("{kind}_{what}"));
    let (tree, node, target) = (of("treeids"), of("nodeids"), of("ids"));
    let weights = reals(n, &format!("{kind}_weights")).unwrap_or_default();
    if [tree.len(), node.len(), target.len()].iter().any(|c| *c != weights.len()) {
        return Err(n.refuse("its lists of weights have different lengths"));
    }
    let mut by_leaf: Vec<Vec<(i32, f64)>> = vec![Vec::new(); out.leaves.len()];
    for k in 0..weights.len() {
        let place = find(tree[k], node[k])?;
        let leaf = usize::try_from(-1 - i64::from(place))
            .map_err(|_| n.refuse(format!("node {} of tree {} has a weight and is no leaf", node[k], tree[k])))?;
        let weight = (i32::try_from(target[k]).unwrap_or(-1), weights[k]);
        let known = if scores == 1 { by_leaf[leaf].iter().find(|w| w.0 == weight.0) } else { None };
        match known {
            None => by_leaf[leaf].push(weight),
            // skl2onnx repeats a weight once per class; it counts once, as in onnxruntime.
            Some(first) if first.1 == weight.1 => {}
            Some(first) => {
                return Err(n.refuse(format!(
                    "node {} of tree {} has the weights {} and {} for target {}, of which runtimes take the first \
                     or the sum: give it one",
                    node[k], tree[k], first.1, weight.1, target[k]
                )));
            }
        }
    }
    for (leaf, weights) in by_leaf.into_iter().enumerate() {
        let from = out.weights.len() as i32;
        out.weights.extend(weights);
        out.leaves[leaf] = (from, out.weights.len() as i32);
    }
    Ok(())
}

fn regressor(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let targets = usize::try_from(n.int_or("n_targets", 1)).unwrap_or(0);
    let trees = numbered(n, "target", targets)?;
    let post = Post::of(n)?;
    let base = reals(n, "base_values").unwrap_or_default();
    if !base.is_empty() && base.len() != targets {
        return Err(n.refuse(format!("{} base values for {targets} targets", base.len())));
    }
    let x = n.input(0)?;
    let y = trees.build(n, b, x, (targets, n.str_or("aggregate_function", "SUM"), base), Some(&post))?;
    Ok(vec![match known_type(n) {
        // The result is f32 for features of f64, too.
        Some(DType::F64) | None => b.node("Cast").input(y).attr("dst_type", DType::F32).build(),
        _ => y,
    }])
}
map_op!("onnx", "ai.onnx.ml", "TreeEnsembleRegressor", 1..=u32::MAX, regressor);

fn classifier(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let labels = Labels::of(n, "classlabels_int64s", "classlabels_strings");
    let classes = labels.numbers.len();
    let trees = numbered(n, "class", classes)?;
    let ids: std::collections::BTreeSet<i32> = trees.weights.iter().map(|w| w.0).collect();
    let one = classes == 2 && ids.len() <= 1;
    if one && ids.first().is_some_and(|id| *id != 0) {
        return Err(
            n.refuse("its weights are all of the second of two classes, where runtimes differ: give them class id 0")
        );
    }
    let second = match one {
        false => Second::No,
        true if trees.weights.iter().all(|w| w.1 >= 0.0) => Second::Share,
        true => Second::Sign,
    };
    let mut base = reals(n, "base_values").unwrap_or_default();
    if one && base.len() == 2 {
        // The weights are those of class 0, and so is its base value.
        base.truncate(1);
    }
    let targets = if one { 1 } else { classes };
    if !base.is_empty() && base.len() != targets {
        return Err(n.refuse(format!("{} base values for {} classes", base.len(), classes)));
    }
    let x = n.input(0)?;
    let scores = trees.build(n, b, x, (targets, "SUM", base), None)?;
    classify::build(n, b, scores, labels, second)
}
map_op!("onnx", "ai.onnx.ml", "TreeEnsembleClassifier", 1..=u32::MAX, classifier);

fn ensemble(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let list = |name: &str| ints(n, name);
    let (features, modes) = (list("nodes_featureids"), list("nodes_modes"));
    let (yes, yes_leaf) = (list("nodes_truenodeids"), list("nodes_trueleafs"));
    let (no, no_leaf) = (list("nodes_falsenodeids"), list("nodes_falseleafs"));
    let splits = reals(n, "nodes_splits").unwrap_or_default();
    let missing = list("nodes_missing_value_tracks_true");
    let count = features.len();
    let all = [modes.len(), yes.len(), yes_leaf.len(), no.len(), no_leaf.len(), splits.len()];
    if all.iter().any(|c| *c != count) {
        return Err(n.refuse(format!("its lists of nodes have different lengths: {count} features, {all:?}")));
    }
    let members = reals(n, "membership_values").unwrap_or_default();
    let mut out = Trees::default();
    let place = |at: i64, leaf: i64| i32::try_from(if leaf != 0 { -1 - at } else { at }).unwrap_or(i32::MAX);
    // The sets are stored one after the other, separated by NaN, in the order of the nodes that use
    // them.
    let mut sets = members.split(|v| v.is_nan());
    for i in 0..count {
        let Some(mode) = usize::try_from(modes[i]).ok().and_then(|m| Mode::ALL.get(m)).copied() else {
            return Err(n.refuse(format!("node mode {} is unknown", modes[i])));
        };
        if mode == Mode::Member {
            out.sets.push(sets.next().unwrap_or_default().to_vec());
        }
        out.nodes.push(Branch {
            feature: i32::try_from(features[i]).unwrap_or(-1),
            mode,
            missing: missing.get(i).is_some_and(|m| *m != 0),
            split: splits[i],
            yes: place(yes[i], yes_leaf[i]),
            no: place(no[i], no_leaf[i]),
            set: out.sets.len() as i32 - 1,
        });
    }
    let (targets, weights) = (list("leaf_targetids"), reals(n, "leaf_weights").unwrap_or_default());
    if targets.len() != weights.len() {
        return Err(n.refuse(format!("{} targets for {} weights", targets.len(), weights.len())));
    }
    out.leaves = (0..targets.len() as i32).map(|i| (i, i + 1)).collect();
    out.weights = targets.iter().map(|t| i32::try_from(*t).unwrap_or(-1)).zip(weights).collect();
    // A tree that consists of one leaf is given as a node with both branches leading to it.
    out.roots = list("tree_roots").into_iter().map(|r| i32::try_from(r).unwrap_or(i32::MAX)).collect();
    let aggregate = match n.int_or("aggregate_function", 1) {
        0 => "AVERAGE",
        1 => "SUM",
        2 => "MIN",
        3 => "MAX",
        other => return Err(n.refuse(format!("aggregate function {other} is unknown"))),
    };
    let post = Post::of(n)?;
    let count = usize::try_from(n.int_or("n_targets", 1)).unwrap_or(0);
    let x = n.input(0)?;
    Ok(vec![out.build(n, b, x, (count, aggregate, Vec::new()), Some(&post))?])
}
map_op!("onnx", "ai.onnx.ml", "TreeEnsemble", 5..=u32::MAX, ensemble);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::patch::Edit;
    use ge_plugin_api::types::{AttrValue, NodeId, Shape, TensorDesc, ValueRef};

    /// A regressor of one target, with a single leaf that has these weights.
    fn leaf(dtype: DType, weights: &[f64]) -> ForeignNode {
        let mut n = ForeignNode { name: "y".into(), ..ForeignNode::default() };
        n.inputs.push(ValueRef::new(NodeId(1), 0));
        n.input_descs.push(TensorDesc::new(dtype, Shape::unranked()));
        for key in ["nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"] {
            n.attrs.set(key, AttrValue::Ints(vec![0].into()));
        }
        for key in ["target_treeids", "target_nodeids", "target_ids"] {
            n.attrs.set(key, AttrValue::Ints(vec![0; weights.len()].into()));
        }
        n.attrs.set("nodes_modes", AttrValue::Strs(vec!["LEAF".into()].into()));
        n.attrs.set("nodes_values", AttrValue::Floats(vec![0.0].into()));
        n.attrs.set("target_weights", AttrValue::Floats(weights.to_vec().into()));
        n
    }

    /// The operators that a regressor becomes for features of this type.
    fn regressor_of(dtype: DType) -> Vec<String> {
        let mut b = GraphBuilder::new(None);
        regressor(&leaf(dtype, &[1.5]), &mut b).expect("maps");
        let op = |e: &Edit| match e {
            Edit::AddNode(n) if n.op != "Const" => Some(n.op.to_string()),
            _ => None,
        };
        b.into_patch().edits().iter().filter_map(op).collect()
    }

    #[test]
    fn a_regressor_gives_f32_for_features_of_any_type() {
        assert_eq!(regressor_of(DType::F32), ["MlTrees"]);
        assert_eq!(regressor_of(DType::I64), ["MlTrees"]);
        assert_eq!(regressor_of(DType::F64), ["MlTrees", "Cast"]);
        assert_eq!(regressor_of(DType::UNKNOWN), ["MlTrees", "Cast"]);
    }

    #[test]
    fn a_weight_of_one_target_that_is_repeated_counts_once() {
        let weights = |scores: usize, w: &[f64]| {
            let made = numbered(&leaf(DType::F32, w), "target", scores).map_err(|e| e.message().to_owned());
            made.map(|t| t.weights.iter().map(|w| w.1).collect::<Vec<_>>())
        };
        assert_eq!(weights(1, &[1.5, 1.5, 1.5]), Ok(vec![1.5]));
        assert_eq!(weights(2, &[1.5, 1.5]), Ok(vec![1.5, 1.5]));
        assert!(weights(1, &[1.5, 2.5]).is_err_and(|e| e.contains("the weights 1.5 and 2.5 for target 0")));
    }
}
