//! Files that are no plugins, or damaged ones: each gives one clear error, and the process
//! survives.
use super::support::{Dir, good, patched, refusal};
use ge_plugin::{Status, elf};
use std::path::Path;

const ENTRY: &str = "[[plugin]]\nname = \"bad\"\npath = \"libge_bad.so\"\n";

#[track_caller]
fn refused(bytes: &[u8], code: &str, words: &str) {
    let dir = Dir::new();
    dir.file("libge_bad.so", bytes);
    let m = refusal(dir.load(ENTRY), code);
    assert!(m.contains(words), "{m}");
}

#[test]
fn a_good_plugin_loads_and_says_what_it_is() {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    let r = dir.load(ENTRY).unwrap();
    let p = r.plugin("bad").unwrap();
    assert!(matches!(p.status, Status::Loaded));
    assert_eq!((p.version.as_str(), p.file_name().as_str()), ("0.1.0", "libge_bad.so"));
    assert_eq!(p.kinds, ["engine", "ops", "frontend", "pass", "device"]);
    assert_eq!(p.sha256().unwrap().len(), 64);
    assert!(r.engine("BadEngine").is_some() && r.op("BadOp").is_some() && r.device("baddev").is_some());
    assert_eq!(r.passes().len(), 1);
}

#[test]
fn missing_empty_text_and_folders() {
    let dir = Dir::new();
    assert!(refusal(dir.load(ENTRY), "GE-E0503").contains("libge_bad.so"));
    assert!(refusal(dir.load("[[plugin]]\nname = \"absent\"\n"), "GE-E0503").contains("libge_absent.so"));
    refused(b"", "GE-E0504", "it is empty");
    refused(b"this is no library\n", "GE-E0504", "text file");
    refused(&[0x7f, b'E', b'L', b'F'], "GE-E0504", "cut or damaged");
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("libge_bad.so")).unwrap();
    refusal(dir.load(ENTRY), "GE-E0504");
}

#[test]
fn an_optional_entry_is_a_warning_and_the_rest_works() {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    dir.file("libge_cut.so", &good()[..5000]);
    let r = dir.load(&format!("[[plugin]]\nname = \"cut\"\noptional = true\n{ENTRY}")).unwrap();
    assert_eq!(r.warnings().len(), 1);
    assert!(r.warnings()[0].message.contains("libge_cut.so"));
    assert!(r.engine("BadEngine").is_some());
}

#[test]
fn a_library_cut_at_any_place_is_refused() {
    let whole = good();
    let path = Path::new("libge_bad.so");
    // Every place near the head and 400 more. The section table comes last, so every cut removes
    // something that counts.
    let step = (whole.len() / 400).max(1);
    for cut in (0..512).chain((512..whole.len()).step_by(step)) {
        assert!(elf::inspect(path, &whole[..cut]).is_err(), "cut at {cut}");
    }
    refused(&whole[..whole.len() / 2], "GE-E0504", "cut or damaged");
    refused(&whole[..whole.len() - 1], "GE-E0504", "cut or damaged");
}

#[test]
fn a_library_for_another_machine() {
    let mut b = good();
    b[18..20].copy_from_slice(&243u16.to_le_bytes());
    refused(&b, "GE-E0505", "built for riscv");
    let mut b = good();
    b[4] = 1;
    refused(&b, "GE-E0505", "32-bit");
    let mut b = good();
    b[5] = 2;
    refused(&b, "GE-E0505", "big-endian");
}

#[test]
fn foreign_libraries_and_programs() {
    let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"]
        .iter()
        .find_map(|p| std::fs::read(p).ok())
        .expect("the system has a C library");
    refused(&libc, "GE-E0506", "no plugin of ge");
    let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    refused(&me, "GE-E0506", "no plugin of ge");
}

/// Builds a library from C with the manifest of a plugin.
fn from_c(body: &str) -> Vec<u8> {
    let dir = Dir::new();
    let arch = std::env::consts::ARCH;
    let manifest = format!(
        "name = \\\"bad\\\"\\nversion = \\\"0.1.0\\\"\\nkinds = []\\nprovides = []\\npanic = \\\"unwind\\\"\\napi = \\\"1.0.0\\\"\\ntarget = \\\"{arch}\\\"\\n"
    );
    let c = format!("__attribute__((section(\".ge.plugin\"), used)) static const char m[] = \"{manifest}\";\n{body}\n");
    let source = dir.file("x.c", c.as_bytes());
    let out = dir.path().join("x.so");
    let done =
        std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&out).arg(&source).status().unwrap();
    assert!(done.success());
    std::fs::read(out).unwrap()
}

#[test]
fn no_root_symbol_and_undefined_symbols() {
    refused(&from_c("int one(void) { return 1; }"), "GE-E0506", "no root symbol");
    refused(
        &from_c("extern void nowhere_to_be_found(void); void f(void) { nowhere_to_be_found(); }"),
        "GE-E0514",
        "undefined symbol: nowhere_to_be_found",
    );
    // The root symbol is there, but what it leads to is not ours.
    refused(
        &from_c("const char _1as_0lib_1header_0root_bmodule_bloader[4096] = {1, 2, 3};"),
        "GE-E0515",
        "damaged, or built with another",
    );
}

#[test]
fn other_majors_aborting_panics_and_damaged_manifests() {
    // The version without its major number.
    let minor = ge_plugin_api::abi::root::API_VERSION.split_once('.').unwrap().1;
    let other = |major: u32| format!("interface {major}.{minor}, this ge has 1.{minor}");
    refused(&patched("api = \"1.", "api = \"2."), "GE-E0509", &other(2));
    refused(&patched("api = \"1.", "api = \"0."), "GE-E0509", &other(0));
    refused(&patched("panic = \"unwind\"", "panic = \"abort\" "), "GE-E0510", "a panic in it would end ge");
    refused(&patched("version = \"0.1.0\"", "version = \"0.x.0\""), "GE-E0507", "no version");
    refused(&patched("kinds = [", "kinds = ]"), "GE-E0507", "damaged");
    refused(&patched("name = \"bad\"", "name = \"bed\""), "GE-E0507", "is plugin `bed`, not `bad`");
    refused(
        &patched("\"BadEngine\"", "\"GodEngine\""),
        "GE-E0517",
        "gives engine `BadEngine`, which its manifest does not name",
    );
    refused(&patched("\"engine\", \"ops\"", "\"engine\", \"opz\""), "GE-E0507", "no kind of plugin");
}

/// Flipped bits: the library is refused, or loaded if the flip is in something that loading does
/// not look at; loading never ends the process by a signal. What changed instructions do when the
/// process ends is not known. Each flip runs in a process of its own. `GE_LONG=1` tries 2,000.
#[test]
fn loading_flipped_bytes_never_ends_in_a_signal() {
    let whole = good();
    let flips = if std::env::var_os("GE_LONG").is_some() { 2000 } else { 60 };
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut refused = 0;
    for n in 0..flips {
        let mut b = whole.clone();
        // Half of the flips go to the head and the dynamic tables, where they matter most.
        let span = if n % 2 == 0 { whole.len() / 16 } else { whole.len() };
        let at = usize::try_from(random() % span as u64).unwrap();
        b[at] ^= 1 << (random() % 8);
        let dir = Dir::new();
        dir.file("libge_bad.so", &b);
        let (code, said) = dir.load_apart(ENTRY);
        match code {
            Some(0) => {}
            Some(5) => {
                refused += 1;
                // A changed instruction may write over the name of the plugin that is reported.
                assert!(said.contains("bad") || said.contains("GE-E0518"), "flip at {at}: {said}");
            }
            other => assert!(said.starts_with("bad loaded"), "flip at {at}: {other:?} {said}"),
        }
    }
    assert!(refused > 0, "no flip was noticed");
}

#[test]
fn the_digest_of_the_entry_is_held() {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    let digest = ge_plugin::registry::digest(&dir.path().join("libge_bad.so")).unwrap();
    dir.load(&format!("{ENTRY}sha256 = \"{digest}\"\n")).unwrap();
    let other = digest.replace(|c: char| c.is_ascii_digit(), "0");
    assert!(refusal(dir.load(&format!("{ENTRY}sha256 = \"{other}\"\n")), "GE-E0519").contains("libge_bad.so"));
}

/// An Ed25519 key and signatures in minisign's form, made by Node.js.
struct Signer {
    folder: tempfile::TempDir,
    public: Vec<u8>,
}

impl Signer {
    fn new() -> Signer {
        let s = Signer { folder: tempfile::tempdir().unwrap(), public: Vec::new() };
        let public = s.node(
            "const k = crypto.generateKeyPairSync('ed25519');
             fs.writeFileSync('key.pem', k.privateKey.export({ type: 'pkcs8', format: 'pem' }));
             out(k.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32));",
        );
        Signer { public, ..s }
    }
    /// Runs a script in Node.js; returns what it writes with `out`.
    fn node(&self, script: &str) -> Vec<u8> {
        let begin = "const crypto = require('crypto'), fs = require('fs'), out = b => process.stdout.write(b);";
        let mut node = std::process::Command::new("node");
        let out = node.args(["-e", &format!("{begin}{script}")]).current_dir(self.folder.path()).output().unwrap();
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }
    /// The same for some bytes, which the script has as `what`.
    fn node_of(&self, bytes: &[u8], script: &str) -> Vec<u8> {
        std::fs::write(self.folder.path().join("what"), bytes).unwrap();
        self.node(&format!("const what = fs.readFileSync('what');{script}"))
    }
    fn base64(&self, parts: &[&[u8]]) -> String {
        String::from_utf8(self.node_of(&parts.concat(), "out(what.toString('base64'));")).unwrap()
    }
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.node_of(bytes, "out(crypto.sign(null, what, fs.readFileSync('key.pem')));")
    }
    fn key(&self) -> String {
        self.base64(&[b"Ed", b"key-id-0", &self.public])
    }
    /// The file that `minisign -S` writes: a signature of the digest of the bytes, and one of that
    /// signature with its comment.
    fn signature(&self, bytes: &[u8]) -> String {
        let digest = self.node_of(bytes, "out(crypto.createHash('blake2b512').update(what).digest());");
        let signed = self.sign(&digest);
        let comment = "made by a test";
        let whole = self.sign(&[signed.as_slice(), comment.as_bytes()].concat());
        let (first, second) = (self.base64(&[b"ED", b"key-id-0", &signed]), self.base64(&[&whole]));
        format!("untrusted comment: signature\n{first}\ntrusted comment: {comment}\n{second}\n")
    }
}

#[test]
fn a_signature_by_a_trusted_key_is_asked_for_and_held() {
    let (signer, other) = (Signer::new(), Signer::new());
    let dir = Dir::new();
    let library = good();
    dir.file("libge_bad.so", &library);
    dir.file("good.minisig", signer.signature(&library).as_bytes());
    dir.file("other.minisig", other.signature(&library).as_bytes());
    dir.file("stale.minisig", signer.signature(b"another library").as_bytes());
    dir.file("text.minisig", b"signed, sincerely");
    let load = |keys: &str, signature: &str| {
        let entry = format!("{ENTRY}signature = \"{signature}\"\n");
        dir.load(&format!("trusted_keys = [{keys}]\n{entry}"))
    };
    let keys = format!("\"{}\", \"{}\"", Signer::new().key(), signer.key());
    assert!(load(&keys, "good.minisig").is_ok());
    for (signature, words) in [
        ("other.minisig", "none of the 2 trusted keys"),
        ("stale.minisig", "is not what"),
        ("text.minisig", "is no signature"),
        ("missing.minisig", "cannot be read"),
    ] {
        let said = refusal(load(&keys, signature), "GE-E0524");
        assert!(said.contains(words), "{signature}: {said}");
    }
    // One byte of the library is changed.
    let mut changed = library.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    // It becomes a new file, since the one that is loaded must stay as it is.
    std::fs::remove_file(dir.path().join("libge_bad.so")).unwrap();
    dir.file("libge_bad.so", &changed);
    assert!(refusal(load(&keys, "good.minisig"), "GE-E0524").contains("libge_bad.so"));
    // A signature without a key to check it, and keys that are no keys, are faults of the file.
    for (text, words) in
        [(load("", "good.minisig"), "without a key"), (load("\"abc\"", "good.minisig"), "`abc` is no key")]
    {
        let e = text.map(|r| format!("{r:?}")).unwrap_err().to_string();
        assert!(e.contains(words), "{e}");
    }
}
