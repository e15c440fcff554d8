//! Error codes 06 to 09: devices, plans, results and bugs, with their pages.

codes! {
    DEVICE_FAILED = "GE-E0600", DEVICE,
        "the device failed",
        "The device's own words follow: a deadlock, a race, a fault that was asked for.",
        "Take the device's words: a fault that was asked for goes with its option, a deadlock or race is to be reported.",
        "ge run m.om --random 1 --device-option fault=fail:3";

    ENGINE_OF_OM = "GE-E0601", UNSUPPORTED,
        "an engine that an OM needs is not loaded",
        "The OM names the engines of its tasks; one is disabled or missing.",
        "Enable the plugin that brings the engine, or compile the model again without it.",
        "enabled = false for plugin `nn`, then ge run m.om\n  right: enabled = true";

    NO_DEVICE = "GE-E0602", UNSUPPORTED,
        "no device",
        "A model runs on a device, and no enabled plugin brings one.",
        "Enable plugin `sim` in plugins.toml.",
        "enabled = false for plugin `sim`\n  right: [[plugin]]\n  name = \"sim\"";

    STREAMS_TAKEN = "GE-E0603", DEVICE,
        "the device has not enough streams left",
        "A device gives so many streams at once, to all models on it together. The model needs more than there are, or than others have left.",
        "Unload another model, give both the same stream priority, or compile with fewer streams.",
        "a model of 2,025 streams on a device that gives 2,024 at once";

    ENGINE_VERSION = "GE-E0604", UNSUPPORTED,
        "an engine has another version than when the model was compiled",
        "Kernels are read by the plugin that wrote them. A plugin runs what an older one of its major version wrote (of its minor version before 1.0), not what a newer one did. `ge check` says the same of a file.",
        "Compile the model again, or install the version of the plugin that the message names.",
        "ge run m.om --random 1, where the model was compiled with `acme` 2.0.0 and 1.4.0 is here";

    OWN_ADDRESSES = "GE-E0605", UNSUPPORTED,
        "the device has addresses of its own",
        "A run lends the device the caller's memory, and kernels are functions of this process: a device whose addresses are not those of the process (`unified_address = false`) can describe SoCs to compile for, and runs nothing.",
        "Run the model on another device, `--device sim`.",
        "ge run m.om --device board --random 1, where `board` says `unified_address: false`";

    MEMORY_PLAN = "GE-E0701", FAILED,
        "memory cannot be planned",
        "The buffers do not fit the capacity, or one of them is larger than any memory.",
        "Raise `--capacity`, or make the buffers smaller.",
        "ge plan memory buffers.csv -o plan.csv --capacity 1024, with a buffer of 2,048 bytes";

    STREAM_PLAN = "GE-E0702", FAILED,
        "streams cannot be planned",
        "No plan holds the limits that were asked for; the message says which.",
        "Raise the limit that is named, or ask for fewer streams.",
        "ge plan streams graph.json -o plan.json --mode parallel:4 --memory 0";

    MEMORY = "GE-E0703", FAILED,
        "the model needs more memory than the SoC has",
        "Feature map, inputs and outputs, weights and variables together are larger than the memory of the SoC that the model is compiled for, so that no device of that kind could load it. The largest holders are named, by node and bytes.",
        "Check the sizes of the inputs (`--input-shape`), take a smaller batch, or compile for a SoC with more memory.",
        "ge compile model.onnx -o m.om --input-shape \"x:4294967296,3,224,224\"\n  right: ge compile model.onnx -o m.om --input-shape \"x:8,3,224,224\"";

    OTHER_SHAPE = "GE-E0801", FAILED,
        "an output has another shape than expected",
        "Asked for by `--expect`: the folder's output has other sizes than the one that was computed.",
        "Compare with outputs of the same input sizes.",
        "ge run m.om --inputs in --expect out, where out/output_0.npy is of another batch";

    OTHER_VALUES = "GE-E0802", FAILED,
        "an output differs from what was expected",
        "Asked for by `--expect`: an element is beyond `--atol + --rtol * |expected|`. The one that passes it by most is shown.",
        "Raise `--rtol` and `--atol` if the difference is rounding; else find the first node that differs with `ge compare`.",
        "ge run m.om --inputs in --expect out --rtol 1e-2";

    NOT_FINITE = "GE-E0803", FAILED,
        "a node computes no finite number",
        "Asked for by `--check-numerics`: the first node whose output has a NaN or an infinity.",
        "Look at the node's inputs with `--dump-tensors DIR`; in half precision keep it in f32 with `ge.exec.keep_dtype`.",
        "ge run m.om --random 1 --check-numerics --dump-tensors dump";

    NOTHING_TO_COMPARE = "GE-E0804", USAGE,
        "there is nothing to compare",
        "No tensor of the first model has its counterpart in the second, or a name of the reference may mean several. Tensors are paired by the model's own names, outputs also by position.",
        "Save tensors under the names of the model (`ge inspect MODEL --what graph`), or as `ge run --dump-tensors` does.",
        "ge compare a.om b.npz --random 1, where b.npz has other names\n  right: names as `ge run --dump-tensors` writes them (conv1_0), or output_0, output_1 …";

    BUG = "GE-E0900", INTERNAL,
        "a bug of ge",
        "Something that should hold did not. Please report it with the bundle that the message names.",
        "Report it with the bundle that the message names.",
        "ge opt --repro BUNDLE";
}
