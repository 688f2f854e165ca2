//! `profile`: level, filter and sample rate of the profiler, and the threshold of the slow query log.

use arbor_bson::{Code, ValueRef};
use arbor_protocol::arguments::is_present;

use crate::call::Call;
use crate::profiler::DatabaseProfile;
use crate::{Error, Result};

/// As MongoDB words it.
const NOTE: &str =
    "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines.";

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    if !is_present(call.target()) {
        return Err(call.field("profile").missing().into());
    }
    let level = whole(call, "profile", call.target())?;
    let (mut slow_ms, mut sample_rate, mut filter) = (None, None, None);
    for (name, value) in call.body.iter().skip(1).filter(|(name, _)| !arbor_protocol::generic::is_generic(name)) {
        let field = call.field(name);
        match (name, value) {
            ("filter", ValueRef::String("unset")) => filter = Some(None),
            ("filter", ValueRef::Document(given)) => filter = Some(Some(given.to_buf())),
            ("filter", _) => {
                let text = "Expected an object, or the string 'unset'.";
                return Err(Error::bad_value(text));
            }
            (_, value) if !is_present(value) => {}
            ("slowms", value) => slow_ms = Some(whole(call, name, value)?),
            ("sampleRate", value) => sample_rate = Some(rate(call, value)?),
            _ => call.unknown(field)?,
        }
    }
    let profiler = &call.server.profiler;
    let before = profiler.of(call.db);
    call.reply.append("was", before.level).append("slowms", profiler.slow_ms());
    call.reply.append("sampleRate", profiler.sample_rate());
    if let Some((filter, _)) = &before.filter {
        call.reply.append("filter", filter).append("note", NOTE);
    }
    let mut profile = DatabaseProfile { filter: before.filter.clone(), ..before };
    match filter {
        Some(Some(filter)) => profile = profile.with_filter(&filter)?,
        Some(None) => profile.filter = None,
        None => {}
    }
    if (0..=2).contains(&level) {
        profile.level = level as i32;
        if level > 0 {
            call.server.ensure_profile(call.db)?;
        }
    }
    if let Some(slow_ms) = slow_ms {
        profiler.set_slow_ms(slow_ms.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32);
    }
    if let Some(rate) = sample_rate {
        profiler.set_sample_rate(rate);
    }
    profiler.set(call.db, profile);
    Ok(())
}

fn number(call: &Call<'_>, name: &str, value: ValueRef<'_>) -> Result<f64> {
    let number = value.as_number().map(|number| number.to_f64());
    number.ok_or_else(|| call.field(name).wrong_types(value, "[long, int, decimal, double]'").into())
}

/// A whole number; of others the part before the point.
fn whole(call: &Call<'_>, name: &str, value: ValueRef<'_>) -> Result<i64> {
    Ok(number(call, name, value)?.trunc() as i64)
}

fn rate(call: &Call<'_>, value: ValueRef<'_>) -> Result<f64> {
    let rate = number(call, "sampleRate", value)?;
    if (0.0..=1.0).contains(&rate) {
        return Ok(rate);
    }
    Err(Error::new(Code::BAD_VALUE, format!("'sampleRate' must be between 0.0 and 1.0 inclusive, found {rate}")))
}

/// Refuses to drop the collection while operations are recorded in it.
pub(crate) fn check_may_drop(call: &Call<'_>, collection: &str) -> Result<()> {
    if collection == "system.profile" && call.server.profiler.of(call.db).level > 0 {
        let text = "turn off profiling before dropping system.profile collection";
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arbor_bson::DocBuf;

    use super::*;
    use crate::profiler::{Profiler, Verdict};

    #[test]
    fn what_is_logged_and_what_is_recorded() {
        let profiler = Profiler::new(100, 1.0, 0);
        let judge = |took| profiler.judge("db", took, || DocBuf::new().with("op", "query"));
        assert_eq!(judge(99), Verdict::default());
        assert_eq!(judge(100), Verdict { logged: true, recorded: false });
        profiler.set("db", DatabaseProfile { level: 1, filter: None });
        assert_eq!(judge(99), Verdict::default());
        assert_eq!(judge(100), Verdict { logged: true, recorded: true });
        profiler.set("db", DatabaseProfile { level: 2, filter: None });
        assert_eq!(judge(0), Verdict { logged: false, recorded: true });
        let filter = DocBuf::new().with("op", "insert");
        profiler.set("db", DatabaseProfile { level: 1, filter: None }.with_filter(&filter).unwrap());
        assert_eq!(judge(1000), Verdict::default());
        let filter = DocBuf::new().with("op", "query");
        profiler.set("db", DatabaseProfile { level: 1, filter: None }.with_filter(&filter).unwrap());
        assert_eq!(judge(0), Verdict { logged: true, recorded: true });
        assert_eq!(profiler.judge("other", 0, DocBuf::new), Verdict::default());
        profiler.set("db", DatabaseProfile::default());
        profiler.set_sample_rate(0.0);
        assert_eq!(judge(1000), Verdict::default());
    }
}
