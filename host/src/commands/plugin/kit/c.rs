//! A plugin in C: the repository's example under another name, with its header.
use super::{File, camel, common, fill};

/// All files of the plugin's folder.
pub fn files(name: &str) -> Vec<File> {
    let (kind, domain) = (camel(name), format!("com.{name}"));
    let node =
        format!(r#"    helper.make_node("HardSwish", ["x"], ["y"], name="swish", domain="{domain}", bias=2.5),"#);
    let opset = format!(r#", helper.make_opsetid("{domain}", 1)"#);
    let library = format!("libge_{name}.so");
    let pairs: [(&str, &str); 8] = [
        ("@NAME@", name),
        ("@TYPE@", &kind),
        ("@NODES@", &node),
        ("@OPSET@", &opset),
        ("@NUMPY@", "x * (np.clip(x + np.float32(2.5), 0, 6) / 6)"),
        ("@LIBRARY@", &library),
        ("@VERSION@", "^1.0"),
        ("@BUILD@", "      - run: make"),
    ];
    let source = include_str!("../../../../../examples/vendor-c/acme_c.c")
        .replace("-I ../../plugin-c", "-I .")
        .replace("com.acme.c", &domain)
        .replace("AcmeHardSwish", &format!("{kind}HardSwish"))
        .replace("AcmeC", &kind)
        .replace("acme_c", name);
    let mut out = common(&pairs);
    out.extend([
        (format!("{name}.c"), source),
        ("ge_plugin.h".to_owned(), include_str!("../../../../../plugin-c/ge_plugin.h").to_owned()),
        ("Makefile".to_owned(), fill(include_str!("Makefile.txt"), &pairs)),
        ("README.md".to_owned(), fill(include_str!("README-c.md.txt"), &pairs)),
        (".gitignore".to_owned(), "*.so\n/reference/in\n/reference/want\n/reference/model.onnx\n".to_owned()),
    ]);
    out
}
