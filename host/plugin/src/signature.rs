//! Signatures of libraries: Ed25519 in minisign's form, by one of the keys that the configuration
//! trusts.
use ge_plugin_api::Result;
use ge_plugin_api::diagnostic::Diagnostic;
use minisign_verify::{PublicKey, Signature};
use std::path::Path;

/// Whether a text is a public key, like the second line of a `.pub` file.
pub(crate) fn is_key(text: &str) -> bool {
    PublicKey::from_base64(text).is_ok()
}

/// Verifies the signature of a library.
///
/// # Errors
/// Returns `GE-E0524` if the signature cannot be read, was made by none of the keys, or is for
/// other bytes.
pub(crate) fn check(library: &Path, bytes: &[u8], signature: &Path, keys: &[String]) -> Result<()> {
    let wrong = |what: String| {
        Diagnostic::error(what)
            .help("install library and signature again, or trust the key that signed it in `trusted_keys`")
            .raise(ge_codes::SIGNATURE)
    };
    let text = std::fs::read_to_string(signature)
        .map_err(|e| wrong(format!("the signature `{}` cannot be read: {e}", signature.display())))?;
    let signed = Signature::decode(&text)
        .map_err(|e| wrong(format!("`{}` is no signature of minisign: {e}", signature.display())))?;
    let by = |k: &String| PublicKey::from_base64(k).is_ok_and(|k| k.verify(bytes, &signed, true).is_ok());
    if keys.iter().any(by) {
        return Ok(());
    }
    Err(wrong(format!(
        "`{}` is not what `{}` signs, or none of the {} trusted keys signed it",
        library.display(),
        signature.display(),
        keys.len()
    )))
}
