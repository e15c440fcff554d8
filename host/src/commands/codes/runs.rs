//! Pages of codes. Devices, plans, results, bugs: 06 to 09.
use super::{Page, p};

/// The pages, by code.
pub const PAGES: &[Page] = &[
    p(
        "GE-E0600",
        "the device failed",
        "The device's own words follow: a deadlock, a race, a fault that was asked for.",
        "Take the device's words: a fault that was asked for goes with its option, a deadlock or race is to be reported.",
        "ge run m.om --random 1 --device-option fault=fail:3",
    ),
    p(
        "GE-E0601",
        "an engine that an OM needs is not loaded",
        "The OM names the engines of its tasks; one is disabled or missing.",
        "Enable the plugin that brings the engine, or compile the model again without it.",
        "enabled = false for plugin `nn`, then ge run m.om\n  right: enabled = true",
    ),
    p(
        "GE-E0602",
        "no device",
        "A model runs on a device, and no enabled plugin brings one.",
        "Enable plugin `sim` in plugins.toml.",
        "enabled = false for plugin `sim`\n  right: [[plugin]]\n  name = \"sim\"",
    ),
    p(
        "GE-E0701",
        "memory cannot be planned",
        "The file of buffers cannot be read, is not in its form, or does not fit the capacity.",
        "Mend the line that is named, or raise `--capacity`.",
        "id,lower,upper,size\n0,0,3,1024",
    ),
    p(
        "GE-E0702",
        "streams cannot be planned",
        "The file of the graph cannot be read, or is not in the form that `ge plan streams` takes.",
        "Mend the place that is named.",
        "ge plan streams notes.txt -o plan.json\n  right: ge plan streams graph.json -o plan.json --mode parallel:4",
    ),
    p(
        "GE-E0703",
        "the model needs more memory than the SoC has",
        "Feature map, inputs and outputs, weights and variables together are larger than the memory of the SoC that the model is compiled for, so that no device of that kind could load it. The largest holders are named, by node and bytes.",
        "Check the sizes of the inputs (`--input-shape`), take a smaller batch, or compile for a SoC with more memory.",
        "ge compile model.onnx -o m.om --input-shape \"x:4294967296,3,224,224\"\n  right: ge compile model.onnx -o m.om --input-shape \"x:8,3,224,224\"",
    ),
    p(
        "GE-E0801",
        "an output has another shape than expected",
        "Asked for by `--expect`: the folder's output has other sizes than the one that was computed.",
        "Compare with outputs of the same input sizes.",
        "ge run m.om --inputs in --expect out, where out/output_0.npy is of another batch",
    ),
    p(
        "GE-E0802",
        "an output differs from what was expected",
        "Asked for by `--expect`: an element is beyond `--atol + --rtol * |expected|`. The one that passes it by most is shown.",
        "Raise `--rtol` and `--atol` if the difference is rounding; else find the first node that differs with `ge compare`.",
        "ge run m.om --inputs in --expect out --rtol 1e-2",
    ),
    p(
        "GE-E0803",
        "a node computes no finite number",
        "Asked for by `--check-numerics`: the first node whose output has a NaN or an infinity.",
        "Look at the node's inputs with `--dump-tensors DIR`; in half precision keep it in f32 with `ge.exec.keep_dtype`.",
        "ge run m.om --random 1 --check-numerics --dump-tensors dump",
    ),
    p(
        "GE-E0804",
        "there is nothing to compare",
        "No tensor of the first model has its counterpart in the second, or a name of the reference may mean several. Tensors are paired by the model's own names, outputs also by position.",
        "Save tensors under the names of the model (`ge inspect MODEL --what graph`), or as `ge run --dump-tensors` does.",
        "ge compare a.om b.npz --random 1, where b.npz has other names\n  right: names as `ge run --dump-tensors` writes them (conv1_0), or output_0, output_1 …",
    ),
    p(
        "GE-E0900",
        "a bug of ge",
        "Something that should hold did not. Please report it with the bundle that the message names.",
        "Report it with the bundle that the message names.",
        "ge opt --repro BUNDLE",
    ),
];
