//! Which of the names that there are somebody may have meant.

/// Likeness (0 to 1) below which a suggestion misleads more than it helps.
const NEAR: f64 = 0.82;

/// The known name that most resembles a text, if any is near enough to be meant.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_by(known, |name| likeness(text, name))
}

/// The same by another likeness, from 0 to 1.
pub fn nearest_by<'a>(
    known: impl IntoIterator<Item = &'a str>,
    likeness: impl Fn(&str) -> f64,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// How much two names resemble each other: 1 if they are the same, 0 if they have nothing in common.
pub fn likeness(a: &str, b: &str) -> f64 {
    strsim::jaro_winkler(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let known = ["consume", "commit", "produce"];
        assert_eq!(nearest("prodce", known), Some("produce"));
        assert_eq!(nearest("comit", known), Some("commit"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("", known), None);
    }
}
