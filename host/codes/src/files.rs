//! Error codes 04: files, with their pages.

codes! {
    DAMAGED_FILE = "GE-E0400", DAMAGED,
        "a file is damaged",
        "The file is not what its name or its beginning says: it was cut, changed, or never was one.",
        "Make or copy the file again.",
        "head -c 40 seven.png > cut.png; ge run m.om --input image=cut.png";

    OTHER_VERSION = "GE-E0401", UNSUPPORTED,
        "an OM file is of another version",
        "The OM was written by another version of ge, whose form this one does not read. The message says which.",
        "Compile the model again with this version of ge.",
        "ge run old.om, where old.om was written before the form changed\n  right: compile the model again";

    DAMAGED_OM = "GE-E0402", DAMAGED,
        "an OM file says something that does not hold",
        "A number in it points outside of what it indexes, or a part is missing.",
        "Compile the model again. If a fresh OM is refused, that is a bug: report it.",
        "an OM with a changed byte and a checksum made right again";

    UNWRITABLE = "GE-E0403", FAILED,
        "a file cannot be written",
        "The folder is missing, closed to you, or the disk is full. Nothing half-written is left.",
        "Free the disk, check the permissions, or write elsewhere.",
        "ge compile model.onnx -o /missing/m.om";

    FOREIGN_OM = "GE-E0404", UNSUPPORTED,
        "the OM was written by another product",
        "It can be looked into, not run: its kernels are for hardware that ge does not drive.",
        "Compile the model from its source with `ge compile`.",
        "ge inspect atc.om";

    DAMAGED_ARRAY = "GE-E0405", DAMAGED,
        "a file of arrays is damaged",
        "The file is no `.npy` or `.npz` file, or it is cut; or the list of tensors beside arrays is no JSON.",
        "Save or copy the array again.",
        "head -c 40 x.npy > in/input_0.npy; ge run m.om --inputs in";

    WEIGHTS_MISSING = "GE-E0406", USAGE,
        "weights beside the OM are missing",
        "With `ge.externalWeight` 1 or 2 the weights lie in the folder `weight` beside the OM and travel with it.",
        "Copy the folder `weight` beside the OM.",
        "mv model.om /srv/models/\n  right: mv weight model.om /srv/models/";

    WEIGHTS_CHANGED = "GE-E0407", DAMAGED,
        "weights beside the OM were changed",
        "Each file of weights is known by its digest, and this one is not what the OM was written with.",
        "Copy the right files, or compile the model again.",
        "a byte of weight/weight_… changed after `ge compile model.onnx --set ge.externalWeight=1`";

    NOT_COMPILED = "GE-E0408", USAGE,
        "the file is not compiled yet",
        "`ge check` says whether an OM file runs here. A model's source has first to be compiled.",
        "Compile it with `ge compile`; `ge inspect MODEL --support` says whether it can be.",
        "ge check model.onnx\n  right: ge compile model.onnx -o model.om; ge check model.om";
}
