//! The fail points that the drivers' own tests use: `failCommand`, `failGetMoreAfterCursorCheckout`, `maxTimeAlwaysTimeOut`,
//! `maxTimeNeverTimeOut` and `onPrimaryTransactionalWrite`; and `suspendRangeDeletion` of a shard.
//! Only with `--setParameter enableTestCommands=1`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use parking_lot::Mutex;

use crate::arguments::Field;
use crate::{Error, Result};

#[derive(Default)]
pub struct FailPoints {
    /// The only field that requests read while no fail point is on.
    any: AtomicBool,
    points: Mutex<Points>,
}

/// Those that are on.
#[derive(Default)]
struct Points {
    fail_command: Option<FailPoint>,
    always_time_out: Option<FailPoint>,
    never_time_out: Option<FailPoint>,
    get_more: Option<FailPoint>,
    numbered_write: Option<FailPoint>,
    range_deletion: Option<FailPoint>,
}

/// Treatment of `maxTimeMS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeLimit {
    AsGiven,
    Expired,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    AlwaysOn,
    Times(u64),
    Skip(u64),
    /// Share of the hits.
    Probability(f64),
}

struct FailPoint {
    mode: Mode,
    data: Data,
    hits: u64,
}

#[derive(Clone, Default)]
struct Data {
    commands: Vec<String>,
    app_name: Option<String>,
    effect: Effect,
}

/// Effect of a fail point on a matching command.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    pub error_code: Option<Code>,
    pub error_labels: Option<Vec<String>>,
    pub close_connection: bool,
    pub block: Option<Duration>,
    pub write_concern_error: Option<DocBuf>,
    /// Error before the commit (`onPrimaryTransactionalWrite`).
    pub before_commit: Option<Code>,
}

impl FailPoints {
    /// The `configureFailPoint` command. Returns how often the fail point was entered before.
    pub fn configure(&self, name: &str, body: Doc<'_>) -> Result<u64> {
        let mut points = self.points.lock();
        let Some(slot) = points.slot(name) else {
            return Err(Error::new(Code::FAIL_POINT_SET_FAILED, format!("{name} not found")));
        };
        let data = match body.get("data") {
            Some(value) => Data::read(Field::new("configureFailPoint", "data").document(value)?, name)?,
            None => Data::read(Doc::empty(), name)?,
        };
        let mode = Mode::read(body.get("mode"))?;
        let hits = slot.as_ref().map_or(0, |before| before.hits);
        *slot = mode.map(|mode| FailPoint { mode, data, hits: 0 });
        self.any.store(points.any(), Ordering::Relaxed);
        Ok(hits)
    }

    /// Returns the effect on this command, if any.
    pub fn on_command(&self, command: &str, app_name: impl FnOnce() -> Option<String>) -> Option<Effect> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut points = self.points.lock();
        let fail = points.fail_command.as_mut()?;
        // Aliases of a command differ in case only: isMaster, ismaster.
        if !fail.data.commands.iter().any(|name| name.eq_ignore_ascii_case(command)) {
            return None;
        }
        if fail.data.app_name.is_some() && fail.data.app_name != app_name() {
            return None;
        }
        fail.enter().then(|| fail.data.effect.clone())
    }

    /// Returns the error of a `getMore` whose cursor was found.
    pub fn on_get_more(&self) -> Option<Code> {
        self.on_point(|points| &mut points.get_more)?.error_code
    }

    /// Returns the effect on a write of a transaction, or one that can be retried, before it runs or when it is done.
    pub fn on_numbered_write(&self, is_done: bool) -> Option<Effect> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut points = self.points.lock();
        let fail = points.numbered_write.as_mut()?;
        if fail.data.effect.before_commit.is_some() == is_done {
            return None;
        }
        fail.enter().then(|| fail.data.effect.clone())
    }

    /// Returns true if a shard is to keep the documents of ranges that have left.
    pub fn suspends_range_deletion(&self) -> bool {
        self.on_point(|points| &mut points.range_deletion).is_some()
    }

    fn on_point(&self, point: impl FnOnce(&mut Points) -> &mut Option<FailPoint>) -> Option<Effect> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut points = self.points.lock();
        let fail = point(&mut points).as_mut()?;
        fail.enter().then(|| fail.data.effect.clone())
    }

    /// Returns the treatment of the time limit of an operation that has one.
    pub fn on_time_limit(&self) -> TimeLimit {
        if !self.any.load(Ordering::Relaxed) {
            return TimeLimit::AsGiven;
        }
        let mut points = self.points.lock();
        if points.always_time_out.as_mut().is_some_and(FailPoint::enter) {
            TimeLimit::Expired
        } else if points.never_time_out.as_mut().is_some_and(FailPoint::enter) {
            TimeLimit::Ignored
        } else {
            TimeLimit::AsGiven
        }
    }
}

impl Points {
    fn slot(&mut self, name: &str) -> Option<&mut Option<FailPoint>> {
        match name {
            "failCommand" => Some(&mut self.fail_command),
            "failGetMoreAfterCursorCheckout" => Some(&mut self.get_more),
            "onPrimaryTransactionalWrite" => Some(&mut self.numbered_write),
            "maxTimeAlwaysTimeOut" => Some(&mut self.always_time_out),
            "maxTimeNeverTimeOut" => Some(&mut self.never_time_out),
            "suspendRangeDeletion" => Some(&mut self.range_deletion),
            _ => None,
        }
    }

    fn any(&self) -> bool {
        let all = [
            &self.fail_command,
            &self.always_time_out,
            &self.never_time_out,
            &self.get_more,
            &self.numbered_write,
            &self.range_deletion,
        ];
        all.into_iter().any(Option::is_some)
    }
}

impl FailPoint {
    /// Counts the mode down; answers whether this time counts.
    fn enter(&mut self) -> bool {
        let on = match &mut self.mode {
            Mode::AlwaysOn => true,
            Mode::Times(0) => false,
            Mode::Times(left) => {
                *left -= 1;
                true
            }
            Mode::Skip(0) => true,
            Mode::Skip(left) => {
                *left -= 1;
                false
            }
            Mode::Probability(share) => rand::random::<f64>() < *share,
        };
        self.hits += u64::from(on);
        on
    }
}

impl Mode {
    /// `None`: off.
    fn read(value: Option<ValueRef<'_>>) -> Result<Option<Mode>> {
        let unknown =
            || Error::bad_value("'mode' must be 'off', 'alwaysOn', { times }, { skip } or { activationProbability }");
        match value {
            Some(ValueRef::String("off")) => Ok(None),
            Some(ValueRef::String("alwaysOn")) => Ok(Some(Mode::AlwaysOn)),
            Some(ValueRef::Document(doc)) => match doc.first() {
                Some(("times", value)) => Ok(Some(Mode::Times(Field::new("mode", "times").unsigned(value)?))),
                Some(("skip", value)) => Ok(Some(Mode::Skip(Field::new("mode", "skip").unsigned(value)?))),
                Some(("activationProbability", ValueRef::Double(share))) => Ok(Some(Mode::Probability(share))),
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }
}

impl Data {
    fn read(doc: Doc<'_>, point: &str) -> Result<Data> {
        let mut data = Data::default();
        // this one closes the connection unless it is said not to
        data.effect.close_connection = point == "onPrimaryTransactionalWrite";
        let (mut blocks, mut block_ms) = (false, 0);
        for (name, value) in doc {
            let field = Field::new("data", name);
            match name {
                "failCommands" => data.commands = strings(field, value)?,
                "appName" => data.app_name = Some(field.string(value)?.to_owned()),
                "errorCode" => data.effect.error_code = Some(Code(field.integer(value)? as i32)),
                "failBeforeCommitExceptionCode" => data.effect.before_commit = Some(Code(field.integer(value)? as i32)),
                "errorLabels" => data.effect.error_labels = Some(strings(field, value)?),
                "closeConnection" => data.effect.close_connection = field.bool(value)?,
                "blockConnection" => blocks = field.bool(value)?,
                "blockTimeMS" => block_ms = field.unsigned(value)?,
                "writeConcernError" => data.effect.write_concern_error = Some(field.document(value)?.to_buf()),
                "failInternalCommands" | "namespace" | "threadName" | "failLocalClients" | "errorExtraInfo" => {}
                _ => return Err(field.unknown()),
            }
        }
        data.effect.block = blocks.then(|| Duration::from_millis(block_ms.min(600_000)));
        Ok(data)
    }
}

fn strings(field: Field<'_>, value: ValueRef<'_>) -> Result<Vec<String>> {
    field.array(value)?.iter().map(|value| Ok(field.string(value)?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::ArrayBuf;

    fn configured(mode: impl Into<ValueRef<'static>>) -> FailPoints {
        let names: ArrayBuf = ["find"].into_iter().collect();
        let data = DocBuf::new().with("failCommands", &names).with("errorCode", 11602i32).with("appName", "app");
        let points = FailPoints::default();
        points.configure("failCommand", DocBuf::new().with("mode", mode).with("data", &data).as_doc()).unwrap();
        points
    }

    fn hits(points: &FailPoints, times: usize) -> usize {
        let app = || Some("app".to_owned());
        (0..times).filter(|_| points.on_command("find", app).is_some_and(|e| e.error_code == Some(Code(11602)))).count()
    }

    #[test]
    fn modes() {
        let counted =
            |name: &'static str, n: i32| -> &'static DocBuf { Box::leak(Box::new(DocBuf::new().with(name, n))) };
        assert_eq!(hits(&configured("alwaysOn"), 5), 5);
        assert_eq!(hits(&configured("off"), 5), 0);
        assert_eq!(hits(&configured(counted("times", 2)), 5), 2);
        assert_eq!(hits(&configured(counted("skip", 2)), 5), 3);
    }

    #[test]
    fn only_the_named_command_and_application() {
        let points = configured("alwaysOn");
        assert!(points.on_command("insert", || Some("app".to_owned())).is_none());
        assert!(points.on_command("find", || None).is_none());
        assert!(configured("alwaysOn").on_command("FIND", || Some("app".to_owned())).is_some());
        assert_eq!(hits(&points, 3), 3);
        let off = DocBuf::new().with("mode", "off");
        assert_eq!(points.configure("failCommand", off.as_doc()).unwrap(), 3);
        assert!(points.configure("other", off.as_doc()).is_err());
        assert!(points.configure("failCommand", DocBuf::new().with("mode", 5i32).as_doc()).is_err());
    }

    #[test]
    fn time_limits() {
        let points = FailPoints::default();
        let set = |name, mode: &'static str| {
            points.configure(name, DocBuf::new().with("mode", mode).as_doc()).unwrap();
            points.on_time_limit()
        };
        assert_eq!(points.on_time_limit(), TimeLimit::AsGiven);
        assert_eq!(set("failCommand", "alwaysOn"), TimeLimit::AsGiven);
        assert_eq!(set("maxTimeNeverTimeOut", "alwaysOn"), TimeLimit::Ignored);
        assert_eq!(set("maxTimeAlwaysTimeOut", "alwaysOn"), TimeLimit::Expired);
        assert_eq!(set("maxTimeAlwaysTimeOut", "off"), TimeLimit::Ignored);
        assert_eq!(set("maxTimeNeverTimeOut", "off"), TimeLimit::AsGiven);
        assert!(points.any.load(Ordering::Relaxed), "failCommand is still on");
    }
}
