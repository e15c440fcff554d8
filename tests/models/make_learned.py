#!/usr/bin/env python3
"""Makes tests/models/learned: models of scikit-learn as skl2onnx exports them, inputs and the outputs of onnxruntime.

    pip install scikit-learn==1.9.1 skl2onnx==1.20.0 onnxruntime==1.31.1
    python make_learned.py FOLDER [NAME ...]

One folder a model: model.onnx, s0/input_<i>.npy and s0/expect/output_<i>.npy. `columns` is a graph of operators that no
exporter writes in this form.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from skl2onnx import to_onnx
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (ExtraTreesRegressor, GradientBoostingClassifier, GradientBoostingRegressor,
                              IsolationForest, RandomForestClassifier, RandomForestRegressor)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVR
from sklearn.tree import DecisionTreeClassifier

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
XD, YD = load_diabetes(return_X_y=True)
XD = XD.astype(np.float32)
TWO = (Y == 2).astype(int)
NAMES = np.array(["setosa", "versicolor", "virginica"])
TREES = dict(n_estimators=5, max_depth=3, random_state=0)

MODELS = {
    "forest_of_three": (RandomForestClassifier(**TREES), X, Y),
    "forest_of_two": (RandomForestClassifier(**TREES), X, TWO),
    "boosting_of_three": (GradientBoostingClassifier(**TREES), X, Y),
    "boosting_of_two": (GradientBoostingClassifier(**TREES), X, TWO),
    "forest_regressor": (RandomForestRegressor(**TREES), XD, YD),
    "boosting_regressor": (GradientBoostingRegressor(**TREES), XD, YD),
    "extra_trees": (ExtraTreesRegressor(**TREES), XD, YD),
    "isolation_forest": (IsolationForest(n_estimators=3, max_samples=32, random_state=0), X, None),
    "logistic_of_three": (LogisticRegression(max_iter=500), X, Y),
    "logistic_of_two": (LogisticRegression(max_iter=500), X, TWO),
    "linear_regression": (LinearRegression(), XD, YD),
    "gradient_descent": (SGDClassifier(loss="log_loss", random_state=0), X, TWO),
    "linear_svc": (LinearSVC(), X, Y),
    "svc_shares_of_three": (SVC(probability=True, random_state=0), X, Y),
    "svc_shares_of_two": (SVC(probability=True, random_state=0), X, TWO),
    "svc_poly": (SVC(kernel="poly"), X, Y),
    "svc_of_two": (SVC(), X, TWO),
    "svr": (SVR(), XD[:60], YD[:60]),
    "nu_svr_sigmoid": (NuSVR(kernel="sigmoid"), XD[:60], YD[:60]),
    "perceptron": (MLPClassifier((8,), max_iter=300, random_state=0), X, Y),
    "pipeline": (make_pipeline(SimpleImputer(), StandardScaler(), Normalizer(), LogisticRegression()), X, Y),
    "binarizer": (make_pipeline(MinMaxScaler(), Binarizer(threshold=0.4)), X, None),
    # Classes that are words.
    "named_forest_of_three": (RandomForestClassifier(**TREES), X, NAMES[Y]),
    "named_boosting_of_two": (GradientBoostingClassifier(**TREES), X, NAMES[TWO]),
    "named_logistic_of_two": (LogisticRegression(max_iter=500), X, NAMES[TWO]),
    "named_svc_of_three": (SVC(), X, NAMES[Y]),
    "named_perceptron": (MLPClassifier((8,), max_iter=300, random_state=0), X, NAMES[Y]),
    "one_hot_of_words": (OneHotEncoder(), NAMES[Y][:, None], None),
    "one_hot": (OneHotEncoder(handle_unknown="ignore"), (X * 2).astype(np.int64), None),
    # The number of the leaf; skl2onnx repeats it once per class.
    "leaves_of_a_tree": (DecisionTreeClassifier(max_depth=3, random_state=0), X, Y),
    # Shares as dictionaries, by a ZipMap at the end.
    "zipped": (LogisticRegression(max_iter=500), X, NAMES[Y]),
}
# What skl2onnx is asked for; without a row: shares as a matrix.
OPTIONS = {"leaves_of_a_tree": {"zipmap": False, "decision_leaf": True}, "zipped": {}}


def plain(v):
    """Words as NumPy's own type of text, and a list of dictionaries as the matrix of their values."""
    if isinstance(v, list):
        return np.array([list(row.values()) for row in v], np.float32)
    return v.astype(str) if v.dtype == object else v


def columns():
    """Columns that are selected, filled, scaled and joined, a machine without vectors, two base values of one class."""
    F, D, I = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64
    h, great = onnx.helper, 2**60

    def node(op, ins, outs, **attributes):
        return h.make_node(op, ins, outs, domain="ai.onnx.ml", **attributes)

    tree = dict(nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3, nodes_values=[0.5, 0.0, 0.0],
                nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
                class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 0], class_weights=[0.25, 0.75],
                classlabels_int64s=[0, 1], base_values=[0.2, 0.3])
    nodes = [
        node("FeatureVectorizer", ["x", "z"], ["joined"], inputdimensions=[4, 1]),
        node("ArrayFeatureExtractor", ["k", "last"], ["one"]),
        node("Imputer", ["one"], ["filled"], imputed_value_int64s=[great + 3], replaced_value_int64=great + 1),
        node("Scaler", ["d"], ["scaled"], offset=[1e9, 0.0], scale=[1.0, 2.0]),
        node("SVMRegressor", ["x"], ["line"], kernel_type="POLY", kernel_params=[0.5, 0.3, 2.0], rho=[0.3],
             coefficients=[0.5, -0.25, 1.0], n_supports=0),
        node("TreeEnsembleClassifier", ["x"], ["label", "shares"], **tree),
    ]
    value = h.make_tensor_value_info
    outs = [("joined", F, 5), ("filled", I, 1), ("scaled", F, 2), ("line", F, 1)]
    graph = h.make_graph(
        nodes, "columns", [value("x", F, ["N", 3]), value("z", F, ["N", 2]), value("d", D, ["N", 2]), value("k", I, ["N", 2])],
        [value(n, t, ["N", c]) for n, t, c in outs] + [value("label", I, ["N"])],
        [onnx.numpy_helper.from_array(np.array([1]), "last")])
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
    x = np.array([[0, 1, -1], [1, 2, 3], [0.5, -2, 0.25]], np.float32)
    d = np.array([[1e9 + 1, 0.5], [1e9 + 2, 1.5], [1e9 - 64, -3]])
    k = np.array([[1, great], [2, great + 1], [3, great + 2]])
    return made, [x, x[:, :2] + 8, d, k]


def save(folder, name, made, inputs):
    """The model, its inputs and what onnxruntime gives."""
    expect = os.path.join(folder, name, "s0", "expect")
    os.makedirs(expect, exist_ok=True)
    onnx.save(made, os.path.join(folder, name, "model.onnx"))
    for i, v in enumerate(inputs):
        np.save(os.path.join(folder, name, "s0", f"input_{i}.npy"), plain(v))
    session = ort.InferenceSession(made.SerializeToString())
    given = {v.name: data for v, data in zip(session.get_inputs(), inputs)}
    for i, v in enumerate(session.run(None, given)):
        np.save(os.path.join(expect, f"output_{i}.npy"), plain(v))


def main(folder, names):
    if not names or "columns" in names:
        save(folder, "columns", *columns())
    for name, (model, x, y) in MODELS.items():
        if names and name not in names:
            continue
        model.fit(x, y) if y is not None else model.fit(x)
        if x.dtype.kind == "U":
            x = x.astype(object)
        opsets = {"": 17, "ai.onnx.ml": 3}
        try:
            made = to_onnx(model, x[:1], options={id(model): OPTIONS.get(name, {"zipmap": False})}, target_opset=opsets)
        except NameError:
            made = to_onnx(model, x[:1], target_opset=opsets)
        data = x[::5][:20].copy()
        if name == "pipeline":
            data[3, 1] = np.nan
        save(folder, name, made, [data])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
