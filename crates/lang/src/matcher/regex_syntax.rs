//! From PCRE's syntax to that of the engines in use.
//!
//! Both engines read a dialect close to PCRE's. What differs is rewritten here: classes that know Unicode there and
//! ASCII in PCRE, brackets and set operators that are plain characters in PCRE's classes, braces that are no
//! repetition, `$` before a final newline, quoted runs, a few escapes.

const WORD: &str = "0-9A-Za-z_";
const DIGIT: &str = "0-9";
const SPACE: &str = r"\t\n\x0B\f\r\x20";
const BLANK: &str = r"\t\x20";

/// The pattern in the engines' dialect, options included.
pub(super) fn translate(pattern: &str, options: &str) -> String {
    let flags: String = "imsx".chars().filter(|flag| options.contains(*flag)).collect();
    let mut out = if flags.is_empty() { String::new() } else { format!("(?{flags})") };
    let mut translator = Translator {
        chars: pattern.chars().collect(),
        at: 0,
        out: String::with_capacity(pattern.len() + 16),
        multiline: options.contains('m'),
    };
    translator.run();
    out.push_str(&translator.out);
    out
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    out: String,
    multiline: bool,
}

impl Translator {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn run(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => self.escape(),
                '[' => self.class(),
                '{' if !self.is_repetition() => self.out.push_str(r"\{"),
                '}' if !self.closes_repetition() => self.out.push_str(r"\}"),
                '$' if !self.multiline => self.out.push_str(r"(?:\n?\z)"),
                '(' if self.looking_at("?#") => while !matches!(self.next(), Some(')') | None) {},
                other => self.out.push(other),
            }
        }
    }

    /// After `{`: whether `n}`, `n,}` or `n,m}` follows.
    fn is_repetition(&self) -> bool {
        let rest = self.chars.iter().skip(self.at);
        let inside: String = rest.take_while(|c| c.is_ascii_digit() || **c == ',').collect();
        let closed = self.chars.get(self.at + inside.len()) == Some(&'}');
        closed && inside.starts_with(|c: char| c.is_ascii_digit()) && inside.matches(',').count() < 2
    }

    /// At `}`: whether what was written so far ends in an open repetition.
    fn closes_repetition(&self) -> bool {
        let open = self.out.rsplit_once('{');
        open.is_some_and(|(before, inside)| {
            !before.ends_with('\\') && inside.bytes().all(|b| b.is_ascii_digit() || b == b',')
        })
    }

    fn escape(&mut self) {
        let Some(c) = self.next() else { return self.out.push('\\') };
        match c {
            'd' => self.set("", DIGIT),
            'D' => self.set("^", DIGIT),
            'w' => self.set("", WORD),
            'W' => self.set("^", WORD),
            's' => self.set("", SPACE),
            'S' => self.set("^", SPACE),
            'h' => self.set("", BLANK),
            'H' => self.set("^", BLANK),
            'b' => self.out.push_str(r"(?-u:\b)"),
            'R' => self.out.push_str(r"(?:\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}])"),
            'Z' => self.out.push_str(r"(?:\n?\z)"),
            'e' => self.out.push_str(r"\x1B"),
            'Q' => self.quoted(),
            'E' => {}
            '0' => self.octal(),
            'p' | 'P' | 'x' | 'k' if self.looking_at("{") => {
                self.out.push('\\');
                self.out.push(c);
                while let Some(c) = self.next() {
                    self.out.push(c);
                    if c == '}' {
                        break;
                    }
                }
            }
            c if c.is_ascii_alphanumeric() => {
                self.out.push('\\');
                self.out.push(c);
            }
            other => self.literal(other),
        }
    }

    fn set(&mut self, negation: &str, members: &str) {
        self.out.push('[');
        self.out.push_str(negation);
        self.out.push_str(members);
        self.out.push(']');
    }

    fn literal(&mut self, c: char) {
        if c.is_ascii_punctuation() && !"<>".contains(c) {
            self.out.push('\\');
        }
        match c {
            ' ' => self.out.push_str(r"\x20"),
            other => self.out.push(other),
        }
    }

    fn quoted(&mut self) {
        while self.at < self.chars.len() && !self.looking_at("\\E") {
            if let Some(c) = self.next() {
                self.literal(c);
            }
        }
        self.at = (self.at + 2).min(self.chars.len());
    }

    /// After `\0`: up to two more octal digits.
    fn octal(&mut self) {
        let mut code = 0;
        for _ in 0..2 {
            let Some(digit) = self.chars.get(self.at).and_then(|c| c.to_digit(8)) else { break };
            code = code * 8 + digit;
            self.at += 1;
        }
        self.out.push_str(&format!(r"\x{{{code:x}}}"));
    }

    /// After `[`: up to the closing bracket.
    fn class(&mut self) {
        self.out.push('[');
        if self.looking_at("^") {
            self.at += 1;
            self.out.push('^');
        }
        if self.looking_at("]") {
            self.at += 1;
            self.out.push_str(r"\]");
        }
        while let Some(c) = self.next() {
            match c {
                ']' => return self.out.push(']'),
                '[' if self.looking_at(":") => self.posix_class(),
                '[' => self.out.push_str(r"\["),
                '&' | '~' | '#' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '-' if self.looking_at("-") => self.out.push_str(r"\-"),
                ' ' => self.out.push_str(r"\x20"),
                '\\' => self.escape_in_class(),
                other => self.out.push(other),
            }
        }
    }

    fn escape_in_class(&mut self) {
        let Some(c) = self.chars.get(self.at).copied() else { return self.out.push('\\') };
        match c {
            'd' | 'w' | 's' | 'h' | 'D' | 'W' | 'S' | 'H' | 'p' | 'P' | 'x' | '0' | 'Q' | 'E' | 'e' => self.escape(),
            'b' => {
                self.at += 1;
                self.out.push_str(r"\x08");
            }
            c if c.is_ascii_alphanumeric() => {
                self.at += 1;
                self.out.push('\\');
                self.out.push(c);
            }
            other => {
                self.at += 1;
                self.literal(other);
            }
        }
    }

    /// `[:name:]` is the same in both dialects; anything else after `[` is a plain bracket.
    fn posix_class(&mut self) {
        let inside = self.chars.iter().skip(self.at + 1).copied();
        let name: String = inside.take_while(|c| c.is_ascii_lowercase() || *c == '^').collect();
        let class = format!(":{name}:]");
        if name.is_empty() || !self.looking_at(&class) {
            return self.out.push_str(r"\[");
        }
        self.out.push('[');
        self.out.push_str(&class);
        self.at += class.len();
    }
}

/// The text every match of `^text...` starts with.
pub(super) fn literal_prefix(pattern: &str, options: &str) -> Option<String> {
    let rest = pattern.strip_prefix('^').or_else(|| pattern.strip_prefix(r"\A"))?;
    if options.contains(['i', 'm', 'x']) || rest.contains('|') {
        return None;
    }
    let mut prefix = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '{' => {
                prefix.pop();
                break;
            }
            '.' | '+' | '[' | ']' | '(' | ')' | '^' | '$' => break,
            '\\' => match chars.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                _ => break,
            },
            plain => prefix.push(plain),
        }
    }
    (!prefix.is_empty()).then_some(prefix)
}
