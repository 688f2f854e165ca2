//! The `updateDescription` of a change event, made from a delta.

use arbor_bson::{ArrayBuf, DEPTH_MAX, Doc, DocBuf, Value, ValueRef};

use super::read::{Delta, Step};

#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Dotted paths with their values.
    pub updated: DocBuf,
    /// Dotted paths.
    pub removed: ArrayBuf,
    /// `{field, newSize}` each.
    pub truncated: ArrayBuf,
    /// The components of paths that can be read in more than one way; shown with `showExpandedEvents`.
    pub disambiguated: DocBuf,
}

/// Converts a delta to an update description. Requires one that [`super::diff`] made; anything else gives no change.
pub fn describe(delta: Doc<'_>) -> Description {
    let mut description = Description::default();
    description.walk(delta, &Path::default(), DEPTH_MAX);
    description
}

#[derive(Clone, Default)]
struct Path {
    dotted: String,
    components: Vec<Value>,
    ambiguous: bool,
}

impl Path {
    fn field(&self, name: &str) -> Path {
        let by_name = name.contains('.') || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()));
        self.component(name, Value::String(name.to_owned()), by_name)
    }

    fn element(&self, at: usize) -> Path {
        self.component(&at.to_string(), Value::Int32(at as i32), false)
    }

    fn component(&self, name: &str, component: Value, ambiguous: bool) -> Path {
        let mut path = self.clone();
        if !path.components.is_empty() {
            path.dotted.push('.');
        }
        path.dotted.push_str(name);
        path.components.push(component);
        path.ambiguous |= ambiguous;
        path
    }
}

impl Description {
    /// `levels`: how much deeper it may lead; see [`super::diff`].
    fn walk(&mut self, delta: Doc<'_>, at: &Path, levels: usize) {
        let Some(inner_levels) = levels.checked_sub(1) else { return };
        match Delta::read(delta) {
            None => {}
            Some(Delta::Document(delta)) => {
                for (name, _) in delta.removed {
                    let path = at.field(name);
                    self.removed.push(path.dotted.as_str());
                    self.note(&path);
                }
                for (name, value) in delta.updated.iter().chain(delta.inserted) {
                    self.update(&at.field(name), value);
                }
                for (name, inner) in delta.inner {
                    self.walk(inner, &at.field(name), inner_levels);
                }
            }
            Some(Delta::Array(delta)) => {
                if let Some(length) = delta.length {
                    let truncated = DocBuf::new().with("field", at.dotted.as_str()).with("newSize", length as i32);
                    self.truncated.push(&truncated);
                    self.note(at);
                }
                for (index, step) in delta.steps {
                    match step {
                        Step::Value(value) => self.update(&at.element(index), value),
                        Step::Inner(inner) => self.walk(inner, &at.element(index), inner_levels),
                    }
                }
            }
        }
    }

    fn update(&mut self, path: &Path, value: ValueRef<'_>) {
        self.updated.append(&path.dotted, value);
        self.note(path);
    }

    fn note(&mut self, path: &Path) {
        if path.ambiguous && self.disambiguated.get(&path.dotted).is_none() {
            let components: ArrayBuf = path.components.iter().collect();
            self.disambiguated.append(&path.dotted, &components);
        }
    }
}

#[cfg(test)]
mod tests {
    use arbor_notation::{doc, show, value};

    use super::*;

    #[test]
    fn paths_are_dotted() {
        let check = |delta: &str, updated: &str, removed: &str, truncated: &str, disambiguated: &str| {
            let delta = doc(delta);
            let Description { updated: u, removed: r, truncated: t, disambiguated: d } = describe(delta.as_doc());
            let expected = [updated, removed, truncated, disambiguated].map(|text| show(value(text).as_ref()));
            let found = [Value::Document(u), Value::Array(r), Value::Array(t), Value::Document(d)];
            assert_eq!(found.map(|value| show(value.as_ref())), expected, "{delta:?}");
        };
        check("{d: {b: false}, u: {a: 3}, i: {c: 4}}", "{a: 3, c: 4}", "['b']", "[]", "{}");
        check("{sa: {u: {b: 2}, d: {c: false}}}", "{'a.b': 2}", "['a.c']", "[]", "{}");
        check("{sa: {a: true, l: 2, u1: 5}}", "{'a.1': 5}", "[]", "[{field: 'a', newSize: 2}]", "{}");
        check("{sa: {u: {'0': 5}}}", "{'a.0': 5}", "[]", "[]", "{'a.0': ['a', '0']}");
        check("{u: {'x.y': 1}}", "{'x.y': 1}", "[]", "[]", "{'x.y': ['x.y']}");
        check("{s0: {a: true, s1: {u: {b: 1}}}}", "{'0.1.b': 1}", "[]", "[]", "{'0.1.b': ['0', 1, 'b']}");
    }
}
