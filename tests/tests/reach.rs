//! Reachability: every pass of the lists fires in a whole compilation that begins where users
//! begin, with a graph given to a session. The graphs that golden files give to one pass go through
//! all passes here, and `tests/reach` has graphs for passes that other passes would pre-empt. The
//! switches of a file are those that a user can type.
use ge::session::{Session, SessionOptions};
use ge_compiler::pipeline::Observer;
use ge_ir::Model;
use ge_ir::text::golden::{Golden, cases};
use ge_plugin_api::diagnostic::ErrorKind;
use ge_tests::{root, target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// Second places of passes that fire at another place, with what would have to happen in between.
const AGAIN: &[(&str, &str, &str)] = &[
    (
        "original",
        "TransOpWithoutReshapeFusionPass",
        "chains that the model brings are left to stage1; here it takes those of engines",
    ),
    ("stage1", "SwitchDeadBranchElimination", "a predicate that only an engine's pass makes constant"),
    ("stage1", "ReplaceWithEmptyConstPass", "an empty output that only an engine's pass makes"),
    ("stage1", "DimensionComputePass", "a Shape that only an engine's pass puts in"),
    ("stage1", "ConstantClipPass", "a cast to half that only an engine's pass puts in"),
    ("stage1", "IdentityPass", "an Identity that only a pass of stage1 leaves"),
    ("stage2", "CondRemovePass", "a condition that folding makes constant after placement"),
    ("stage2", "DimensionAdjustPass", "an ExpandDims that only the placed graph's passes put in"),
    ("stage2", "AttachStreamLabelPass", "a node that passes of stage2 put behind a switch"),
];

/// Golden cases of late stages whose graphs state decisions of an engine or a planner that was not
/// run.
const DECIDED: &[&str] = &["streams_of_a_graphs_own_parallelism", "own_events"];

/// Passes that have changed a graph, with the stage in which they ran.
#[derive(Default)]
struct Fired(Mutex<BTreeSet<(String, String)>>);

impl Observer for Fired {
    fn passed(&self, stage: &'static str, pass: &str, _: &Model) {
        self.0.lock().unwrap().insert((stage.to_owned(), pass.to_owned()));
    }
    fn cached(&self) -> bool {
        false
    }
}

/// One session for each SoC that a file asks for.
struct Sessions {
    plugins: tempfile::TempDir,
    open: BTreeMap<String, Session>,
}

impl Sessions {
    fn new() -> Sessions {
        let plugins = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
        let search = format!("schema = 1\nsearch = [{:?}]", target());
        std::fs::write(plugins.path().join("plugins.toml"), text.replacen("schema = 1", &search, 1)).unwrap();
        Sessions { plugins, open: BTreeMap::new() }
    }

    fn of(&mut self, soc: &str) -> &Session {
        let file = self.plugins.path().join("plugins.toml");
        self.open.entry(soc.to_owned()).or_insert_with(|| {
            let soc = Some(soc.to_owned()).filter(|s| !s.is_empty());
            Session::new(SessionOptions { plugins: Some(file), soc, ..SessionOptions::default() }).unwrap()
        })
    }
}

/// The options and the SoC of a file's command. `None`: the command is wrong on purpose, or it
/// names a SoC file.
fn flags(run: &str, file: &Path) -> Option<(ge::options::OptionMap, String)> {
    let words = shlex::split(&run.replace("%S", &file.parent().unwrap().display().to_string())).unwrap();
    let mut options = ge::options::OptionMap::default();
    let mut soc = String::new();
    for pair in words.windows(2) {
        match pair[0].as_str() {
            "--set" => options.set_pair(&pair[1]).ok()?,
            "--soc" => soc.clone_from(&pair[1]),
            _ => {}
        }
    }
    // The SoC files of golden tests are not available here.
    (!soc.contains('.')).then_some((options, soc))
}

/// Compiles every case of a file. Returns the passes that fired and the internal errors by case.
fn compile(file: &Path, sessions: &mut Sessions) -> (BTreeSet<(String, String)>, Vec<String>) {
    let fired = Fired::default();
    let mut ours = Vec::new();
    let text = std::fs::read_to_string(file).unwrap();
    let golden = Golden::read(&text, &file.display().to_string()).unwrap();
    let model = ge::session::import::parse_text(file, golden.input.as_bytes());
    if let (Ok(model), Some((options, soc))) = (model, flags(golden.run[0], file)) {
        let session = sessions.of(&soc);
        for case in cases(&model) {
            let name = case.root().name().to_owned();
            match session.compile("main", case, &options, &fired) {
                Err(e) if e.kind == ErrorKind::INTERNAL => {
                    ours.push(format!("{} @{name}: {}", file.display(), e.message()));
                }
                // Many cases are refused by something after the pass that they test.
                _ => {}
            }
        }
    }
    (fired.0.into_inner().unwrap(), ours)
}

#[test]
fn every_pass_fires_in_a_whole_compilation() {
    let mut sessions = Sessions::new();
    let mut fired = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in ge::commands::golden::files(&root().join("tests/golden")).unwrap() {
        let (of, ours) = compile(&file, &mut sessions);
        fired.extend(of);
        if !DECIDED.iter().any(|d| file.file_stem().is_some_and(|s| s == *d)) {
            wrong.extend(ours);
        }
    }
    for file in ge::commands::golden::files(&root().join("tests/reach")).unwrap() {
        let text = std::fs::read_to_string(&file).unwrap();
        let wanted = text.lines().find_map(|l| l.strip_prefix("# fires: ")).expect("a line `# fires: STAGE/PASS`");
        let (of, ours) = compile(&file, &mut sessions);
        wrong.extend(ours);
        if !of.iter().any(|(stage, pass)| format!("{stage}/{pass}") == wanted) {
            wrong.push(format!("{}: {wanted} does not fire, but {of:?}", file.display()));
        }
        fired.extend(of);
    }
    for p in ge_compiler::pipeline::passes::PASSES {
        let (stage, pass) = (p.stage, p.pass.name());
        let again = AGAIN.iter().any(|(s, p, _)| *s == stage && *p == pass);
        let here = fired.contains(&(stage.to_owned(), pass.to_owned()));
        let elsewhere = fired.iter().any(|(_, p)| p == pass);
        match (here, again) {
            (false, false) => wrong.push(format!("{stage}/{pass} fires nowhere: give it a graph in tests/reach")),
            (true, true) => wrong.push(format!("{stage}/{pass} fires: take it out of the list")),
            (false, true) if !elsewhere => wrong.push(format!("{stage}/{pass} fires at none of its places")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
