//! Expressions under a memory limit of the process, which is why this is a process of its own.

use arbor_base::memory;
use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_lang::{Code, Context, Expression, Result};

fn size_of_result(operator: &str, arguments: &ArrayBuf) -> Result<()> {
    let source = DocBuf::new().with(operator, arguments);
    let size = DocBuf::new().with("$size", &source);
    Expression::parse((&size).into(), &Context::new(0))?.eval(Doc::empty()).map(drop)
}

#[test]
fn sets_and_ranges_are_checked_before_they_are_made() {
    let range = |from: i32, to: i32| DocBuf::new().with("$range", &[from, to].into_iter().collect::<ArrayBuf>());
    let (low, high) = (range(0, 150_000), range(150_000, 300_000));
    let both: ArrayBuf = [&low, &high].into_iter().collect();
    let wide: ArrayBuf = [0i32, 1_600_000].into_iter().collect();
    size_of_result("$setUnion", &both).unwrap();
    // a quarter of the room is less than what every statement may have: 16 MB
    memory::process().set_limit(64 << 20);
    for (operator, arguments) in [("$setUnion", &both), ("$range", &wide)] {
        let error = size_of_result(operator, arguments).unwrap_err();
        assert_eq!(error.code, Code::EXCEEDED_MEMORY_LIMIT, "{operator}");
    }
    let few: ArrayBuf = [range(0, 50_000), range(25_000, 75_000)].iter().collect();
    size_of_result("$setUnion", &few).unwrap();
}
