//! The macro behind every closed set of public words, so that a word has one spelling everywhere:
//! config, log, API, column and page.

/// Declares an enum whose variants are public words, with `as_str`, `Display`, `FromStr`, `ALL` and serde.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the public word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => {
                        let known: Vec<&str> = Self::ALL.iter().map(|word| word.as_str()).collect();
                        Err(format!("\"{text}\" is none of {}", known.join(", ")))
                    }
                }
            }
        }
    };
}

pub(crate) use words;
