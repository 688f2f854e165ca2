//! Dotted paths of any text and any number of names through filters, every update operator, projections, sorts and
//! expressions: each is refused or leads somewhere, on the stack of a statement.
#![no_main]

use arbor_bson::{ArrayBuf, DEPTH_MAX, DocBuf, STORED_DEPTH_MAX, ValueRef};
use arbor_lang::projection::ProjectionKind;
use arbor_lang::{Context, Expression, Filter, Projection, SortPattern, Update, update};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(([repeats, choice], text)) = bytes.split_first_chunk::<2>() else { return };
    let Ok(part) = std::str::from_utf8(text) else { return };
    if part.contains('\0') {
        return;
    }
    let path = vec![part; 1 + usize::from(*repeats) * 8].join(".");
    let array: ArrayBuf = [ValueRef::Int32(1), ValueRef::Null].into_iter().collect();
    let inner = DocBuf::new().with(part, &array).with("a", 1i32);
    let docs: ArrayBuf = [&inner, &inner].into_iter().collect();
    let doc = DocBuf::new().with("_id", 1i32).with(part, &docs).with("a", &inner);
    read(&path, &doc);
    change(&path, update::OPERATOR_NAMES[usize::from(*choice) % update::OPERATOR_NAMES.len()], &doc, &array);
});

fn read(path: &str, doc: &DocBuf) {
    let (context, is_long) = (Context::new(0), path.split('.').count() > DEPTH_MAX);
    let spec = DocBuf::new().with(path, 1i32);
    let filter = Filter::parse(spec.as_doc(), &context);
    assert!(!is_long || filter.is_err());
    for filter in filter.iter() {
        let _ = filter.matches_with_position(doc.as_doc());
    }
    for kind in [ProjectionKind::Find, ProjectionKind::Aggregate] {
        let projection = Projection::parse(spec.as_doc(), kind, filter.as_ref().ok(), &context);
        assert!(!is_long || projection.is_err());
        if let Ok(projection) = projection {
            let _ = projection.apply(doc.as_doc(), Some(0));
        }
    }
    if let Ok(order) = SortPattern::parse(spec.as_doc(), &context) {
        let _ = order.key(doc.as_doc());
    }
    let text = format!("${path}");
    if let Ok(expression) = Expression::parse(ValueRef::String(&text), &context) {
        let _ = expression.eval(doc.as_doc());
    }
}

fn change(path: &str, operator: &str, doc: &DocBuf, array: &ArrayBuf) {
    let other = format!("x.{path}");
    for operand in [ValueRef::Int32(1), array.into(), ValueRef::String(&other)] {
        let fields = DocBuf::new().with(path, operand);
        let update = DocBuf::new().with(operator, &fields);
        let Ok(update) = Update::parse((&update).into(), &[], &Context::new(0)) else { continue };
        if let Ok(Some(new)) = update.apply(doc.as_doc(), Some(0)) {
            assert!(!new.as_doc().is_deeper_than(STORED_DEPTH_MAX));
        }
    }
}
