//! Stopping work that takes long, and bounding what it builds.
//!
//! The caller that runs a statement installs a check for its thread ([`stoppable`]), which fails when the statement is to end;
//! evaluation of expressions and filters calls it every few steps, since one document may keep them busy for hours. It is
//! thread-local, as expressions are evaluated deep below everything that has access to the command.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use arbor_base::memory;

use crate::{Code, Error, Result};

/// The question whether the work is to continue.
struct Check<F: ?Sized> {
    /// The error that ended the work. It stays that: loops that cannot return an error end early, and their callers ask again.
    ended: OnceCell<Error>,
    ask: F,
}

type SharedCheck = Rc<Check<dyn Fn() -> Result<()>>>;

impl Check<dyn Fn() -> Result<()>> {
    fn ask(&self) -> Result<()> {
        if let Some(error) = self.ended.get() {
            return Err(error.clone());
        }
        (self.ask)().inspect_err(|error| drop(self.ended.set(error.clone())))
    }
}

thread_local! {
    static CHECK: RefCell<Option<SharedCheck>> = const { RefCell::new(None) };
    static TICKS: Cell<u32> = const { Cell::new(0) };
    /// True while a sort of this module runs.
    static SORTS: Cell<bool> = const { Cell::new(false) };
}

/// One step is the work of some microseconds at most.
const TICKS_PER_CHECK: u32 = 64;

/// Bytes read or written per step: 1 MB until the next check.
const BYTES_PER_TICK: usize = 16 << 10;

/// MongoDB's bound of what one expression may build; a document that is too large to be stored is found out later.
const VALUE_BYTES_MAX: usize = 100 * 1024 * 1024;

/// Bytes that every statement may build: the largest document that can be stored.
const UNCHECKED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Does the work; it ends with the error of `check` soon after that has one. May be nested: the inner check holds.
pub fn stoppable<T>(check: impl Fn() -> Result<()> + 'static, work: impl FnOnce() -> T) -> T {
    let _before = Before(CHECK.replace(Some(Rc::new(Check { ended: OnceCell::new(), ask: check }))));
    work()
}

/// The check to come back to, however the work ends.
struct Before(Option<SharedCheck>);

impl Drop for Before {
    fn drop(&mut self) {
        CHECK.set(self.0.take());
    }
}

/// One step.
#[inline]
pub fn tick() -> Result<()> {
    tick_for(0)
}

/// Counts one step, and as many as it takes to process `bytes`.
#[inline]
pub fn tick_for(bytes: usize) -> Result<()> {
    let before = TICKS.get();
    let steps = (bytes / BYTES_PER_TICK).min(TICKS_PER_CHECK as usize) as u32;
    let after = before.wrapping_add(1 + steps);
    TICKS.set(after);
    if before / TICKS_PER_CHECK == after / TICKS_PER_CHECK { Ok(()) } else { ask() }
}

/// Like [`slice::sort_by`], but runs the check between its parts.
pub fn sort_by<T>(values: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) -> Result<()> {
    const PART_LEN: usize = 4096;
    // a part is gone over about as often as it can be halved
    const ROUNDS: usize = PART_LEN.ilog2() as usize;
    leavable(|| {
        let mut len = PART_LEN;
        loop {
            // from the second round on these are two sorted halves, which the sort finds and merges
            for part in values.chunks_mut(len) {
                part.sort_by(&mut compare);
                tick_for(ROUNDS * size_of_val(part))?;
            }
            if len >= values.len() {
                return Ok(());
            }
            len *= 2;
        }
    })
}

/// Like [`slice::sort_unstable_by`], in place as well, but runs the check between its parts.
pub fn sort_unstable_by<T>(values: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) -> Result<()> {
    // some 10 ms of work
    const PART_LEN: usize = 32 << 10;
    leavable(|| {
        let mut rest = vec![values];
        while let Some(values) = rest.pop() {
            if values.len() <= PART_LEN {
                values.sort_unstable_by(&mut compare);
            } else {
                let (lower, _, upper) = values.select_nth_unstable_by(values.len() / 2, &mut compare);
                rest.extend([upper, lower]);
            }
            check()?;
        }
        Ok(())
    })
}

/// The payload that unwinds out of a sort that [`leave_sort_if_ended`] leaves.
struct SortEnded;

/// Runs a sort that a comparison may leave.
fn leavable(sort: impl FnOnce() -> Result<()>) -> Result<()> {
    let outer = SORTS.replace(true);
    // a sort that unwinds leaves its elements in any order
    let outcome = catch_unwind(AssertUnwindSafe(sort));
    SORTS.set(outer);
    outcome.unwrap_or_else(|payload| if payload.is::<SortEnded>() { ended() } else { resume_unwind(payload) })
}

/// Ends the sort of this module that runs if the work was ended: for comparisons that were cut short. Sorts of the standard library may
/// panic when the order contradicts itself.
pub(crate) fn leave_sort_if_ended() {
    if SORTS.get() && ended().is_err() {
        resume_unwind(Box::new(SortEnded));
    }
}

/// Runs the check at once: after work whose loops end early when [`tick`] fails, but cannot return an error themselves. The error
/// that ended them is returned again.
pub fn check() -> Result<()> {
    ask()
}

/// The error that ended the work, if one did. It costs next to nothing: the check does not run. For functions that are called in loops and
/// hold some whose loops end early.
#[inline]
pub fn ended() -> Result<()> {
    CHECK.with_borrow(|check| match check.as_ref().and_then(|check| check.ended.get()) {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    })
}

#[cold]
pub(crate) fn ask() -> Result<()> {
    let check = CHECK.with_borrow(Clone::clone);
    check.map_or(Ok(()), |check| check.ask())
}

/// For what grows in a loop. Errors: ExceededMemoryLimit.
#[inline]
pub(crate) fn check_growth(what: &str, bytes: usize) -> Result<()> {
    if bytes <= UNCHECKED_BYTES_MAX || bytes <= value_bytes_max() {
        Ok(())
    } else {
        Err(too_large(what, value_bytes_max()))
    }
}

/// Checks the size of an operator's working memory, in addition to its result: only the memory of the process limits it.
/// Errors: ExceededMemoryLimit.
#[inline]
pub(crate) fn check_scratch(what: &str, bytes: usize) -> Result<()> {
    if bytes <= UNCHECKED_BYTES_MAX { Ok(()) } else { check_large_scratch(what, bytes) }
}

#[cold]
fn check_large_scratch(what: &str, bytes: usize) -> Result<()> {
    let room = usize::try_from(memory::process().value_bytes_max()).unwrap_or(usize::MAX);
    if bytes <= room { Ok(()) } else { Err(too_large(what, room.max(UNCHECKED_BYTES_MAX))) }
}

/// MongoDB's bound, or less where the process may have less.
fn value_bytes_max() -> usize {
    let room = memory::process().value_bytes_max();
    usize::try_from(room).map_or(VALUE_BYTES_MAX, |room| room.clamp(UNCHECKED_BYTES_MAX, VALUE_BYTES_MAX))
}

#[cold]
fn too_large(what: &str, bytes_max: usize) -> Error {
    let message = format!("{what} would use too much memory and cannot spill to disk. Memory limit: {bytes_max} bytes");
    Error::new(Code::EXCEEDED_MEMORY_LIMIT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Expression, Filter};
    use arbor_bson::{ArrayBuf, Doc, DocBuf};

    fn nested_maps(innermost: DocBuf) -> DocBuf {
        let numbers = DocBuf::new().with("$range", &[0i32, 100_000].into_iter().collect::<ArrayBuf>());
        let map = |body: &DocBuf| DocBuf::new().with("$map", &DocBuf::new().with("input", &numbers).with("in", body));
        map(&map(&innermost))
    }

    #[test]
    fn an_expression_stops_when_the_check_fails() {
        let source = nested_maps(DocBuf::new().with("$add", &["$$this", "$a"].into_iter().collect::<ArrayBuf>()));
        let expression = Expression::parse((&source).into(), &Context::new(0)).unwrap();
        let asked = Rc::new(Cell::new(0));
        let counted = asked.clone();
        let check = move || {
            counted.set(counted.get() + 1);
            if counted.get() < 10 { Ok(()) } else { Err(Error::bad_value("enough")) }
        };
        let stopped = stoppable(check, || expression.eval(DocBuf::new().with("a", 1i32).as_doc()));
        assert_eq!((stopped.unwrap_err().message.as_str(), asked.get()), ("enough", 10));
        assert!(CHECK.with_borrow(Option::is_none));
    }

    /// The process stops one statement, once, for taking too much memory.
    #[test]
    fn what_ended_work_once_ends_it_for_good() {
        let asked = Cell::new(0);
        let once = move || {
            asked.set(asked.get() + 1);
            if asked.get() == 2 { Err(Error::bad_value("too much")) } else { Ok(()) }
        };
        let text = |outcome: Result<()>| outcome.map_err(|error| error.message);
        stoppable(once, || {
            assert_eq!((text(check()), text(ended())), (Ok(()), Ok(())));
            let cut_short = (0..1000).take_while(|_| tick().is_ok()).count();
            assert!(cut_short < 1000);
            assert_eq!(text(ended()), Err("too much".to_owned()));
            assert_eq!(text(check()), Err("too much".to_owned()));
        });
        assert_eq!(text(check()), Ok(()));
    }

    #[test]
    fn a_sort_stops_when_the_check_fails() {
        let numbers = || (0..100_000u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50, n)).collect::<Vec<_>>();
        let (mut sorted, mut expected) = (numbers(), numbers());
        let by_first = |a: &(u64, u64), b: &(u64, u64)| a.0.cmp(&b.0);
        sort_by(&mut sorted, by_first).unwrap();
        expected.sort_by(by_first);
        assert_eq!(sorted, expected);
        let stopped = stoppable(|| Err(Error::bad_value("enough")), || sort_by(&mut numbers(), by_first));
        assert_eq!(stopped.unwrap_err().message, "enough");
    }

    #[test]
    fn a_sort_in_place_stops_when_the_check_fails() {
        let numbers = || (0..200_000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44).collect::<Vec<_>>();
        let (mut sorted, mut expected) = (numbers(), numbers());
        sort_unstable_by(&mut sorted, u64::cmp).unwrap();
        expected.sort_unstable();
        assert_eq!(sorted, expected);
        let asked = Rc::new(Cell::new(0));
        let counted = asked.clone();
        let check = move || {
            counted.set(counted.get() + 1);
            if counted.get() < 4 { Ok(()) } else { Err(Error::bad_value("enough")) }
        };
        let stopped = stoppable(check, || sort_unstable_by(&mut numbers(), u64::cmp));
        assert_eq!((stopped.unwrap_err().message.as_str(), asked.get()), ("enough", 4));
    }

    #[test]
    fn a_comparison_leaves_the_sort_when_the_work_has_ended() {
        let numbers = || (0..3000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44).collect::<Vec<_>>();
        for stable in [true, false] {
            let compared = Cell::new(0);
            let compare = |a: &u64, b: &u64| {
                compared.set(compared.get() + 1);
                if compared.get() == 1000 {
                    check().unwrap_err();
                }
                leave_sort_if_ended();
                a.cmp(b)
            };
            let mut values = numbers();
            let mut sort =
                || if stable { sort_by(&mut values, compare) } else { sort_unstable_by(&mut values, compare) };
            let stopped = stoppable(|| Err(Error::bad_value("enough")), &mut sort);
            assert_eq!((stopped.unwrap_err().message.as_str(), compared.get()), ("enough", 1000));
            assert!(!SORTS.get());
            let mut expected = numbers();
            expected.sort_unstable();
            values.sort_unstable();
            assert_eq!(values, expected, "all elements are still there");
            assert_eq!(compare(&1, &2), Ordering::Less, "outside of a sort");
        }
    }

    #[test]
    fn a_filter_stops_when_the_check_fails() {
        let filter = DocBuf::new().with("a", &DocBuf::new().with("$gt", 5i32));
        let filter = Filter::parse(filter.as_doc(), &Context::new(0)).unwrap();
        let doc = DocBuf::new().with("a", &vec![0i32; 1000].into_iter().collect::<ArrayBuf>());
        let stopped = stoppable(|| Err(Error::bad_value("enough")), || filter.matches(doc.as_doc()));
        assert_eq!(stopped.unwrap_err().message, "enough");
        assert!(!filter.matches(doc.as_doc()).unwrap());
    }

    #[test]
    fn values_grow_no_further_than_the_limit() {
        let long = "x".repeat(1 << 20);
        let doc = DocBuf::new().with("s", &*long);
        let strings = vec!["$s"; 200].into_iter().collect::<ArrayBuf>();
        let inputs = [DocBuf::new().with("$range", &[0i32, 100].into_iter().collect::<ArrayBuf>())];
        let map = DocBuf::new().with("input", &inputs[0]).with("in", &[("s", "$s")].into_iter().collect::<DocBuf>());
        let replace = DocBuf::new().with("input", "$s").with("find", "x").with("replacement", &*"y".repeat(1000));
        for source in [
            DocBuf::new().with("$concat", &strings),
            DocBuf::new().with("x", &strings),
            DocBuf::new().with("$map", &map.with("as", "i")),
            DocBuf::new().with("$replaceAll", &replace),
        ] {
            let expression = Expression::parse((&source).into(), &Context::new(0)).unwrap();
            let error = expression.eval(doc.as_doc()).map(drop).unwrap_err();
            assert_eq!(error.code, Code::EXCEEDED_MEMORY_LIMIT, "{source:?}");
        }
        assert!(Expression::constant(1i32).eval(Doc::empty()).is_ok());
    }
}
