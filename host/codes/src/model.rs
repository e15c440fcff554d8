//! Error codes 01 and 02: models and their nodes, with their pages.

codes! {
    JOB_FAILED = "GE-E0001", FAILED,
        "the job failed",
        "The work could not be finished, or the answer is no; nothing is wrong with how the command was used. The message says what stood in the way.",
        "Do what the message says, then run the command again.",
        "ge run model.om --random 1 > /dev/full\n  stdout cannot be written: free the disk, or write elsewhere";

    NO_FRONT_END = "GE-E0101", DAMAGED,
        "no front end reads the file",
        "The file is no OM, no text form of ge, and no enabled front end takes it for a model of its framework. Check that it is the model and whole; `ge plugin list` shows the front ends.",
        "Give an ONNX model, a `.ge` text or an OM. The error says what the file looks like and how to make a model of it.",
        "ge compile notes.txt -o m.om\n  right: ge compile model.onnx -o m.om";

    DATA_OUTSIDE = "GE-E0106", DAMAGED,
        "external data leads out of the model's folder",
        "A model may only name files in its own folder: absolute paths, `..` and links that lead out are refused.",
        "Put the data beside the model, and name it by a path without `..`.",
        "location = \"../../etc/passwd\" in external_data\n  right: put the data beside the model and name it relatively";

    DATA_MISSING = "GE-E0107", USAGE,
        "external data is missing",
        "The model names a file beside it that is not there or cannot be read.",
        "Copy the named file beside the model: exporters write both.",
        "rm big.onnx.data; ge compile big.onnx -o m.om\n  right: big.onnx and big.onnx.data in one folder";

    TEXT_FORM = "GE-E0120", DAMAGED,
        "the text form cannot be read",
        "The place is given by line and column, with what was found and what would be right there.",
        "Mend the text at the place that is named.",
        "%r = Relu(%x : f32[8]\n  right: %r = Relu(%x) : f32[8]";

    TEXT_NAME = "GE-E0121", DAMAGED,
        "a name in the text is unknown or given twice",
        "Each node has one name in its graph; values are defined before they are used.",
        "Rename one of the two, or define the value above its reader.",
        "%r = Relu(%y) : f32[8] where no %y stands above";

    TEXT_CONSTANT = "GE-E0122", DAMAGED,
        "a constant of the text form does not fit",
        "The number of elements differs from the shape, an element is out of range, or the side file is missing or too short.",
        "Make the number of elements that of the shape, or give the whole side file.",
        "dense<f32[2]: 1 2 3>\n  right: dense<f32[3]: 1 2 3>";

    INTERRUPTED = "GE-E0130", CANCELLED,
        "interrupted",
        "Ctrl-C ended the work. Nothing half-written is left; start the command again.",
        "Start the command again.",
        "Ctrl-C while `ge compile big.onnx` runs";

    GRAPH_RULE = "GE-E0140", DAMAGED,
        "the graph breaks a rule of the IR",
        "The verifier names the rule (V1 to V18) and the node: arity, types, order, cycles, subgraphs.",
        "Mend the node that is named; `ge opt --verify-each` finds the pass that breaks a graph.",
        "an Add with one input\n  right: %c = Add(%a, %b) : f32[8]";

    NOT_SUPPORTED = "GE-E0200", UNSUPPORTED,
        "not supported",
        "The model, a device option or an input needs something that no enabled plugin offers. The message names it.",
        "Take what is not supported out of the model, or enable a plugin that brings it.",
        "ge run m.om --random 1 --device-option foo=1\n  right: schedule, check_races, time, fault";

    NO_PROTOTYPE = "GE-E0201", UNSUPPORTED,
        "an operator is unknown or not supported here",
        "No enabled plugin brings a prototype for the operator, or its shapes cannot be inferred. `ge plugin list` shows what is loaded.",
        "Check the operator's name, or enable the plugin that brings it.",
        "a node of type `MyOp` without the plugin that brings it";

    NO_ENGINE = "GE-E0207", UNSUPPORTED,
        "no enabled engine can run a node",
        "Every engine was asked, and each reason is listed. Enable another engine, or change the type or attribute that all of them refuse.",
        "Enable an engine that takes the node, or change the type or attribute that all of them refuse.",
        "Softmax over f64 with `cpu` disabled in plugins.toml\n  right: enable `cpu`, or --set ge.exec.precision_mode=force_fp32";

    BOUND_ENGINE = "GE-E0208", UNSUPPORTED,
        "the engine that a node asks for cannot take it",
        "The attribute `_engine` binds a node; the engine does not exist, is excluded or refuses it, and says why.",
        "Leave `_engine` out, or name an engine that takes the node: `ge plugin list` shows them.",
        "%r = Relu(%x) {_engine = \"DNN_HCCL\"} : f32[8]";

    FALLBACK = "GE-E0209", FAILED,
        "a node falls back to an AI CPU engine",
        "Asked for by `--fail-on-fallback`: no faster engine takes the node. The reasons are listed by engine.",
        "Change the node so that a faster engine takes it: the reasons say what stands in the way. Or drop the flag.",
        "ge compile lstm.onnx --fail-on-fallback=LSTM\n  right: without the flag, or with an engine that takes LSTM";

    REFUSED_LATE = "GE-E0210", UNSUPPORTED,
        "an engine took a node and refuses it when it is built",
        "Its op store said yes; asked for sizes or tasks it says no, when plans stand on its yes. The help names the engines that would have the node instead.",
        "Exclude the engine for this node as the help says, and tell the plugin's author.",
        "exclude_engines = [\"AcmeEngine\"] at the plugin's entry in plugins.toml";
}
