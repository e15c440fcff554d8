//! Pages of the error codes: what each means, what to do, an example. A test holds that every code of the sources has one.

/// One code.
pub struct Page {
    /// Code.
    pub code: &'static str,
    /// One line: what it means.
    pub title: &'static str,
    /// Why it comes and what to do.
    pub text: &'static str,
    /// Commands or input that bring it, and what is right.
    pub example: &'static str,
}

const fn p(code: &'static str, title: &'static str, text: &'static str, example: &'static str) -> Page {
    Page { code, title, text, example }
}

/// All pages, by code.
pub const PAGES: &[Page] = &[
    p(
        "GE-E0001",
        "the job failed",
        "The work could not be finished, or the answer is no. The message says what stood in the way.",
        "ge run model.om --random 1 > /dev/full\n  stdout cannot be written: free the disk, or write elsewhere",
    ),
    p(
        "GE-E0101",
        "no front end reads the file",
        "The file is no OM, no text form of ge, and no enabled front end takes it for a model of its framework. Check that it is the model and whole; `ge plugin list` shows the front ends.",
        "ge compile notes.txt -o m.om\n  right: ge compile model.onnx -o m.om",
    ),
    p(
        "GE-E0102",
        "the model file is damaged or contradicts itself",
        "The file is cut, a length in it points outside, a tensor's bytes do not fit its shape, or nodes form a cycle. Export or copy the model again.",
        "head -c 1000 model.onnx > cut.onnx; ge compile cut.onnx -o m.om",
    ),
    p(
        "GE-E0103",
        "an external data file is asked for where there is none",
        "The model names a file beside it, but came without a folder. Give the model by its path.",
        "ge compile models/big.onnx -o m.om (with its data beside it)",
    ),
    p(
        "GE-E0104",
        "the model uses something that its front end does not map",
        "An operator, an attribute or an opset has no mapping. All such nodes are listed at once. A plugin can add mappings for its own domain (docs/plugins.md).",
        "an ONNX node of domain `com.example` without the plugin that maps it",
    ),
    p(
        "GE-E0106",
        "external data leads out of the model's folder",
        "A model may only name files in its own folder: absolute paths, `..` and links that lead out are refused.",
        "location = \"../../etc/passwd\" in external_data\n  right: put the data beside the model and name it relatively",
    ),
    p(
        "GE-E0107",
        "external data is missing",
        "The model names a file beside it that is not there or cannot be read.",
        "big.onnx names big.onnx.data: copy both files",
    ),
    p(
        "GE-E0120",
        "the text form cannot be read",
        "The place is given by line and column, with what was found and what would be right there.",
        "%r = Relu(%x : f32[8]\n  right: %r = Relu(%x) : f32[8]",
    ),
    p(
        "GE-E0121",
        "a name in the text is unknown or given twice",
        "Each node has one name in its graph; values are defined before they are used.",
        "%r = Relu(%y) : f32[8] where no %y stands above",
    ),
    p(
        "GE-E0122",
        "a constant of the text form does not fit",
        "The number of elements differs from the shape, an element is out of range, or the side file is missing or too short.",
        "dense<f32[2]: 1 2 3>\n  right: dense<f32[3]: 1 2 3>",
    ),
    p(
        "GE-E0130",
        "interrupted",
        "Ctrl-C ended the work. Nothing half-written is left; start the command again.",
        "Ctrl-C in `ge compile`",
    ),
    p(
        "GE-E0140",
        "the graph breaks a rule of the IR",
        "The verifier names the rule (V1 to V18) and the node: arity, types, order, cycles, subgraphs.",
        "an Add with one input\n  right: %c = Add(%a, %b) : f32[8]",
    ),
    p(
        "GE-E0200",
        "not supported",
        "The model needs something that no enabled plugin offers.",
        "a device option that the device does not know",
    ),
    p(
        "GE-E0201",
        "an operator is unknown or not supported here",
        "No enabled plugin brings a prototype for the operator, or its shapes cannot be inferred. `ge plugin list` shows what is loaded.",
        "a node of type `MyOp` without the plugin that brings it",
    ),
    p(
        "GE-E0207",
        "no enabled engine can run a node",
        "Every engine was asked, and each reason is listed. Enable another engine, or change the type or attribute that all of them refuse.",
        "Softmax over f64 with `cpu` disabled in plugins.toml\n  right: enable `cpu`, or --set ge.exec.precision_mode=force_fp32",
    ),
    p(
        "GE-E0208",
        "the engine that a node asks for cannot take it",
        "The attribute `_engine` binds a node; the engine does not exist, is excluded or refuses it, and says why.",
        "%r = Relu(%x) {_engine = \"DNN_HCCL\"} : f32[8]",
    ),
    p(
        "GE-E0209",
        "a node falls back to an AI CPU engine",
        "Asked for by `--fail-on-fallback`: no faster engine takes the node. The reasons are listed by engine.",
        "ge compile model.onnx -o m.om --fail-on-fallback",
    ),
    p(
        "GE-E0210",
        "an engine took a node and refuses it when it is built",
        "Its op store said yes; asked for sizes or tasks it says no, when plans stand on its yes. The help names the engines that would have the node instead.",
        "exclude_engines = [\"AcmeEngine\"] at the plugin's entry in plugins.toml",
    ),
    p(
        "GE-E0300",
        "the command is not used as it is meant",
        "A flag, a value or a combination is not right. `ge COMMAND --help` shows a line that runs.",
        "ge compile\n  right: ge compile model.onnx -o model.om",
    ),
    p(
        "GE-E0301",
        "an option is written wrongly",
        "`--set` takes NAME=VALUE.",
        "--set ge.oo.level O1\n  right: --set ge.oo.level=O1",
    ),
    p(
        "GE-E0302",
        "an input does not fit the model",
        "An input is missing, or has another type or shape than the model takes.",
        "ge run m.om --inputs DIR with input_0.npy of shape (4, 3) for f32[3,4]\n  `ge inspect m.om` lists the inputs",
    ),
    p(
        "GE-E0303",
        "an unknown name",
        "An option, value, pass, stage, part or input of that name does not exist; the nearest is named.",
        "--set ge.oo.levle=O1\n  right: --set ge.oo.level=O1",
    ),
    p(
        "GE-E0304",
        "an option's value is not allowed",
        "The values that are allowed are listed; `ge compile --help-options` shows all.",
        "--set ge.oo.level=O2\n  right: --set ge.oo.level=O3",
    ),
    p(
        "GE-E0305",
        "a file cannot be read",
        "The path is missing, a folder, or closed to you.",
        "ge run modle.om --random 1",
    ),
    p(
        "GE-E0306",
        "an options file is not what it should be",
        "It must be JSON: an object of names and values, or atc's nested form.",
        "{\"ge.oo.level\": \"O1\"}",
    ),
    p(
        "GE-E0307",
        "`--input-shape` cannot be read",
        "NAME:SIZE,SIZE for each input, separated by `;`.",
        "--input-shape \"x:1,3,224,224;mask:1,128\"",
    ),
    p(
        "GE-E0308",
        "the file is compiled already",
        "An OM is the result of `ge compile`.",
        "ge compile model.om -o again.om\n  right: ge run model.om",
    ),
    p(
        "GE-E0309",
        "the number of ranks does not fit",
        "The model was compiled for another number of ranks.",
        "ge run m.om --ranks 2 for a model of 8 ranks",
    ),
    p(
        "GE-E0310",
        "single-stream mode does not fit the model",
        "The model wants labels or attached streams, which one stream cannot have.",
        "--set ge.enableSingleStream=true with a `_stream_label`",
    ),
    p(
        "GE-E0311",
        "attached-stream information is not what it should be",
        "`_attached_stream_info` has a form that is not known.",
        "see the attribute's form in DESIGN 7",
    ),
    p(
        "GE-E0312",
        "attached streams contradict each other",
        "Two nodes give one key to streams that differ.",
        "one `attached_reuse_key` with two policies",
    ),
    p(
        "GE-E0313",
        "an attached stream cannot be given",
        "The node stands where no attached stream can be made.",
        "an attached stream asked for in single-stream mode",
    ),
    p(
        "GE-E0314",
        "a node activates what it cannot",
        "`_active_label_list` names stream labels of other nodes. A label that no node has, or one whose stream the node itself stands on, cannot be woken.",
        "%s = StreamActive() {_active_label_list = [\"branch\"]} : () without a node of `_stream_label = \"branch\"`",
    ),
    p(
        "GE-E0315",
        "nodes that must stay on one stream do not fit it",
        "A stream of the SoC holds so many tasks. A node alone has more, or nodes that a continuous label or a jump holds together have.",
        "2,000 nodes of one `_continuous_stream_label` on a SoC with 1,024 tasks a stream",
    ),
    p(
        "GE-E0316",
        "the SoC has fewer streams, events or notifies than the model needs",
        "Long streams are cut into several, joined by events. A SoC with longer streams, or fewer streams in the model, needs less.",
        "a chain of a million nodes on a SoC with 1,024 streams of 64 tasks",
    ),
    p(
        "GE-E0317",
        "the profile for streams cannot be used",
        "`ge.x.stream_profile` names a file that is missing, or that is not what `ge bench --per-node --json` writes.",
        "ge bench model.om --per-node --json > profile.json\n  right: ge compile model.onnx -o model.om --set ge.x.stream_mode=parallel:4 --set ge.x.stream_profile=profile.json",
    ),
    p(
        "GE-E0318",
        "an option or an attribute does not fit the model",
        "What an option, or an attribute of a graph or node, asks for cannot be had of this model: a pass that cannot be switched, a limit that is passed, memory of a type that no device has. The message says which, the help what fits.",
        "--set ge.optimizationSwitch=NetOutputPass:off\n  `ge opt --list` shows which passes can be switched",
    ),
    p(
        "GE-E0319",
        "ranks do their collectives in different orders",
        "Each rank of a group takes part in the same collectives, of the same data, in the same order; else they wait for each other for ever. The message names the first pair that differs.",
        "rank 0: HcomAllReduce, HcomAllGather; rank 1: HcomAllGather, HcomAllReduce",
    ),
    p(
        "GE-E0330",
        "no graph, or already one, of that number",
        "A `GraphManager` knows each graph by the number that it was added under.",
        "manager.add_graph(1, model, OptionMap::default())?;",
    ),
    p(
        "GE-E0331",
        "a variable does not fit",
        "Models of one session share variables by name: one type and shape in all of them, and in what is restored. The error names the variable and both.",
        "ge run m.om --restore-variables other.safetensors",
    ),
    p(
        "GE-E0340",
        "an attribute does not go with tiling on the device",
        "A node is to be tiled on the device and carries an attribute that forbids it, or lacks one that it needs. The message names both.",
        "`_op_exec_never_timeout` on a tiling-sink node: remove the attribute",
    ),
    p(
        "GE-E0342",
        "shapes are unknown",
        "A node holds a value between runs, writes over its input or exchanges data with other ranks: that needs a plan, and a plan needs every size. The nodes are named; with all sizes given they can be compiled.",
        "ge compile model.onnx -o model.om --input-shape \"x:1,3,224,224\"",
    ),
    p(
        "GE-E0343",
        "stage levels are in the wrong order",
        "A node of one `_stage_level` needs what a later level computes.",
        "%b = Relu(%a) {_stage_level = 0}, where %a has _stage_level = 1",
    ),
    p(
        "GE-E0350",
        "a control-flow node cannot run on the device",
        "An If, Case or While has a form that labels on the device cannot express; the message says which part.",
        "a While whose condition is no single value",
    ),
    p(
        "GE-E0351",
        "a branch cannot be computed with these shapes",
        "A branch of an If or Case has a node whose inputs do not fit it, while other branches are sound: models often hold a branch for each of several sizes, of which a run takes the one that suits. Which branch is taken must then be known when the model is compiled.",
        "ge compile voice.onnx -o voice.om --input-shape \"input:1,576\" --input sr=rate.npy\n  the branch of the other rate is left out; the OM runs with this rate alone",
    ),
    p(
        "GE-E0400",
        "a file is damaged",
        "It is not what it claims to be. Make or copy it again.",
        "a truncated .npy file",
    ),
    p(
        "GE-E0401",
        "an OM file cannot be opened",
        "It is missing, cut, changed, or of another version: the message says which.",
        "head -c 100 m.om > cut.om; ge run cut.om\n  right: compile the model again",
    ),
    p(
        "GE-E0402",
        "an OM file says something that does not hold",
        "A number in it points outside of what it indexes, or a part is missing.",
        "an OM with a changed byte and a checksum made right again: compile again",
    ),
    p(
        "GE-E0403",
        "a file cannot be written",
        "The folder is missing, closed to you, or the disk is full. Nothing half-written is left.",
        "ge compile model.onnx -o /missing/m.om",
    ),
    p(
        "GE-E0404",
        "the OM was written by another product",
        "It can be looked into, not run: its kernels are for hardware that ge does not drive.",
        "ge inspect atc.om",
    ),
    p(
        "GE-E0405",
        "a `.npy` file is damaged or does not fit",
        "No .npy, cut, or of another element type than the model takes.",
        "numpy.save('in/input_0.npy', x.astype('float32'))",
    ),
    p(
        "GE-E0406",
        "weights beside the OM are missing",
        "With `ge.externalWeight` 1 or 2 the weights lie in the folder `weight` beside the OM and travel with it.",
        "cp -r weight model.om /srv/models/",
    ),
    p(
        "GE-E0407",
        "weights beside the OM were changed",
        "Each file of weights is known by its digest, and this one is not what the OM was written with.",
        "ge compile model.onnx -o model.om --set ge.externalWeight=1",
    ),
    p(
        "GE-E0500",
        "a plugin failed",
        "The plugin and the call are named. `ge plugin check LIB` tries all of it.",
        "ge plugin check vendor/libge_fast.so",
    ),
    p(
        "GE-E0501",
        "no plugins.toml",
        "None was found, or the one asked for is not there.",
        "ge --plugins etc/plugins.toml plugin list",
    ),
    p(
        "GE-E0502",
        "plugins.toml is wrong",
        "File, line and column are given, with what is right there.",
        "[[plugin]]\nname = \"nn\"\nenabld = true\n  right: enabled = true",
    ),
    p(
        "GE-E0503",
        "a plugin's library is not there",
        "It was looked for on the search path, or at the entry's path.",
        "search = [\"target/release\"] in plugins.toml",
    ),
    p(
        "GE-E0504",
        "not a library",
        "The file is no ELF library, or is cut or damaged.",
        "a text file named libge_nn.so",
    ),
    p(
        "GE-E0505",
        "a library for another machine",
        "It was built for another processor or word size.",
        "an aarch64 library on x86-64: build it here",
    ),
    p(
        "GE-E0506",
        "a library, but no plugin of ge",
        "It has no manifest or no root symbol: it was built without `ge_plugin!`.",
        "path = \"/usr/lib/libz.so\"",
    ),
    p(
        "GE-E0507",
        "a plugin's manifest is wrong",
        "It is damaged, or names another plugin than the entry.",
        "name = \"nn\" with path = \"libge_cpu.so\"",
    ),
    p(
        "GE-E0508",
        "a plugin's version does not meet the requirement",
        "The entry's `version` is a semver requirement.",
        "version = \"^0.2\" with plugin 0.1.0",
    ),
    p(
        "GE-E0509",
        "made for another plugin interface",
        "The major version differs, or the plugin needs a newer minor one.",
        "build the plugin again with this version of ge-plugin-api",
    ),
    p(
        "GE-E0510",
        "a panic of the plugin would end the process",
        "It was built with `panic = \"abort\"`.",
        "[profile.release]\npanic = \"unwind\"",
    ),
    p(
        "GE-E0511",
        "the same library twice",
        "Two entries lead to one library or plugin.",
        "take one of the entries out of plugins.toml",
    ),
    p(
        "GE-E0512",
        "two plugins give the same name",
        "An engine, pass or prototype stands in two plugins. `overrides` says which one wins.",
        "overrides = [\"AIcoreEngine\"] in the entry that is to win",
    ),
    p(
        "GE-E0513",
        "a plugin option is wrong",
        "The key is unknown, or the value is of another type or out of range.",
        "[plugin.options]\nwinograd = true",
    ),
    p(
        "GE-E0514",
        "the system cannot open the library",
        "A library that it needs is missing, or a symbol is undefined.",
        "ldd libge_fast.so",
    ),
    p(
        "GE-E0515",
        "the plugin's types are laid out otherwise",
        "It was built against a changed ge-plugin-api.",
        "build it again with the published crate",
    ),
    p(
        "GE-E0516",
        "a plugin failed at start-up",
        "Its `init` returned an error or panicked; the message is its own.",
        "an option that it needs is not set",
    ),
    p(
        "GE-E0517",
        "a plugin does not give what it says",
        "Counts, names or shapes are not those of its manifest or of the call.",
        "ge plugin check vendor/libge_fast.so",
    ),
    p(
        "GE-E0518",
        "a call into a plugin failed",
        "It panicked, or took the process down; the plugin and the call are named.",
        "enabled = false in plugins.toml leaves the plugin out",
    ),
    p(
        "GE-E0519",
        "a library is not the one it should be",
        "Its digest differs from `sha256` in plugins.toml.",
        "sha256sum libge_nn.so",
    ),
    p(
        "GE-E0520",
        "the probe of a plugin found a fault",
        "`ge plugin check` lists what passed and what did not.",
        "ge plugin check vendor/libge_fast.so",
    ),
    p(
        "GE-E0521",
        "a plugin's change to a graph does not hold",
        "A pass or an engine's optimizer gave a patch that would break the graph; it was not applied.",
        "`ge opt --passes NAME --verify-each` on a small graph shows it",
    ),
    p(
        "GE-E0600",
        "the device failed",
        "The device's own words follow: a deadlock, a race, a fault that was asked for.",
        "ge run m.om --random 1 --device-option fault=fail:3",
    ),
    p(
        "GE-E0601",
        "an engine that an OM needs is not loaded",
        "The OM names the engines of its tasks; one is disabled or missing.",
        "enable the plugin in plugins.toml, or compile the model again",
    ),
    p("GE-E0602", "no device", "No enabled plugin brings a device.", "[[plugin]]\nname = \"sim\""),
    p(
        "GE-E0701",
        "memory cannot be planned",
        "The file of buffers cannot be read, is not in its form, or does not fit the capacity.",
        "id,lower,upper,size\n0,0,3,1024",
    ),
    p(
        "GE-E0702",
        "streams cannot be planned",
        "The file of the graph cannot be read or is not in its form.",
        "ge plan streams graph.json -o plan.json --mode parallel:4",
    ),
    p(
        "GE-E0703",
        "the model needs more memory than the SoC has",
        "Feature map, inputs and outputs, weights and variables together are larger than the memory of the SoC that the model is compiled for, so that no device of that kind could load it. The largest holders are named, by node and bytes. Often an input has a size that was not meant (`--input-shape`), or a batch that is too large.",
        "ge compile model.onnx -o m.om --input-shape \"x:4294967296,3,224,224\"\n  right: ge compile model.onnx -o m.om --input-shape \"x:8,3,224,224\"",
    ),
    p(
        "GE-E0801",
        "an output has another shape than expected",
        "Asked for by `--expect`.",
        "ge run m.om --inputs in --expect out",
    ),
    p(
        "GE-E0802",
        "an output differs from what was expected",
        "The element that passes its tolerance by most is shown.",
        "ge run m.om --inputs in --expect out --rtol 1e-2",
    ),
    p(
        "GE-E0803",
        "a node computes no finite number",
        "Asked for by `--check-numerics`: the first node whose output has a NaN or an infinity.",
        "ge run m.om --random 1 --check-numerics --dump-tensors dump",
    ),
    p(
        "GE-E0804",
        "there is nothing to compare",
        "No tensor of the first model has its counterpart in the second: `ge compare` pairs nodes by name, and graph outputs by position.",
        "ge compare a.om b.npz --random 1, where b.npz has other names\n  right: names as `ge run --dump-tensors` writes them (conv1_0), or output_0, output_1 …",
    ),
    p(
        "GE-E0900",
        "a bug of ge",
        "Something that should hold did not. Please report it with the bundle that the message names.",
        "ge opt --repro BUNDLE",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// Every code in the sources of the product, found by its form.
    fn used() -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut open: Vec<PathBuf> =
            ["host", "plugin-api", "engines", "plugins"].iter().map(|d| root.join(d)).collect();
        let mut out = BTreeSet::new();
        while let Some(d) = open.pop() {
            for e in std::fs::read_dir(&d).expect("a folder of the repository").map(|e| e.expect("readable").path()) {
                if e.is_dir() {
                    open.push(e);
                } else if e.extension().is_some_and(|x| x == "rs") && !e.ends_with("commands/codes.rs") {
                    let text = std::fs::read_to_string(&e).expect("a source is text");
                    for (at, _) in text.match_indices("GE-E") {
                        let digits: String = text[at + 4..].chars().take_while(char::is_ascii_digit).collect();
                        if digits.len() == 4 {
                            out.insert(format!("GE-E{digits}"));
                        }
                    }
                }
            }
        }
        out
    }

    #[test]
    fn every_code_of_the_sources_has_a_page_and_every_page_a_code() {
        let used = used();
        assert!(used.len() > 50, "the sources were not found");
        let pages: BTreeSet<String> = PAGES.iter().map(|p| p.code.to_owned()).collect();
        assert_eq!(pages.len(), PAGES.len(), "a code stands twice");
        assert_eq!(used.difference(&pages).collect::<Vec<_>>(), Vec::<&String>::new(), "codes without a page");
        assert_eq!(pages.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "pages without a code");
        assert!(PAGES.iter().all(|p| !p.text.is_empty() && !p.example.is_empty()));
    }
}
