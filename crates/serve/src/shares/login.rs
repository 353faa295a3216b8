//! Clients who say a secret word, and are exempt from what limits strangers.
//!
//! In:     words of the settings, the name that a client gives in `server.version`.
//! Out:    whether its last word is one of them, and the name without it.
//! Fails:  where a word of the settings is too short to be a secret.
//!
//! No wallet can log in to an Electrum server, and no server asks for it. But every library lets its user choose the client's
//! name, on every transport, and every server takes any.

use std::fmt;

use crate::rpc::auth::equal;

/// Letters of a word: 16 of base 64 are 96 bits, which nobody tries out over a network.
const LETTERS_MIN: usize = 16;
/// Longest; a client's name has a line to fit into.
const LETTERS_MAX: usize = 256;

/// Words that let their clients in. Its `Debug` says none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<String>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Reads words between blanks; none means that nobody can log in.
    pub fn parse(text: &str) -> Result<Tokens, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        match words.iter().any(|word| !(LETTERS_MIN..=LETTERS_MAX).contains(&word.len())) {
            true => Err(format!("a word has {LETTERS_MIN} to {LETTERS_MAX} letters")),
            false => Ok(Tokens(words)),
        }
    }

    /// A client's name without the word, and whether there was one. How long it takes does not tell how much of a word was
    /// right.
    pub fn split<'a>(&self, name: &'a str) -> (&'a str, bool) {
        let (rest, last) = name.rsplit_once(' ').unwrap_or(("", name));
        let is_one = self.0.iter().fold(false, |found, word| equal(word, last) | found);
        if is_one { (rest, true) } else { (name, false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_a_name_logs_in() {
        let tokens = Tokens::parse(" correct-horse-battery  0123456789abcdef").unwrap();
        #[track_caller]
        fn check(tokens: &Tokens, name: &str, want: (&str, bool)) {
            assert_eq!(tokens.split(name), want, "{name:?}");
        }
        check(&tokens, "a wallet 1.0 correct-horse-battery", ("a wallet 1.0", true));
        check(&tokens, "0123456789abcdef", ("", true));
        check(&tokens, "x 0123456789abcdef", ("x", true));
        for name in [
            "",
            " ",
            "wallet",
            "correct-horse-battery x",
            "x 0123456789abcde",
            "x 0123456789abcdefg",
            "x 0123456789abcdeF",
        ] {
            check(&tokens, name, (name, false));
        }
        check(&Tokens::default(), "wallet ", ("wallet ", false));
        check(&Tokens::default(), "", ("", false));
        assert_eq!(format!("{tokens:?}"), "Tokens(2)");
        assert!(Tokens::parse("0123456789abcde").is_err() && Tokens::parse(&"x".repeat(257)).is_err());
        assert_eq!(Tokens::parse("  "), Ok(Tokens::default()));
    }
}
