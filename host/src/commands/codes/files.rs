//! Pages of codes. Files: 04.
use super::{Page, p};

/// The pages, by code.
pub const PAGES: &[Page] = &[
    p(
        "GE-E0400",
        "a file is damaged",
        "The file is not what its name or its beginning says: it was cut, changed, or never was one.",
        "Make or copy the file again.",
        "head -c 40 seven.png > cut.png; ge run m.om --input image=cut.png",
    ),
    p(
        "GE-E0401",
        "an OM file cannot be opened",
        "It is missing, cut, changed, or of another version: the message says which.",
        "Check the path; compile the model again with this version of ge.",
        "head -c 100 m.om > cut.om; ge run cut.om\n  right: compile the model again",
    ),
    p(
        "GE-E0402",
        "an OM file says something that does not hold",
        "A number in it points outside of what it indexes, or a part is missing.",
        "Compile the model again. If a fresh OM is refused, that is a bug: report it.",
        "an OM with a changed byte and a checksum made right again",
    ),
    p(
        "GE-E0403",
        "a file cannot be written",
        "The folder is missing, closed to you, or the disk is full. Nothing half-written is left.",
        "Free the disk, check the permissions, or write elsewhere.",
        "ge compile model.onnx -o /missing/m.om",
    ),
    p(
        "GE-E0404",
        "the OM was written by another product",
        "It can be looked into, not run: its kernels are for hardware that ge does not drive.",
        "Compile the model from its source with `ge compile`.",
        "ge inspect atc.om",
    ),
    p(
        "GE-E0405",
        "a `.npy` file is damaged or does not fit",
        "The file is no .npy file, is cut, or has another element type than the input.",
        "Save the array in the type that the error names, or convert it with `--cast`.",
        "numpy.save('in/input_0.npy', x) with x of float64\n  right: numpy.save('in/input_0.npy', x.astype('float32')), or --cast",
    ),
    p(
        "GE-E0406",
        "weights beside the OM are missing",
        "With `ge.externalWeight` 1 or 2 the weights lie in the folder `weight` beside the OM and travel with it.",
        "Copy the folder `weight` beside the OM.",
        "mv model.om /srv/models/\n  right: mv weight model.om /srv/models/",
    ),
    p(
        "GE-E0407",
        "weights beside the OM were changed",
        "Each file of weights is known by its digest, and this one is not what the OM was written with.",
        "Copy the right files, or compile the model again.",
        "a byte of weight/weight_… changed after `ge compile model.onnx --set ge.externalWeight=1`",
    ),
];
