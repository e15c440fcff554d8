//! Numbered rules: an enum of the rules, with the text of each.

/// Declares `Rule`: `rules! { "Doc comment of the enum." X1 "title", .. }`. With a remedy after
/// each title (`X1 "title" "remedy", ..`), the enum also has a
/// [`remedy`](crate::tasks::Rule::remedy).
macro_rules! rules {
    ($doc:literal $($id:ident $title:literal,)*) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $(#[doc = $title] $id,)*
        }
        impl Rule {
            /// All rules.
            pub const ALL: &'static [Rule] = &[$(Rule::$id,)*];
            /// Name of the rule, such as `X1`.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$id => stringify!($id),)* }
            }
            /// What must hold.
            pub fn title(self) -> &'static str {
                match self { $(Rule::$id => $title,)* }
            }
            /// The rule with this name.
            pub fn of(id: &str) -> Option<Rule> {
                Rule::ALL.iter().copied().find(|r| r.id() == id)
            }
        }
    };
    ($doc:literal $($id:ident $title:literal $remedy:literal,)*) => {
        rules! { $doc $($id $title,)* }
        impl Rule {
            /// How a plugin's author can fix a violation.
            pub fn remedy(self) -> &'static str {
                match self { $(Rule::$id => $remedy,)* }
            }
        }
    };
}
pub(crate) use rules;
