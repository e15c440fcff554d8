//! The templates of `ge plugin new`: `@NAME@` and similar marks are replaced by what the user asks
//! for.

mod c;
mod rust;

pub(super) use c::files as files_in_c;
pub(super) use rust::{Parts, files as files_in_rust};

/// A generated file: its path below the folder, and its text.
pub(super) type File = (String, String);

/// Replaces the marks in a template.
fn fill(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(text.to_owned(), |t, (from, to)| t.replace(from, to))
}

/// Converts a name such as `acme_two` to `AcmeTwo`, the prefix for engines and operators.
fn camel(name: &str) -> String {
    let word = |w: &str| w[..w.len().min(1)].to_uppercase() + w.get(1..).unwrap_or("");
    name.split('_').map(word).collect()
}

/// The files that every plugin has, in whatever language it is written.
fn common(pairs: &[(&str, &str)]) -> Vec<File> {
    vec![
        ("LICENSE".to_owned(), include_str!("../../../../../LICENSE").to_owned()),
        ("plugin.toml".to_owned(), fill(include_str!("plugin.toml.txt"), pairs)),
        (".github/workflows/ci.yml".to_owned(), fill(include_str!("ci.yml.txt"), pairs)),
        ("reference/make.py".to_owned(), fill(include_str!("make.py.txt"), pairs)),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_engines_are_made_of_the_plugins() {
        assert_eq!(super::camel("acme_two__b"), "AcmeTwoB");
    }
}
