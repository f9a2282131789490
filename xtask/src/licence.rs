//! Licence expressions (SPDX): whether they hold, given which licences are allowed.

/// `MIT OR (Apache-2.0 WITH LLVM-exception AND ISC)`. `None`: it cannot be read. The old spelling `MIT/Apache-2.0` is an OR.
pub(crate) fn holds(text: &str, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (value, rest) = either(&words, allowed)?;
    rest.is_empty().then_some(value)
}

type Read<'w, 't> = Option<(bool, &'w [&'t str])>;

fn either<'w, 't>(words: &'w [&'t str], allowed: &impl Fn(&str) -> bool) -> Read<'w, 't> {
    let (mut value, mut rest) = both(words, allowed)?;
    while let Some((&"OR", more)) = rest.split_first() {
        let (other, after) = both(more, allowed)?;
        (value, rest) = (value || other, after);
    }
    Some((value, rest))
}

fn both<'w, 't>(words: &'w [&'t str], allowed: &impl Fn(&str) -> bool) -> Read<'w, 't> {
    let (mut value, mut rest) = one(words, allowed)?;
    while let Some((&"AND", more)) = rest.split_first() {
        let (other, after) = one(more, allowed)?;
        (value, rest) = (value && other, after);
    }
    Some((value, rest))
}

fn one<'w, 't>(words: &'w [&'t str], allowed: &impl Fn(&str) -> bool) -> Read<'w, 't> {
    let (first, rest) = words.split_first()?;
    match *first {
        "(" => {
            let (value, rest) = either(rest, allowed)?;
            let (&")", rest) = rest.split_first()? else { return None };
            Some((value, rest))
        }
        "OR" | "AND" | "WITH" | ")" => None,
        // An exception allows more than the licence does.
        name => match rest {
            ["WITH", _, rest @ ..] => Some((allowed(name), rest)),
            _ => Some((allowed(name), rest)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_hold_as_they_read() {
        let allowed = |name: &str| matches!(name, "MIT" | "Apache-2.0" | "ISC");
        for (text, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT/GPL-3.0", Some(true)),
            ("Apache-2.0 / MIT", Some(true)),
            ("GPL-3.0 OR LGPL-2.1", Some(false)),
            ("MIT AND GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT AND ISC", Some(true)),
            ("(GPL-3.0 OR MIT) AND ISC", Some(true)),
            ("(GPL-3.0 OR MIT) AND BSD-3-Clause", Some(false)),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", Some(true)),
            ("ISC AND (Apache-2.0 OR ISC) AND (MIT)", Some(true)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT)", None),
            ("MIT MIT", None),
        ] {
            assert_eq!(holds(text, &allowed), expected, "{text}");
        }
    }
}
