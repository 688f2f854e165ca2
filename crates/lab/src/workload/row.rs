//! The row of sysbench: `_id`, `k`, `c`, `pad` (spec/workloads.md 2.2).

use super::{Random, Shape};

/// 10 groups of 11 digits joined by `-`.
pub const C_BYTES: usize = 10 * 11 + 9;
/// 5 groups of 11 digits joined by `-`.
pub const PAD_BYTES: usize = 5 * 11 + 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: i64,
    pub k: i32,
    pub c: String,
    pub pad: String,
}

impl Row {
    pub fn random(id: i64, rows: u32, random: &mut Random) -> Row {
        let k = random.up_to(rows) as i32;
        let (mut c, mut pad) = (String::with_capacity(C_BYTES), String::with_capacity(PAD_BYTES));
        fill_groups(10, random, &mut c);
        fill_groups(5, random, &mut pad);
        Row { id, k, c, pad }
    }
}

/// Replaces `text` by `groups` groups of 11 random decimal digits joined by `-`.
pub fn fill_groups(groups: usize, random: &mut Random, text: &mut String) {
    text.clear();
    for group in 0..groups {
        if group > 0 {
            text.push('-');
        }
        // 11 digits out of one draw: 2^64 holds them with a bias below 1e-8.
        let mut digits = random.bits();
        for _ in 0..11 {
            text.push(char::from(b'0' + (digits % 10) as u8));
            digits /= 10;
        }
    }
}

/// The rows of one table in loading order; the content depends on the table's number only.
#[derive(Debug)]
pub struct Rows {
    random: Random,
    next: u32,
    shape: Shape,
}

impl Rows {
    pub fn of_table(table: u32, shape: Shape) -> Rows {
        Rows { random: Random::new(table.into()), next: 1, shape }
    }
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.next > self.shape.rows {
            return None;
        }
        let row = Row::random(self.next.into(), self.shape.rows, &mut self.random);
        self.next += 1;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_form_of_sysbench() {
        let row = Row::random(1, 1000, &mut Random::new(1));
        assert_eq!((row.c.len(), row.pad.len()), (119, 59));
        for (text, groups) in [(&row.c, 10), (&row.pad, 5)] {
            let parts: Vec<&str> = text.split('-').collect();
            assert_eq!(parts.len(), groups);
            assert!(parts.iter().all(|part| part.len() == 11 && part.bytes().all(|byte| byte.is_ascii_digit())));
        }
        assert!((1..=1000).contains(&row.k));
    }

    #[test]
    fn a_table_is_the_same_every_time_and_differs_from_the_next() {
        let shape = Shape { tables: 2, rows: 50 };
        let table = |n| Rows::of_table(n, shape).collect::<Vec<Row>>();
        assert_eq!(table(1), table(1));
        assert_ne!(table(1), table(2));
        assert_eq!(table(1).iter().map(|row| row.id).collect::<Vec<_>>(), (1..=50).collect::<Vec<i64>>());
    }

    #[test]
    fn digits_are_even() {
        let mut counts = [0u32; 10];
        let (mut random, mut text) = (Random::new(3), String::new());
        for _ in 0..1000 {
            fill_groups(10, &mut random, &mut text);
            text.bytes().filter(u8::is_ascii_digit).for_each(|digit| counts[usize::from(digit - b'0')] += 1);
        }
        assert!(counts.iter().all(|count| (10_500..11_500).contains(count)), "{counts:?}");
    }
}
