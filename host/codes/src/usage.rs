//! Error codes 03: command use, options and what a model asks for, with their pages.

codes! {
    USAGE = "GE-E0300", USAGE,
        "the command is not used as it is meant",
        "A flag, a value or a combination is not right. `ge COMMAND --help` shows a line that runs.",
        "`ge COMMAND --help` shows the flags and a line that runs.",
        "ge compile\n  right: ge compile model.onnx -o model.om";

    OPTION_FORM = "GE-E0301", USAGE,
        "an option is written wrongly",
        "`--set` takes the name of an option and its value as one word, joined by `=`.",
        "Write NAME=VALUE without spaces.",
        "--set ge.oo.level O1\n  right: --set ge.oo.level=O1";

    INPUT = "GE-E0302", USAGE,
        "an input does not fit the model",
        "An input is missing, or has another type or shape than the model takes.",
        "Give every input once, in the type and sizes that `ge inspect` lists; `--cast` converts types.",
        "numpy.save('in/input_0.npy', x) with x of float64 for f32[3,4]\n  right: numpy.save('in/input_0.npy', x.astype('float32')), or --cast";

    UNKNOWN_NAME = "GE-E0303", USAGE,
        "an unknown name",
        "An option, value, pass, stage, part or input of that name does not exist; the nearest is named.",
        "Take the name that the help proposes, or one of the list.",
        "--set ge.oo.levle=O1\n  right: --set ge.oo.level=O1";

    OPTION_VALUE = "GE-E0304", USAGE,
        "an option's value is not allowed",
        "The values that are allowed are listed; `ge compile --help-options` shows all.",
        "Take one of the values that are listed.",
        "--set ge.oo.level=O2\n  right: --set ge.oo.level=O3";

    UNREADABLE = "GE-E0305", USAGE,
        "a file cannot be read",
        "The path does not exist, is a folder, or is closed to you. Nothing was changed.",
        "Check the path and the permissions.",
        "ge run modle.om --random 1\n  right: ge run model.om --random 1";

    OPTIONS_FILE = "GE-E0306", USAGE,
        "an options file is not what it should be",
        "It must be JSON: an object of names and values, or atc's nested form.",
        "Write the file as one JSON object.",
        "--options o.json, where o.json holds [\"ge.oo.level\"]\n  right: {\"ge.oo.level\": \"O1\"}";

    INPUT_SHAPE = "GE-E0307", USAGE,
        "`--input-shape` cannot be read",
        "Each entry is NAME:SIZE,SIZE,…, entries are separated by `;`. A name must be an input's, and a size that the model declares cannot be another.",
        "Name each input as `ge inspect` does, and give sizes for what is open only.",
        "--input-shape \"x=1,3,224,224\"\n  right: --input-shape \"x:1,3,224,224;mask:1,128\"";

    COMPILED_ALREADY = "GE-E0308", USAGE,
        "the file is compiled already",
        "An OM is the result of `ge compile`; there is nothing left to compile.",
        "Run it with `ge run`, or compile its source.",
        "ge compile model.om -o again.om\n  right: ge run model.om";

    RANKS = "GE-E0309", USAGE,
        "the number of ranks does not fit",
        "Collectives of a model are planned for a number of ranks (`rank_size`), and another was asked for.",
        "Start as many ranks as the model was compiled for, or compile it again.",
        "ge run m.om --ranks 2, for a model of 8 ranks\n  right: ge run m.om --ranks 8";

    SINGLE_STREAM = "GE-E0310", USAGE,
        "single-stream mode does not fit the model",
        "The model wants labels or attached streams, which one stream cannot have.",
        "Leave single-stream mode, or take the labels out of the model.",
        "--set ge.enableSingleStream=true with a `_stream_label`";

    ATTACHED_FORM = "GE-E0311", USAGE,
        "attached-stream information is not what it should be",
        "`_attached_stream_info_list` is a list of dictionaries, each with `_attached_resource_name`; the older attribute is a dictionary with the stream's name. Something else was found.",
        "Give the attribute the form that the message names.",
        "_attached_stream_info_list = [{_attached_resource_required_flag = true}]\n  right: [{_attached_resource_name = \"as1\", _attached_resource_required_flag = true}]";

    ATTACHED_TWICE = "GE-E0312", USAGE,
        "a node asks for several attached streams",
        "A node has at most one attached stream. The node that is named asks for more.",
        "Split the node's work over several nodes.",
        "_attached_stream_info_list with two entries of different names, both required";

    NO_MAIN_STREAM = "GE-E0313", USAGE,
        "an attached stream without a stream",
        "An attached stream runs beside the stream of its node. The node that is named has no task of its own and stands on no stream.",
        "Ask for the attached stream at a node that has tasks.",
        "an attached stream asked for by a Reshape, which has no task";

    ACTIVATION = "GE-E0314", USAGE,
        "a node activates what it cannot",
        "`_active_label_list` names stream labels of other nodes. A label that no node has, or one whose stream the node itself stands on, cannot be woken.",
        "Name a label that another node has.",
        "%s = StreamActive() {_active_label_list = [\"branch\"]} : () without a node of `_stream_label = \"branch\"`";

    STREAM_TOO_SHORT = "GE-E0315", FAILED,
        "nodes that must stay on one stream do not fit it",
        "A stream of the SoC holds so many tasks. A node alone has more, or nodes that a continuous label or a jump holds together have.",
        "Give the nodes fewer tasks or more labels, or compile for a SoC with longer streams.",
        "2,000 nodes of one `_continuous_stream_label` on a SoC with 1,024 tasks a stream";

    SOC_TOO_SMALL = "GE-E0316", FAILED,
        "the SoC has fewer streams, events or notifies than the model needs",
        "Long streams are cut into several, joined by events. A SoC with longer streams, or fewer streams in the model, needs less.",
        "Compile for a SoC with more streams, or set fewer streams: `--set ge.x.stream_mode=parallel:2`.",
        "a chain of a million nodes on a SoC with 1,024 streams of 64 tasks";

    STREAM_PROFILE = "GE-E0317", DAMAGED,
        "the profile for streams cannot be used",
        "`ge.x.stream_profile` names a file that is missing, or that is not what `ge bench --per-node --json` writes.",
        "Write the profile anew with `ge bench MODEL --per-node --json`.",
        "ge bench model.om --per-node --json > profile.json\n  right: ge compile model.onnx -o model.om --set ge.x.stream_mode=parallel:4 --set ge.x.stream_profile=profile.json";

    TUNING_FILE = "GE-E0353", DAMAGED,
        "the tuning file cannot be used",
        "`ge.x.tuning_file` names a file that is not what `ge tune` writes; or `ge tune -o` names a file of another kind, to which it does not add.",
        "Write the file anew with `ge tune MODEL -o FILE`.",
        "ge tune model.onnx -o tuned.json\n  right: ge compile model.onnx -o model.om --set ge.x.tuning_file=tuned.json";

    MODEL_OPTION = "GE-E0318", USAGE,
        "an option or an attribute does not fit the model",
        "What an option, or an attribute of a graph or node, asks for cannot be had of this model. The message says which, the help what fits.",
        "Do what the help says, or leave the option or attribute out.",
        "--set ge.streamMaxParallelNum=NoSuchEngine:4\n  the help lists the engines that are loaded";

    COLLECTIVE_ORDER = "GE-E0319", USAGE,
        "ranks do their collectives in different orders",
        "Each rank of a group takes part in the same collectives, of the same data, in the same order; else they wait for each other for ever. The message names the first pair that differs.",
        "Give all ranks one model, or models whose collectives have one order.",
        "rank 0: HcomAllReduce, HcomAllGather; rank 1: HcomAllGather, HcomAllReduce";

    FIXED_PASS = "GE-E0320", USAGE,
        "a pass cannot be switched",
        "Passes of level O0 are needed for right results: they always run. `ge.optimizationSwitch` or `ge.fusionSwitchFile` names one.",
        "Take the name out; `ge opt --list` shows the level of each pass.",
        "--set ge.optimizationSwitch=NetOutputPass:off\n  `ge opt --list` shows which passes can be switched";

    OPTIONS_CONTRADICT = "GE-E0321", USAGE,
        "options contradict each other, or one needs another",
        "Two options that are given cannot both hold, or one that is given means something only together with another. The message names both.",
        "Leave one of the two out, or give what the help names.",
        "--set ge.buildMode=tuning\n  right: --set ge.buildMode=tuning --set ge.buildStep=after_builder --set ge.tuningPath=DIR";

    IO_REUSE = "GE-E0322", USAGE,
        "inputs or outputs cannot give their memory as asked",
        "`ge.exec.inputReuseMemIndexes`, `ge.exec.outputReuseMemIndexes` or `ge.exec.outputReuseInputMemIndexes` names an input or output that the model does not have, or a pair that cannot share one address.",
        "Take the index or the pair out of the option.",
        "--set ge.exec.outputReuseInputMemIndexes=\"0,0\" where output 0 is larger than input 0";

    EVENT_NUMBERS = "GE-E0323", USAGE,
        "the numbers of events cannot be as the model asks",
        "`_event_multiplexing` gives events of pairs of nodes one number. An entry is not of its form, names a node that is gone, or gives one number to events whose waits nothing orders.",
        "Write entries as `SendTo;NODE;NUMBER` or `RecvFrom;NODE;NUMBER`, and give one number only where the first wait is over before the second record.",
        "_event_multiplexing = [\"SendTo;relu\"]\n  right: [\"SendTo;relu;3\"]";

    SLEEPING_STREAM = "GE-E0324", USAGE,
        "a node waits for what may never run",
        "A stream that a switch wakes may sleep in a run. A node outside of the branch waits for a node on it and would wait for ever.",
        "End every branch with a StreamActive that wakes the stream of the node that joins them.",
        "an Add that reads a node of one branch of a StreamSwitch, without a StreamMerge";

    MEMORY_WISH = "GE-E0325", USAGE,
        "memory that a node asks for cannot be given",
        "Attributes ask for a type of memory that no device has, for two places of one value that cannot be one, for a buffer pool that is too small, for no task where the node computes something, or a value is larger than any memory.",
        "Do what the help says: the message names node and attribute.",
        "_output_memory_type = [\"L9\"]\n  memory types are HBM, P2P, HOST, TS, L1, L2 and UB";

    GEARS = "GE-E0326", USAGE,
        "gears cannot be read",
        "`--dim`, `--dynamic-batch-size`, `--dynamic-image-size` and `--dynamic-dims` say sizes for which the model gets a static plan each: 2 to 100 of them, each once, every open size of every input set by them.",
        "Name open sizes with `--input-shape` and give the sizes of each name.",
        "ge compile m.onnx -o m.om --input-shape \"x:?,3,224,224\" --dim b=1,4,8\n  right: --input-shape \"x:b,3,224,224\" --dim b=1,4,8";

    NO_GEAR = "GE-E0327", USAGE,
        "no gear has the sizes of the inputs",
        "The model was compiled for several sizes, and a run takes exactly one of them; nothing is padded.",
        "Give inputs of a gear that `ge inspect` lists, or compile the model again with one more.",
        "ge compile m.onnx -o m.om --dim b=1,4,8, then inputs of b=6\n  add it: ge compile m.onnx -o m.om --dim b=1,4,6,8";

    STATE = "GE-E0328", USAGE,
        "the state of a model does not fit it",
        "`--state OUT:IN` says that an output is an input of the next step: both must be there, of one type and with sizes that can be one value's.",
        "Name outputs and inputs as `ge inspect` does; leave sizes open that grow from step to step.",
        "ge compile decoder.onnx -o d.om --state past_key:present_key\n  right: --state present_key:past_key";

    OPEN_GEAR = "GE-E0329", UNSUPPORTED,
        "a gear cannot be planned",
        "Memory of the caller that the model writes to (a `RefData`, an `AippData`) has one size, which no gear can change.",
        "Compile without gears: one OM then runs any sizes, by plans that are made as it runs.",
        "ge compile step.ge -o s.om --dim b=1,4\n  right: ge compile step.ge -o s.om";

    GRAPH_NUMBER = "GE-E0330", USAGE,
        "no graph, or already one, of that number",
        "A `GraphManager` knows each graph by the number that it was added under.",
        "Add the graph first, and each number once.",
        "manager.add_graph(1, model, OptionMap::default())?;";

    VARIABLE = "GE-E0331", USAGE,
        "a variable does not fit",
        "Models of one session share variables by name: one type and shape in all of them, and in what is restored. The error names the variable and both.",
        "Give the variable one type and shape in every graph, or restore a file that was saved by the same model.",
        "ge run m.om --restore-variables other.safetensors";

    VARIABLE_PATHS = "GE-E0332", USAGE,
        "it is not clear which variable is written",
        "A graph that a node calls gets one variable by two ways and writes it, or a name is a variable in one graph and another node in the next. The order of reads and writes would be unknown.",
        "Give the variable to the graph by one input, or name it in the graph; give different things different names.",
        "a While that gets variable `n` as two of its inputs and assigns to one of them";

    TILING_SINK = "GE-E0340", FAILED,
        "an attribute does not go with tiling on the device",
        "A node is to be tiled on the device and carries an attribute that forbids it, or lacks one that it needs. The message names both.",
        "Remove the attribute, or switch tiling on the device off: `--set ge.tiling_schedule_optimize=0`.",
        "`_op_exec_never_timeout` on a tiling-sink node: remove the attribute";

    OPEN_SIZES = "GE-E0342", UNSUPPORTED,
        "shapes are unknown",
        "A node exchanges data with other ranks, or is memory of a plan: that needs every size. The nodes are named; with all sizes given they can be compiled.",
        "Give sizes by `--input-shape`, or values by `--input NAME=VALUE`.",
        "ge compile model.onnx -o model.om --input-shape \"x:1,3,224,224\"";

    STAGE_LEVELS = "GE-E0343", USAGE,
        "stage levels are in the wrong order",
        "Levels are computed one after the other: a node of one `_stage_level` needs what a later level computes.",
        "Number the levels in the order in which they need each other.",
        "%b = Relu(%a) {_stage_level = 0}, where %a has _stage_level = 1";

    CONTROL_FLOW = "GE-E0350", UNSUPPORTED,
        "a control-flow node cannot run on the device",
        "An If, Case or While has a form that labels on the device cannot express; the message says which part.",
        "Change the part that the message names, or write the loop out before the export.",
        "a While whose condition is no single value";

    BRANCH = "GE-E0351", UNSUPPORTED,
        "a branch cannot be computed with these shapes",
        "A branch of an If or Case has a node whose inputs do not fit it, while other branches are sound: models often hold a branch for each of several sizes, of which a run takes the one that suits. Such a model is compiled with a warning that names the branch; a run that takes it is refused. Gears must fit every branch.",
        "Give the run sizes that the branch takes, and compile for those with `--input-shape`, or for any without it. `--input NAME=VALUE` leaves the branch out when the model is compiled.",
        "ge compile voice.onnx -o voice.om --input-shape \"input:1,576\"\n  a run with sr = 16000 takes the branch of that rate; one with sr = 8000 is refused, for its branch takes 288 samples";

    TOO_DEEP = "GE-E0352", USAGE,
        "graphs stand too deep within each other",
        "Graphs within graphs are laid out one in the other. There are more levels, or more control nodes counted in each place of use, than can be held.",
        "Make the nesting of subgraphs smaller.",
        "an If within an If within an If …, 26 levels deep";
}
