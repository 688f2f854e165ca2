//! Series of preferred numbers, to which `$bucketAuto` rounds its boundaries: the Renard series R, the E series of
//! electronics, 1-2-5 and the powers of two.

use arbor_bson::{Number, Value, ValueRef};

use crate::{Error, Result, text};

/// A series between 10^k and 10^(k+1), or the powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) enum Granularity {
    /// Every `step`-th of the ascending numbers of one decade.
    Decade {
        series: &'static [f64],
        step: usize,
    },
    PowersOfTwo,
}

const R40: &[f64] = &[
    100.0, 106.0, 112.0, 118.0, 125.0, 132.0, 140.0, 150.0, 160.0, 170.0, 180.0, 190.0, 200.0, 212.0, 224.0, 236.0,
    250.0, 265.0, 280.0, 300.0, 315.0, 335.0, 355.0, 375.0, 400.0, 425.0, 450.0, 475.0, 500.0, 530.0, 560.0, 600.0,
    630.0, 670.0, 710.0, 750.0, 800.0, 850.0, 900.0, 950.0,
];
const R80: &[f64] = &[
    103.0, 109.0, 115.0, 122.0, 128.0, 136.0, 145.0, 155.0, 165.0, 175.0, 185.0, 195.0, 206.0, 218.0, 230.0, 243.0,
    258.0, 272.0, 290.0, 307.0, 325.0, 345.0, 365.0, 387.0, 412.0, 437.0, 462.0, 487.0, 515.0, 545.0, 575.0, 615.0,
    650.0, 690.0, 730.0, 775.0, 825.0, 875.0, 925.0, 975.0,
];
const ONE_TWO_FIVE: &[f64] = &[10.0, 20.0, 50.0];
const E24: &[f64] = &[
    10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 20.0, 22.0, 24.0, 27.0, 30.0, 33.0, 36.0, 39.0, 43.0, 47.0, 51.0, 56.0,
    62.0, 68.0, 75.0, 82.0, 91.0,
];
const E192: &[f64] = &[
    100.0, 101.0, 102.0, 104.0, 105.0, 106.0, 107.0, 109.0, 110.0, 111.0, 113.0, 114.0, 115.0, 117.0, 118.0, 120.0,
    121.0, 123.0, 124.0, 126.0, 127.0, 129.0, 130.0, 132.0, 133.0, 135.0, 137.0, 138.0, 140.0, 142.0, 143.0, 145.0,
    147.0, 149.0, 150.0, 152.0, 154.0, 156.0, 158.0, 160.0, 162.0, 164.0, 165.0, 167.0, 169.0, 172.0, 174.0, 176.0,
    178.0, 180.0, 182.0, 184.0, 187.0, 189.0, 191.0, 193.0, 196.0, 198.0, 200.0, 203.0, 205.0, 208.0, 210.0, 213.0,
    215.0, 218.0, 221.0, 223.0, 226.0, 229.0, 232.0, 234.0, 237.0, 240.0, 243.0, 246.0, 249.0, 252.0, 255.0, 258.0,
    261.0, 264.0, 267.0, 271.0, 274.0, 277.0, 280.0, 284.0, 287.0, 291.0, 294.0, 298.0, 301.0, 305.0, 309.0, 312.0,
    316.0, 320.0, 324.0, 328.0, 332.0, 336.0, 340.0, 344.0, 348.0, 352.0, 357.0, 361.0, 365.0, 370.0, 374.0, 379.0,
    383.0, 388.0, 392.0, 397.0, 402.0, 407.0, 412.0, 417.0, 422.0, 427.0, 432.0, 437.0, 442.0, 448.0, 453.0, 459.0,
    464.0, 470.0, 475.0, 481.0, 487.0, 493.0, 499.0, 505.0, 511.0, 517.0, 523.0, 530.0, 536.0, 542.0, 549.0, 556.0,
    562.0, 569.0, 576.0, 583.0, 590.0, 597.0, 604.0, 612.0, 619.0, 626.0, 634.0, 642.0, 649.0, 657.0, 665.0, 673.0,
    681.0, 690.0, 698.0, 706.0, 715.0, 723.0, 732.0, 741.0, 750.0, 759.0, 768.0, 777.0, 787.0, 796.0, 806.0, 816.0,
    825.0, 835.0, 845.0, 856.0, 866.0, 876.0, 887.0, 898.0, 909.0, 920.0, 931.0, 942.0, 953.0, 965.0, 976.0, 988.0,
];

impl Granularity {
    pub(super) fn named(name: &str) -> Result<Granularity> {
        let (series, step) = match name {
            "R5" => (R40, 8),
            "R10" => (R40, 4),
            "R20" => (R40, 2),
            "R40" => (R40, 1),
            "R80" => (R80, 1),
            "1-2-5" => (ONE_TWO_FIVE, 1),
            "E6" => (E24, 4),
            "E12" => (E24, 2),
            "E24" => (E24, 1),
            "E48" => (E192, 4),
            "E96" => (E192, 2),
            "E192" => (E192, 1),
            "POWERSOF2" => return Ok(Granularity::PowersOfTwo),
            _ => return Err(Error::location(40257, format!("Unknown rounding granularity '{name}'"))),
        };
        Ok(Granularity::Decade { series, step })
    }

    /// Refuses values that have no place in a series.
    pub(super) fn check(self, value: ValueRef) -> Result<()> {
        let what = "$bucketAuto can specify a 'granularity' with";
        let Some(number) = Number::of(value) else {
            let found = text::type_name(Some(value));
            let message = format!("{what} numeric boundaries only, but found a value with type: {found}");
            return Err(Error::location(40258, message));
        };
        if number.is_nan() {
            return Err(Error::location(40259, format!("{what} numeric boundaries only, but found a NaN")));
        }
        if number.to_f64() < 0.0 {
            let message = format!("{what} non-negative numbers only, but found a negative number");
            return Err(Error::location(40260, message));
        }
        Ok(())
    }

    /// The least number of the series above the value; zero and infinity stay.
    pub(super) fn above(self, value: ValueRef) -> Value {
        self.neighbour(value, |number, value| number > value, false)
    }

    /// The greatest number of the series below the value; zero and infinity stay.
    pub(super) fn below(self, value: ValueRef) -> Value {
        self.neighbour(value, |number, value| number < value, true)
    }

    fn neighbour(self, value: ValueRef, accepts: impl Fn(f64, f64) -> bool, greatest: bool) -> Value {
        let Some(number) = Number::of(value).map(Number::to_f64) else { return value.to_value() };
        if number == 0.0 || !number.is_finite() {
            return value.to_value();
        }
        let base: f64 = if matches!(self, Granularity::PowersOfTwo) { 2.0 } else { 10.0 };
        let exponent = number.log(base).floor() as i32;
        let mut candidates: Vec<f64> =
            (exponent - 2..=exponent + 2).flat_map(|exponent| self.decade(exponent)).collect();
        candidates.retain(|candidate| accepts(*candidate, number));
        let found = if greatest { candidates.last() } else { candidates.first() };
        let rounded = found.copied().unwrap_or(number);
        match (self, value) {
            (Granularity::PowersOfTwo, ValueRef::Int32(_) | ValueRef::Int64(_)) if (1.0..2e9).contains(&rounded) => {
                Value::Int32(rounded as i32)
            }
            // by its text, since a double turns into all of its digits
            (_, ValueRef::Decimal128(_)) => {
                let decimal = rounded.to_string().parse();
                Value::Decimal128(decimal.unwrap_or_else(|_| Number::Double(rounded).to_decimal()))
            }
            _ => Value::Double(rounded),
        }
    }

    /// The numbers from `base^exponent` to below the next power, ascending.
    fn decade(self, exponent: i32) -> Vec<f64> {
        match self {
            Granularity::PowersOfTwo => vec![2f64.powi(exponent)],
            Granularity::Decade { series, step } => {
                let digits = if series.first().is_some_and(|first| *first >= 100.0) { 2 } else { 1 };
                // multiplied or divided by a power that is exact, so that 0.16 is what a client writes as 0.16
                let scale = exponent - digits;
                let place = |number: &f64| match scale >= 0 {
                    true => number * 10f64.powi(scale),
                    false => number / 10f64.powi(-scale),
                };
                series.iter().step_by(step).map(place).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::{show, value};

    #[test]
    fn rounds_to_its_neighbours() {
        for (name, number, above, below) in [
            ("R5", "19", "25.0", "16.0"),
            ("R5", "10", "16.0", "6.3"),
            ("R10", "126", "160.0", "125.0"),
            ("R20", "59", "63.0", "56.0"),
            ("R80", "100", "103.0", "97.5"),
            ("1-2-5", "0.3", "0.5", "0.2"),
            ("1-2-5", "1000", "2000.0", "500.0"),
            ("E6", "16", "22.0", "15.0"),
            ("E12", "13", "15.0", "12.0"),
            ("E24", "43", "47.0", "39.0"),
            ("E48", "101", "105.0", "100.0"),
            ("E96", "101", "102.0", "100.0"),
            ("E192", "100", "101.0", "98.8"),
            ("POWERSOF2", "32", "64", "16"),
            ("POWERSOF2", "33.5", "64.0", "32.0"),
            ("POWERSOF2", "1", "2", "0.5"),
            ("R5", "0", "0", "0"),
            ("R5", "Decimal('19')", "Decimal('25')", "Decimal('16')"),
        ] {
            let series = Granularity::named(name).unwrap();
            let number = value(number);
            let shown = (show(series.above(number.as_ref()).as_ref()), show(series.below(number.as_ref()).as_ref()));
            assert_eq!(shown, (show(value(above).as_ref()), show(value(below).as_ref())), "{name} {number:?}");
        }
    }

    #[test]
    fn every_series_ascends_within_a_decade() {
        let lengths = [5, 10, 20, 40, 40, 3, 6, 12, 24, 48, 96, 192];
        let names = ["R5", "R10", "R20", "R40", "R80", "1-2-5", "E6", "E12", "E24", "E48", "E96", "E192"];
        for (name, length) in names.into_iter().zip(lengths) {
            let series = Granularity::named(name).unwrap().decade(0);
            assert_eq!(series.len(), length, "{name}");
            assert!(series.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
            assert!(series.last().unwrap() / series.first().unwrap() < 10.0, "{name}");
        }
    }
}
