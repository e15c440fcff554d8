//! Numbered rules: an enum of their numbers, with what each says.

/// Declares `Rule`: `rules! { "What they are of." X1 "title", .. }`, with what to do about it behind
/// each title (`X1 "title" "remedy", ..`) where there is a [`remedy`](crate::tasks::Rule::remedy).
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
            /// Its number: its name.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$id => stringify!($id),)* }
            }
            /// What must hold.
            pub fn title(self) -> &'static str {
                match self { $(Rule::$id => $title,)* }
            }
            /// The rule of a number.
            pub fn of(id: &str) -> Option<Rule> {
                Rule::ALL.iter().copied().find(|r| r.id() == id)
            }
        }
    };
    ($doc:literal $($id:ident $title:literal $remedy:literal,)*) => {
        rules! { $doc $($id $title,)* }
        impl Rule {
            /// What the author does about it.
            pub fn remedy(self) -> &'static str {
                match self { $(Rule::$id => $remedy,)* }
            }
        }
    };
}
pub(crate) use rules;
