//! From values to places on a chart.
//!
//! In:     the values of an axis, evenly spaced or by orders of magnitude.
//! Out:    [`Scale`]: a range with round ends, ticks, and the place of each value between 0 and 1.
//! Fails:  never; without a value the range is 0 to 1, or 1 to 10.

/// What is larger is no value that anyone measures, and would leave ticks no digits.
const LARGEST: f64 = 1e15;
/// Ticks of an even axis, about.
const TICKS: f64 = 6.0;

/// An axis with its range.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Values with a line and a number.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// For these values; an even axis begins at zero unless all values are far from it, or where `zero` asks for it.
    pub fn of(values: impl Iterator<Item = f64>, log: bool, zero: bool) -> Scale {
        let known = values.filter(|value| value.abs() <= LARGEST && (!log || *value > 0.0));
        let range = known.fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
        });
        if log {
            Scale::by_magnitude(range.unwrap_or((1.0, 10.0)))
        } else {
            Scale::even(range.unwrap_or((0.0, 1.0)), zero)
        }
    }

    fn even((low, high): (f64, f64), zero: bool) -> Scale {
        let near_zero = high - low > 0.5 * high.abs();
        let low = if low > 0.0 && (near_zero || zero || low == high) { 0.0 } else { low };
        let high = if high <= low { low + 1.0 } else { high };
        let step = round_up((high - low) / TICKS);
        let (first, last) = ((low / step).floor() as i64, (high / step - 1e-9).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|number| number as f64 * step).collect();
        Scale { low: ticks[0], high: ticks[ticks.len() - 1], log: false, ticks }
    }

    fn by_magnitude((low, high): (f64, f64)) -> Scale {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let all = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        let all: Vec<f64> = all.collect();
        let low = all.iter().copied().rfind(|tick| *tick <= low).unwrap_or(all[0]);
        let high = all.iter().copied().find(|tick| *tick >= high && *tick > low).unwrap_or(10.0 * low);
        let inside = |tick: &&f64| **tick >= low && **tick <= high;
        let is_power = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
        let powers: Vec<f64> = all.iter().filter(inside).copied().filter(is_power).collect();
        let ticks = if powers.len() < 4 { all.iter().filter(inside).copied().collect() } else { powers };
        Scale { low, high, log: true, ticks }
    }

    /// Where it lies, 0 at the lower end and 1 at the upper; none for what has no place.
    pub fn place(&self, value: f64) -> Option<f64> {
        let place = match self.log {
            _ if value.is_nan() || value.abs() > LARGEST || (self.log && value <= 0.0) => return None,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.is_finite().then_some(place)
    }
}

/// The least of 1, 2, 5, 10, 20, ... that is not below.
fn round_up(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|round| *round >= step * (1.0 - 1e-9))
        .unwrap_or(step)
}

/// A tick's number: short, with `k`, `M` and `G` above ten thousand.
pub fn tick_text(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        above if above >= 1e9 => (value / 1e9, " G"),
        above if above >= 1e6 => (value / 1e6, " M"),
        above if above >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    // Ticks have at most three digits that count; what lies behind is rounding of the step.
    let rounded = (scaled * 1e6).round() / 1e6;
    format!("{rounded}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_round_and_hold_every_value() {
        #[track_caller]
        fn check(values: &[f64], log: bool, zero: bool, want: &[f64]) {
            let scale = Scale::of(values.iter().copied(), log, zero);
            let near = scale.ticks.len() == want.len()
                && scale.ticks.iter().zip(want).all(|(got, want)| (got - want).abs() <= 1e-9 * want.abs());
            assert!(near, "{values:?}: {:?}", scale.ticks);
            for value in values.iter().filter(|value| value.is_finite() && (!log || **value > 0.0)) {
                let place = scale.place(*value).unwrap();
                assert!((-1e-9..=1.0 + 1e-9).contains(&place), "{value} at {place}");
            }
        }
        check(&[0.0, 6.0], false, false, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(&[3.0, 11.0], false, false, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        check(&[100.0, 104.0], false, false, &[100.0, 101.0, 102.0, 103.0, 104.0]);
        check(&[100.0, 104.0], false, true, &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0]);
        check(&[5.0, 5.0], false, false, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(&[0.0], false, false, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(&[f64::NAN], false, false, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(&[-3.0, 3.0], false, false, &[-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
        check(&[1.0, 100_000.0], true, false, &[1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
        check(&[3.0, 40.0, 0.0, -1.0], true, false, &[2.0, 5.0, 10.0, 20.0, 50.0]);
        check(&[7.0, 7.0], true, false, &[5.0, 10.0]);
        check(&[10.0, 10.0], true, false, &[10.0, 20.0]);
        check(&[], true, false, &[1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn orders_of_magnitude_are_equally_far() {
        let scale = Scale::of([1.0, 10_000.0].into_iter(), true, false);
        let places: Vec<f64> = [1.0, 10.0, 100.0, 10_000.0].iter().map(|value| scale.place(*value).unwrap()).collect();
        assert!(places.iter().zip([0.0, 0.25, 0.5, 1.0]).all(|(got, want)| (got - want).abs() < 1e-12), "{places:?}");
        assert_eq!([0.0, -1.0, f64::NAN, f64::MAX].map(|value| scale.place(value)), [None; 4]);
    }

    #[test]
    fn numbers_of_ticks_are_short() {
        for (value, want) in [
            (0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (0.000_2, "0.0002"),
            (1_000.0, "1000"),
            (9_999.0, "9999"),
            (20_000.0, "20 k"),
            (1_500_000.0, "1.5 M"),
            (3e9, "3 G"),
            (-2.0, "-2"),
        ] {
            assert_eq!(tick_text(value), want);
        }
    }
}
