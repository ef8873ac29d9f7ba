//! What differs between two looks at a screen.

/// The lines that differ, each with its number from 1 and as it is in `after`. Lines that `after` has no more are told as
/// empty, unless they were.
pub fn changed(before: &[String], after: &[String]) -> Vec<(usize, String)> {
    (0..before.len().max(after.len()))
        .filter_map(|index| {
            let old = before.get(index).map_or("", String::as_str);
            let new = after.get(index).map_or("", String::as_str);
            (old != new).then(|| (index + 1, new.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn equal_looks_have_no_changed_lines() {
        let look = lines(&["a", "", "c"]);
        assert_eq!(changed(&look, &look), []);
    }

    #[test]
    fn a_changed_line_is_told_with_its_number_from_one_and_its_new_text() {
        assert_eq!(
            changed(&lines(&["a", "b", "c"]), &lines(&["a", "B", ""])),
            [(2, "B".to_owned()), (3, String::new())]
        );
    }

    #[test]
    fn a_line_that_is_gone_is_told_as_empty_and_a_new_one_with_its_text() {
        assert_eq!(
            changed(&lines(&["a", "b", ""]), &lines(&["a"])),
            [(2, String::new())]
        );
        assert_eq!(
            changed(&lines(&["a"]), &lines(&["a", "", "c"])),
            [(3, "c".to_owned())]
        );
    }
}
