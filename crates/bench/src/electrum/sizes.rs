//! Figures by the size of a script: who is the fastest at which size.
//!
//! In:     [`Answers`] of all servers.
//! Out:    a [`Row`] for each question and class of sizes, measures with every pass's median, points to draw.
//! Fails:  never.

use super::addresses::{Answers, Question};
use super::scripts::Probe;
use crate::report::{count, median};

/// Scripts of a class have from one bound to below the next as many transactions.
const BOUNDS: [u64; 8] = [0, 1, 2, 10, 100, 1_000, 10_000, 100_000];

/// The class of a size, in words.
pub fn class_of(entries: u64) -> usize {
    BOUNDS.iter().rposition(|bound| *bound <= entries).unwrap_or(0)
}

/// A class in words.
pub fn class_name(class: usize) -> String {
    match (BOUNDS[class], BOUNDS.get(class + 1)) {
        (from, None) => format!("{} and more", count(from)),
        (from, Some(next)) if from + 1 == *next => count(from),
        (from, Some(next)) => format!("{} to {}", count(from), count(next - 1)),
    }
}

/// Which of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first ones.
    Cold,
    /// The medians of the passes.
    Warm,
}

impl Which {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Which::Cold => "cold",
            Which::Warm => "warm",
        }
    }
}

/// One question about all scripts of a class, for all servers.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was asked.
    pub question: Question,
    /// The class of sizes.
    pub class: usize,
    /// Scripts in it.
    pub scripts: usize,
    /// For each server: its time for each script it answered for, in microseconds.
    pub us: Vec<Vec<f64>>,
}

impl Row {
    /// For each server the middle script's time; none where it answered for fewer scripts than another.
    pub fn p50(&self) -> Vec<Option<f64>> {
        self.of_those_complete(median)
    }

    /// For each server the slowest script's time.
    pub fn worst(&self) -> Vec<Option<f64>> {
        self.of_those_complete(|us| us.iter().copied().fold(0.0, f64::max))
    }

    fn of_those_complete(&self, figure: impl Fn(&[f64]) -> f64) -> Vec<Option<f64>> {
        let most = self.us.iter().map(Vec::len).max().unwrap_or(0);
        self.us.iter().map(|us| (!us.is_empty() && us.len() == most).then(|| figure(us))).collect()
    }
}

/// The least figure and whose it is, and how many times as fast the first server is as the best of the others.
pub fn winner(figures: &[Option<f64>]) -> Option<(usize, Option<f64>)> {
    let known = || figures.iter().enumerate().filter_map(|(index, figure)| Some((index, (*figure)?)));
    let (best, _) = known().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let others = known().filter(|(index, _)| *index > 0).map(|(_, figure)| figure).fold(f64::INFINITY, f64::min);
    let times = figures[0].filter(|_| others.is_finite()).map(|first| others / first);
    Some((best, times))
}

/// Every question and class there are scripts of.
pub fn rows(answers: &Answers, probes: &[Probe], servers: usize, which: Which) -> Vec<Row> {
    let mut rows = Vec::new();
    for question in Question::ALL {
        for class in 0..BOUNDS.len() {
            let of_class: Vec<usize> =
                (0..probes.len()).filter(|probe| class_of(probes[*probe].entries) == class).collect();
            if of_class.is_empty() {
                continue;
            }
            let time = |server: usize, probe: usize| {
                let times = answers.times.get(&(server, question, probe))?;
                match (&times.refused, which) {
                    (Some(_), _) => None,
                    (None, Which::Cold) => Some(times.cold_us),
                    (None, Which::Warm) => (!times.warm_us.is_empty()).then(|| median(&times.warm_us)),
                }
            };
            let us = (0..servers).map(|server| of_class.iter().filter_map(|probe| time(server, *probe)).collect());
            rows.push(Row { question, class, scripts: of_class.len(), us: us.collect() });
        }
    }
    rows
}

/// For one server, question and class: the median over its scripts in each pass, in microseconds.
pub fn medians_of_passes(
    answers: &Answers,
    probes: &[Probe],
    server: usize,
    question: Question,
    class: usize,
) -> Vec<f64> {
    let of_class = (0..probes.len()).filter(|probe| class_of(probes[*probe].entries) == class);
    let passes: Vec<&Vec<f64>> = of_class
        .filter_map(|probe| answers.times.get(&(server, question, probe)))
        .filter(|times| times.refused.is_none())
        .map(|times| &times.warm_us)
        .collect();
    let shortest = passes.iter().map(|us| us.len()).min().unwrap_or(0);
    (0..shortest).map(|pass| median(&passes.iter().map(|us| us[pass]).collect::<Vec<f64>>())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::addresses::Times;
    use super::*;

    #[test]
    fn classes_begin_at_powers_of_ten() {
        let names: Vec<String> = [0, 1, 2, 9, 10, 999, 1_000, 99_999, 100_000, 5_000_000]
            .map(|entries| class_name(class_of(entries)))
            .to_vec();
        let want = [
            "0",
            "1",
            "2 to 9",
            "2 to 9",
            "10 to 99",
            "100 to 999",
            "1,000 to 9,999",
            "10,000 to 99,999",
            "100,000 and more",
            "100,000 and more",
        ];
        assert_eq!(names, want);
    }

    #[test]
    fn the_winner_has_the_least_time_and_our_ratio_is_to_the_best_other() {
        assert_eq!(winner(&[Some(2.0), Some(5.0), Some(4.0)]), Some((0, Some(2.0))));
        assert_eq!(winner(&[Some(8.0), None, Some(4.0)]), Some((2, Some(0.5))));
        assert_eq!(winner(&[Some(8.0), None]), Some((0, None)));
        assert_eq!(winner(&[None, Some(1.0)]), Some((1, None)));
        assert_eq!(winner(&[None, None]), None);
    }

    #[test]
    fn who_refuses_a_script_has_no_figure_for_its_class() {
        let probe = |entries| Probe { hash: String::new(), entries, unspent: 1 };
        let probes = [probe(10), probe(50), probe(99), probe(100)];
        let mut answers = Answers::default();
        for (index, warm) in [[1.0, 3.0, 2.0], [10.0, 30.0, 20.0], [5.0, 5.0, 5.0], [7.0, 8.0, 9.0]].iter().enumerate()
        {
            let times = Times { cold_us: 50.0 + index as f64, warm_us: warm.to_vec(), bytes: 1, refused: None };
            answers.times.insert((0, Question::Balance, index), times.clone());
            let refused = (index == 1).then(|| "too long".to_owned());
            answers.times.insert((1, Question::Balance, index), Times { refused, ..times });
        }
        let rows = rows(&answers, &probes, 2, Which::Warm);
        let row = &rows[0];
        assert_eq!((row.question, row.scripts), (Question::Balance, 3));
        assert_eq!((row.p50(), row.worst()), (vec![Some(5.0), None], vec![Some(20.0), None]));
        assert_eq!(super::rows(&answers, &probes, 2, Which::Cold)[0].p50(), [Some(51.0), None]);
        assert_eq!(medians_of_passes(&answers, &probes, 0, Question::Balance, class_of(10)), [5.0, 5.0, 5.0]);
        assert_eq!(medians_of_passes(&answers, &probes, 0, Question::Balance, class_of(100)), [7.0, 8.0, 9.0]);
    }
}
