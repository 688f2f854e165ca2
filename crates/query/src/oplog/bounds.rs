//! Bounds on `ts` from a filter: the part of the log that has to be read.

use arbor_bson::{Doc, Timestamp, ValueRef};

/// Both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub from: u64,
    pub to: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { from: 0, to: u64::MAX }
    }
}

impl Bounds {
    /// Returns bounds that contain every entry that matches the filter.
    pub fn of(filter: Doc<'_>) -> Bounds {
        let mut bounds = Bounds::default();
        bounds.narrow(filter);
        bounds
    }

    fn narrow(&mut self, filter: Doc<'_>) {
        for (name, value) in filter {
            match (name, value) {
                ("ts", ValueRef::Timestamp(time)) => self.apply("$eq", time),
                ("ts", ValueRef::Document(operators)) => {
                    for (operator, value) in operators {
                        if let ValueRef::Timestamp(time) = value {
                            self.apply(operator, time);
                        }
                    }
                }
                ("$and", ValueRef::Array(all)) => {
                    for part in all.iter() {
                        if let ValueRef::Document(part) = part {
                            self.narrow(part);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn apply(&mut self, operator: &str, time: Timestamp) {
        let time = u64::from(time.seconds) << 32 | u64::from(time.increment);
        match operator {
            "$eq" => (self.from, self.to) = (self.from.max(time), self.to.min(time)),
            "$gte" => self.from = self.from.max(time),
            "$gt" => self.from = self.from.max(time.saturating_add(1)),
            "$lte" => self.to = self.to.min(time),
            "$lt" => self.to = self.to.min(time.saturating_sub(1)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use arbor_bson::DocBuf;

    use super::*;

    fn ts(seconds: u32, operator: &str) -> DocBuf {
        DocBuf::new().with(operator, ValueRef::Timestamp(Timestamp { seconds, increment: 0 }))
    }

    #[test]
    fn operators_narrow() {
        let check = |filter: DocBuf, from: u64, to: u64| {
            assert_eq!(Bounds::of(filter.as_doc()), Bounds { from, to }, "{filter:?}");
        };
        let second = 1u64 << 32;
        check(DocBuf::new(), 0, u64::MAX);
        check(ts(5, "ts"), 5 * second, 5 * second);
        check(DocBuf::new().with("ts", &ts(5, "$gt")), 5 * second + 1, u64::MAX);
        check(DocBuf::new().with("ts", &ts(5, "$lt")), 0, 5 * second - 1);
        let both: arbor_bson::ArrayBuf =
            [&DocBuf::new().with("ts", &ts(5, "$gte")), &DocBuf::new().with("ts", &ts(7, "$lte"))]
                .into_iter()
                .collect();
        check(DocBuf::new().with("$and", &both), 5 * second, 7 * second);
        check(DocBuf::new().with("$or", &both), 0, u64::MAX);
        check(DocBuf::new().with("ts", &DocBuf::new().with("$gt", 5i32)), 0, u64::MAX);
    }
}
