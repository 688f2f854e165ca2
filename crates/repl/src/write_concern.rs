//! Meaning of a write concern in a replica set.

use std::time::Duration;

use arbor_protocol::write_concern::{Refused, W, WriteConcern, WriteConcernSpec};

use crate::SetConfig;

/// Returns what a write concern means on the member of a set with this configuration; before there is one, it is of one member.
pub(crate) fn on_member(given: WriteConcernSpec<'_>, config: Option<&SetConfig>) -> WriteConcern {
    // a member without a vote acknowledges as well, for `w: N`
    let with_data = config.map_or(1, |config| config.members.iter().filter(|member| !member.arbiter).count()) as i64;
    let refused = match given.w {
        Some(W::Number(members)) if members > with_data => Some(Refused::TooFewMembers),
        Some(W::Mode(mode)) => match config.and_then(|config| config.can_satisfy(mode)) {
            None => Some(Refused::UnknownMode),
            Some(false) => Some(Refused::TooFewMembers),
            Some(true) => None,
        },
        Some(W::Tags(tags)) => {
            (!config.is_some_and(|config| config.can_reach(tags.iter()))).then_some(Refused::TooFewMembers)
        }
        _ => None,
    };
    let concern = given.with(config.is_none_or(|config| config.majority_is_journaled), refused);
    match u64::try_from(given.timeout_ms) {
        Ok(ms @ 1..) if concern.journaled => {
            WriteConcern { journaled: false, patience: Some(Duration::from_millis(ms)), ..concern }
        }
        _ => concern,
    }
}

#[cfg(test)]
mod tests {
    use arbor_bson::{DocBuf, ValueRef};

    use super::*;

    fn given(doc: &DocBuf) -> WriteConcernSpec<'_> {
        WriteConcernSpec::read(doc.as_doc()).unwrap()
    }

    fn w(value: impl Into<ValueRef<'static>>) -> DocBuf {
        DocBuf::new().with("w", value)
    }

    #[test]
    fn on_a_member() {
        let mut config = SetConfig::of_one("rs", "h:1".to_owned());
        config.members[0].tags = vec![("dc".to_owned(), "east".to_owned())];
        let mode = |name: &str, n| (name.to_owned(), vec![("dc".to_owned(), n)]);
        config.settings.modes = vec![mode("one", 1), mode("two", 2)];
        let refused = |doc: DocBuf| on_member(given(&doc), Some(&config)).refused;
        assert_eq!(refused(w(1i32)), None);
        assert_eq!(refused(w("majority")), None);
        assert_eq!(refused(w("one")), None);
        assert_eq!(refused(w(2i32)), Some(Refused::TooFewMembers));
        assert_eq!(refused(w("two")), Some(Refused::TooFewMembers));
        let tags = |name: &str, n: i32| DocBuf::new().with("w", &DocBuf::new().with(name, n));
        assert_eq!(refused(tags("dc", 1)), None);
        assert_eq!(refused(tags("dc", 2)), Some(Refused::TooFewMembers));
        assert_eq!(refused(tags("rack", 1)), Some(Refused::TooFewMembers));
        let mut more = config.clone();
        let one = more.members[0].clone();
        more.members.extend([one.clone(), one]);
        (more.members[1].votes, more.members[2].arbiter) = (0, true);
        assert_eq!(on_member(given(&w(2i32)), Some(&more)).refused, None, "a member without a vote has the data");
        assert_eq!(on_member(given(&w(3i32)), Some(&more)).refused, Some(Refused::TooFewMembers), "an arbiter has not");
        assert_eq!(refused(w("three")), Some(Refused::UnknownMode));
        let majority = |config: &SetConfig| on_member(given(&w("majority")), Some(config)).journaled;
        assert!(majority(&config));
        let patient = w("majority").with("wtimeout", 5i32);
        let patient = on_member(given(&patient), Some(&config));
        assert_eq!((patient.journaled, patient.patience), (false, Some(Duration::from_millis(5))));
        config.majority_is_journaled = false;
        assert!(!majority(&config));
    }
}
