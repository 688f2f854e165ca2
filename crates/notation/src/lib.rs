//! Values written as in the shell, for tests and for the examples in the docs of operators.
//!
//! `{ a: 1, "b.c": [1.5, Long(2), Decimal("3"), 'text', /re/i, ObjectId("..."), Date("2020-01-01T00:00:00Z") ] }`.
//! `1` is an int32 (int64 when larger), `1.0` a double. [`show`] prints a value in the same notation, types and all.

use arbor_bson::{ArrayBuf, DocBuf, ObjectId, Timestamp, Value, ValueRef};

/// Reads one value and answers what follows it.
pub fn read(text: &str) -> (Value, &str) {
    let mut reader = Reader { rest: text };
    let value = reader.value();
    (value, reader.rest.trim())
}

pub fn value(text: &str) -> Value {
    let (value, rest) = read(text);
    assert_eq!(rest, "", "text after the value in {text}");
    value
}

pub fn doc(text: &str) -> DocBuf {
    match value(text) {
        Value::Document(doc) => doc,
        other => panic!("not a document: {other:?}"),
    }
}

pub fn show(value: ValueRef) -> String {
    match value {
        ValueRef::Double(v) if v.is_infinite() => if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        ValueRef::Double(v) => format!("{v:?}"),
        ValueRef::String(v) => format!("{v:?}"),
        ValueRef::Document(v) => {
            let fields: Vec<_> = v.iter().map(|(name, value)| format!("{name}: {}", show(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        ValueRef::Array(v) => format!("[{}]", v.iter().map(show).collect::<Vec<_>>().join(", ")),
        ValueRef::Undefined => "undefined".into(),
        ValueRef::Bool(v) => v.to_string(),
        ValueRef::Null => "null".into(),
        ValueRef::Int32(v) => v.to_string(),
        ValueRef::Int64(v) => format!("Long({v})"),
        ValueRef::Decimal128(v) => format!("Decimal({:?})", v.to_string()),
        ValueRef::DateTime(v) => format!("Date({v})"),
        ValueRef::ObjectId(v) => format!("ObjectId(\"{v}\")"),
        ValueRef::Regex { pattern, options } => format!("/{pattern}/{options}"),
        other => format!("{other:?}"),
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) {
        assert!(self.eat(token), "{token} expected at {}", self.rest);
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        let (head, tail) = self.rest.split_at(end);
        self.rest = tail;
        head
    }

    fn value(&mut self) -> Value {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            Some('{') => self.document(),
            Some('[') => self.array(),
            Some('"' | '\'') => Value::String(self.string()),
            Some('/') => self.regex(),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number(),
            _ => self.word(),
        }
    }

    fn document(&mut self) -> Value {
        self.expect("{");
        let mut doc = DocBuf::new();
        while !self.eat("}") {
            self.rest = self.rest.trim_start();
            let name = match self.rest.chars().next() {
                Some('"' | '\'') => self.string(),
                _ => self.take_while(|c| c.is_alphanumeric() || "_$.[]".contains(c)).to_owned(),
            };
            self.expect(":");
            doc.append(&name, &self.value());
            self.eat(",");
        }
        Value::Document(doc)
    }

    fn array(&mut self) -> Value {
        self.expect("[");
        let mut array = ArrayBuf::new();
        while !self.eat("]") {
            array.push(&self.value());
            self.eat(",");
        }
        Value::Array(array)
    }

    fn string(&mut self) -> String {
        let quote = self.rest.chars().next().unwrap();
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = &self.rest[at + 1..];
                return text;
            }
            text.push(match c {
                '\\' => match chars.next().unwrap().1 {
                    'n' => '\n',
                    't' => '\t',
                    '0' => '\0',
                    other => other,
                },
                other => other,
            });
        }
        panic!("no end of string: {}", self.rest);
    }

    fn regex(&mut self) -> Value {
        self.expect("/");
        let pattern = self.take_while(|c| c != '/').to_owned();
        self.expect("/");
        let options = self.take_while(|c| c.is_ascii_alphabetic()).to_owned();
        Value::Regex { pattern, options }
    }

    fn number(&mut self) -> Value {
        if self.eat("-Infinity") {
            return Value::Double(f64::NEG_INFINITY);
        }
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        match (text.parse::<i32>(), text.parse::<i64>()) {
            (Ok(small), _) => Value::Int32(small),
            (_, Ok(large)) => Value::Int64(large),
            _ => Value::Double(text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))),
        }
    }

    fn word(&mut self) -> Value {
        let word = self.take_while(|c| c.is_ascii_alphanumeric());
        match word {
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            "null" => return Value::Null,
            "undefined" => return Value::Undefined,
            "NaN" => return Value::Double(f64::NAN),
            "Infinity" => return Value::Double(f64::INFINITY),
            "MinKey" => return Value::MinKey,
            "MaxKey" => return Value::MaxKey,
            _ => {}
        }
        self.expect("(");
        let mut arguments = Vec::new();
        while !self.eat(")") {
            arguments.push(self.value());
            self.eat(",");
        }
        call(word, &arguments)
    }
}

fn call(word: &str, arguments: &[Value]) -> Value {
    match (word, arguments) {
        ("Long", [Value::Int32(v)]) => Value::Int64(i64::from(*v)),
        ("Long", [Value::Int64(v)]) => Value::Int64(*v),
        ("Decimal", [Value::String(v)]) => Value::Decimal128(v.parse().unwrap()),
        ("ObjectId", [Value::String(v)]) => Value::ObjectId(ObjectId(hex(v).try_into().unwrap())),
        ("Date", [Value::Int32(v)]) => Value::DateTime(i64::from(*v)),
        ("Date", [Value::Int64(v)]) => Value::DateTime(*v),
        ("Date", [Value::String(v)]) => Value::DateTime(v.parse::<jiff::Timestamp>().unwrap().as_millisecond()),
        ("Timestamp", [Value::Int32(s), Value::Int32(i)]) => {
            Value::Timestamp(Timestamp { seconds: *s as u32, increment: *i as u32 })
        }
        ("Binary", [Value::Int32(subtype), Value::String(v)]) => {
            Value::Binary { subtype: *subtype as u8, bytes: hex(v) }
        }
        ("Symbol", [Value::String(v)]) => Value::Symbol(v.clone()),
        ("Code", [Value::String(v)]) => Value::JavaScript(v.clone()),
        other => panic!("unknown notation {other:?}"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
