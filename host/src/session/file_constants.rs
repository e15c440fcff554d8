//! `FileConstant`: a constant whose bytes lie in a file beside the model.
use super::beside::Beside;
use crate::{Diagnostic, Error, Result};
use ge_ir::{Model, Node};
use ge_plugin_api::frontend::RelativeFiles;
use ge_plugin_api::types::{Blob, ConstTensor};

/// Replaces the `FileConstant` nodes of a model by ordinary constants, reading their files from
/// `folder`.
///
/// # Errors
/// Fails if a file is missing, lies in another folder or is too short, or if a type or a shape is
/// open.
pub fn read(model: &mut Model, folder: &Beside) -> Result<()> {
    for gi in 0..model.graphs().len() {
        let graph = &model.graphs()[gi];
        let named = graph.nodes().filter(|n| n.op() == "FileConstant");
        let read = named.map(|n| Ok((n.id(), value(n, folder)?))).collect::<Result<Vec<_>>>()?;
        for (id, value) in read {
            if !model.make_constant(gi, id, value) {
                return Err(Error::internal("a FileConstant has no single output, or waits for nodes"));
            }
        }
    }
    Ok(())
}

fn value(n: &Node, folder: &Beside) -> Result<ConstTensor> {
    let refuse = |what: String| Diagnostic::error(what).node(n.name(), n.op());
    let location = n.attrs().str("location").unwrap_or_default();
    if location.is_empty() {
        let d = refuse(format!("`{}` (FileConstant) names no file", n.name()));
        return Err(d.help("give it as attribute `location`").raise(ge_codes::DATA_MISSING));
    }
    let desc = n.outputs().first().cloned().unwrap_or_default();
    let (sizes, bytes) = (desc.shape.sizes(), desc.data_bytes());
    let (Some(sizes), Some(bytes)) = (sizes, bytes) else {
        let d = refuse(format!("`{}` (FileConstant) has a type or a shape that is open", n.name()));
        return Err(d
            .found(format!("{}{}", desc.dtype, desc.shape), "a type and all sizes")
            .raise(ge_codes::BROKEN_MODEL));
    };
    let given = |key: &str, other: u64| match n.attrs().int(key) {
        None | Some(0) => Some(other),
        Some(v) => u64::try_from(v).ok(),
    };
    let file = folder.open_relative(location).map_err(|e| e.at_node(n.name(), n.op()))?;
    let part = given("offset", 0).zip(given("length", bytes)).and_then(|(from, length)| {
        let (from, length) = (usize::try_from(from).ok()?, usize::try_from(length).ok()?);
        file.slice(from, length).filter(|part| part.len() as u64 == bytes)
    });
    let value = part.and_then(|part: Blob| ConstTensor::new(desc.dtype, &sizes, part));
    value.ok_or_else(|| {
        let asked = ["offset", "length"].map(|k| n.attrs().int(k).map_or("none".to_owned(), |v| v.to_string()));
        refuse(format!("`{location}` does not hold what `{}` (FileConstant) asks for", n.name()))
            .found(
                format!("{} bytes in the file; offset {}, length {}", file.len(), asked[0], asked[1]),
                format!("{bytes} bytes for {}{}", desc.dtype, desc.shape),
            )
            .raise(ge_codes::DATA_MISSING)
    })
}
