//! Reads counters and gauges in the text format of Prometheus, as far as our server writes it.

use std::collections::HashMap;

/// All series, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    series: HashMap<String, Vec<Series>>,
}

#[derive(Clone, Debug)]
struct Series {
    labels: Vec<(String, String)>,
    value: f64,
}

impl Counters {
    /// What cannot be read is left out.
    pub(super) fn read(text: &str) -> Self {
        let mut series: HashMap<String, Vec<Series>> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, one)) = line_of(line) {
                series.entry(name.to_owned()).or_default().push(one);
            }
        }
        Self { series }
    }

    /// All series of a name added up.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.series.get(name).into_iter().flatten().map(|one| one.value).sum()
    }

    /// The series of a name in which a label has this value.
    pub(super) fn with(&self, name: &str, label: &str, value: &str) -> f64 {
        self.by(name, label).find(|(seen, _)| *seen == value).map_or(0.0, |(_, number)| number)
    }

    /// The series of a name, by a label.
    pub(super) fn by<'a>(&'a self, name: &str, label: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.series.get(name).into_iter().flatten().filter_map(move |one| {
            let (_, value) = one.labels.iter().find(|(name, _)| name == label)?;
            Some((value.as_str(), one.value))
        })
    }
}

fn line_of(line: &str) -> Option<(&str, Series)> {
    let (series, value) = line.trim_end().rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        None => (series, Vec::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
    };
    Some((name, Series { labels, value: value.parse().ok()? }))
}

fn labels(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut all = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut letters) = (String::new(), rest.char_indices());
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, letter) => value.push(letter),
            }
        };
        all.push((name.to_owned(), value));
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_with_their_labels() {
        let text = "# HELP a b\na 1.5\nb_total{queue=\"x \\\"y\\\",z\",verb=\"push\"} 7\nb_total{queue=\"q\"} 3\nodd{ 1\n";
        let counters = Counters::read(text);
        assert_eq!((counters.sum("a"), counters.sum("b_total"), counters.sum("odd")), (1.5, 10.0, 0.0));
        assert_eq!(counters.with("b_total", "queue", "x \"y\",z"), 7.0);
        assert_eq!(counters.by("b_total", "verb").collect::<Vec<_>>(), [("push", 7.0)]);
    }
}
