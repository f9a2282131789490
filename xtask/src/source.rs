//! What can be read from source text without a parser, given that rustfmt has laid it out.

/// A function that is longer than it should be.
pub(crate) struct Function {
    /// Line it begins at, from 1.
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) lines: usize,
}

/// Lines before the module of unit tests.
pub(crate) fn production_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let starts_tests = |at: usize| {
        let mut rest = lines[at + 1..].iter().skip_while(|l| l.starts_with("#["));
        lines[at] == "#[cfg(test)]"
            && rest.next().is_some_and(|l| l.starts_with("mod ") || l.starts_with("pub(crate) mod "))
    };
    (0..lines.len()).find(|at| starts_tests(*at)).unwrap_or(lines.len())
}

/// All functions with a body, with their lengths from signature to closing brace.
pub(crate) fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = format!("{indent}}}");
        // A declaration ends with a semicolon, a one-line body on its own line; neither has a closing line.
        let mut end = None;
        for (offset, later) in lines[at..].iter().enumerate() {
            let whole = later.trim_end();
            if whole == close {
                end = Some(offset);
                break;
            }
            let signature_over = whole.ends_with(';') || (whole.ends_with('}') && whole.contains('{'));
            let same_level = !later[indent.len().min(later.len())..].starts_with(' ');
            if signature_over && same_level {
                break;
            }
        }
        if let Some(offset) = end {
            found.push(Function { line: at + 1, name, lines: offset + 1 });
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let mut rest = line.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix("fn ") {
            let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            return (!name.is_empty()).then_some(name);
        }
        let word =
            ["pub ", "async ", "const ", "unsafe ", "extern \"C\" "].iter().find(|w| rest.starts_with(**w));
        rest = match word {
            Some(word) => &rest[word.len()..],
            None => rest.strip_prefix("pub(")?.split_once(") ")?.1,
        };
    }
}

/// Lines (from 1) in which `needle` stands alone, not inside a longer word.
pub(crate) fn lines_with(text: &str, needle: &str) -> Vec<usize> {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    let edge_before = needle.starts_with(|c: char| joins(c) || c == '/');
    let edge_after = needle.ends_with(joins);
    let stands_alone = |line: &str, at: usize| {
        let before = line[..at].chars().next_back().is_some_and(|c| joins(c) || matches!(c, '.' | '-'));
        let after = line[at + needle.len()..].chars().next().is_some_and(joins);
        !(edge_before && before || edge_after && after)
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| line.match_indices(needle).any(|(at, _)| stands_alone(line, at)))
        .map(|(index, _)| index + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_ends_where_the_unit_tests_begin() {
        assert_eq!(production_lines("a\nb\n#[cfg(test)]\n#[expect(x)]\nmod tests {\n}\n"), 2);
        assert_eq!(production_lines("#[cfg(test)]\nuse a;\nb\n"), 3);
        assert_eq!(production_lines(""), 0);
    }

    #[test]
    fn functions_are_measured_and_declarations_are_not() {
        let text = "trait T {\n    fn declared(&self);\n    fn default_body(&self) {\n        one();\n    }\n}\n\
                    pub(crate) async fn long(\n    a: u8,\n) -> u8 {\n    if a {\n    }\n    let b = 1;\n    b\n}\n\
                    fn short() { 1 }\nstruct S {\n}\n";
        let found: Vec<_> = functions(text).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("default_body".to_owned(), 3, 3), ("long".to_owned(), 7, 8)]);
    }

    #[test]
    fn words_are_found_only_when_they_stand_alone() {
        assert_eq!(lines_with("ab\nxabx\nan ab!\n", "ab"), [1, 3]);
        assert_eq!(lines_with("a/opt/x\n\"/opt/x\"\ncd /opt/\n", "/opt/"), [2, 3]);
        assert_eq!(lines_with("todos!()\nx!()\n", "x!"), [2]);
    }
}
