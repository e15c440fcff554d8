#!/usr/bin/env python3
"""Prints the table of plugins/onnx/src/schema/table.rs: the attributes of each operator of ai.onnx in all its versions, with their types
and, if a newer version no longer has them, the last opset that has them.

    python onnx_attributes.py > ../../plugins/onnx/src/schema/table.rs     (in the environment of requirements.txt)
"""
import collections

import onnx

KINDS = {"FLOAT": "float", "INT": "int", "STRING": "str", "TENSOR": "tensor", "GRAPH": "graph", "FLOATS": "floats", "INTS": "ints",
         "STRINGS": "strs", "TENSORS": "tensors", "GRAPHS": "graphs", "SPARSE_TENSOR": "sparse", "TYPE_PROTO": "type"}

# Attributes of onnxruntime's own version 1 of an operator that the standard has from a later version on.
BESIDE = {"MeanVarianceNormalization": {"across_channels": ("int", 8), "normalize_variance": ("int", 8)}}


def main():
    operators = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            operators[schema.name].append(schema)
    print("//! Attributes of the operators of `ai.onnx`, as `tests/reference/onnx_attributes.py` prints them.")
    print()
    print("/// Operators in order, and of each its attributes: name, types, and the last opset that has it.")
    print("pub const OPERATORS: &[(&str, &str)] = &[")
    for name in sorted(operators):
        versions = sorted(operators[name], key=lambda s: s.since_version)
        kinds, last = collections.defaultdict(list), {}
        for schema, after in zip(versions, versions[1:] + [None]):
            for a in schema.attributes.values():
                kind = KINDS[a.type.name]
                if kind not in kinds[a.name]:
                    kinds[a.name].append(kind)
                last[a.name] = after and after.since_version - 1
        for a, (kind, until) in BESIDE.get(name, {}).items():
            kinds[a], last[a] = [kind], until
        texts = [f"{a}:{'|'.join(kinds[a])}" + (f"..{last[a]}" if last[a] else "") for a in sorted(kinds)]
        print(f'    ("{name}", "{" ".join(texts)}"),')
    print("];")


if __name__ == "__main__":
    main()
