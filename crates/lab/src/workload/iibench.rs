//! iiBench (spec/workloads.md section 6): sustained insertion of purchases under secondary indexes with random keys, and
//! range queries on those indexes at the same time. The load is the run: collections begin empty and grow from step to step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Client, Collection, Execute, Found, Index, Kind, Mode, Operation, Place, Random, Unit, Workload};

pub const DATABASE: &str = "iibench";
pub const COLLECTION: &str = "purchases_index";

const REGISTERS: u64 = 1000;
const CUSTOMERS: u64 = 100_000;
const PRODUCTS: u64 = 10_000;
/// Letters that texts are cut from.
const POOL_BYTES: usize = 4 << 20;
/// While a query is not due.
const NAP: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Purchase<'a> {
    /// Milliseconds.
    pub time: i64,
    pub register: i32,
    pub customer: i32,
    pub product: i32,
    pub price: f64,
    /// `cf1` .. `cfN`.
    pub texts: &'a [String],
}

/// A query of the three, by the index it reads; their second keys grow from the first one's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Query {
    PriceTimeCustomer { price: f64, time: i64, customer: i32 },
    PriceCustomer { price: f64, customer: i32 },
    RegisterPriceCustomer { register: i32, price: f64, customer: i32 },
}

#[derive(Clone, Copy, Debug)]
pub enum IibenchOperation<'a> {
    Insert {
        purchases: &'a [Purchase<'a>],
        ordered: bool,
    },
    /// `covered`: only fields of the index are asked for. The client of 2023 asks for more.
    Query {
        query: Query,
        limit: u32,
        covered: bool,
    },
}

impl IibenchOperation<'_> {
    pub const QUERY: Kind = Kind::new("query");

    pub fn kind(&self) -> Kind {
        match self {
            IibenchOperation::Insert { .. } => Kind::INSERT,
            IibenchOperation::Query { .. } => IibenchOperation::QUERY,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    #[serde(rename = "2014")]
    Of2014,
    #[serde(rename = "2023")]
    Of2023,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    version: Version,
    /// Writers end after this many rows; 0: with the time of the step.
    rows: u64,
    batch: usize,
    /// Number of indexes, the first ones of the three.
    indexes: usize,
    char_fields: usize,
    char_length: usize,
    percent_compressible: usize,
    /// Threads that query concurrently with the writers.
    query_threads: usize,
    query_limit: u32,
    /// Time from the begin of one query of a thread to the next; 0: no pause.
    query_every_ms: u64,
    /// Queries wait for this many rows.
    query_begin: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            version: Version::Of2014,
            rows: 0,
            batch: 1000,
            indexes: 3,
            char_fields: 1,
            char_length: 1000,
            percent_compressible: 90,
            query_threads: 0,
            query_limit: 10,
            query_every_ms: 0,
            query_begin: 10_000,
        }
    }
}

#[derive(Debug)]
pub struct Iibench {
    settings: Arc<Settings>,
    mode: Mode,
    shared: Arc<Shared>,
}

/// State shared by the threads.
#[derive(Debug)]
struct Shared {
    pool: String,
    /// Rows that a writer has set out to insert.
    taken: AtomicU64,
    inserted: AtomicU64,
}

impl Iibench {
    pub fn new(mode: Mode, settings: Settings) -> Result<Iibench, String> {
        let bad = settings.batch == 0
            || settings.indexes > 3
            || settings.percent_compressible > 100
            || settings.char_length > POOL_BYTES
            || settings.query_limit == 0;
        if bad {
            return Err(
                "iibench: batch and query_limit must be at least 1, indexes at most 3, percent_compressible at \
                        most 100, char_length at most 4 MiB"
                    .to_owned(),
            );
        }
        let mut random = Random::new(1);
        let pool = (0..POOL_BYTES).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        let shared = Arc::new(Shared { pool, taken: AtomicU64::new(0), inserted: AtomicU64::new(0) });
        Ok(Iibench { settings: Arc::new(settings), mode, shared })
    }
}

impl Workload for Iibench {
    fn unit(&self) -> Kind {
        Kind::INSERT
    }

    fn unit_rows(&self) -> u64 {
        self.settings.batch as u64
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::INSERT, IibenchOperation::QUERY]
    }

    fn settings(&self) -> Value {
        json!(*self.settings)
    }

    fn database(&self) -> &'static str {
        DATABASE
    }

    fn collections(&self) -> Vec<Collection> {
        let all = [
            Index::on(&["price", "customerid"]),
            Index::on(&["cashregisterid", "price", "customerid"]),
            Index::on(&["price", "dateandtime", "customerid"]),
        ];
        let indexes = all.into_iter().take(self.settings.indexes).collect();
        let name = COLLECTION.to_owned();
        vec![Collection { database: DATABASE, name, indexes, documents: 0..=u64::MAX, sequence: false, sharding: None }]
    }

    fn loaders(&self, _threads: usize) -> Vec<Box<dyn Client>> {
        Vec::new()
    }

    fn resume(&self, found: &[Found]) {
        let documents = found.first().map_or(0, |found| found.documents);
        self.shared.taken.fetch_max(documents, Ordering::Relaxed);
        self.shared.inserted.fetch_max(documents, Ordering::Relaxed);
    }

    fn threads(&self, clients: usize) -> usize {
        clients + self.settings.query_threads
    }

    fn is_scheduled(&self, place: Place) -> bool {
        place.number + self.settings.query_threads < place.of
    }

    fn client(&self, place: Place, seed: u64) -> Box<dyn Client> {
        let (settings, shared, random) = (self.settings.clone(), self.shared.clone(), Random::new(seed));
        if self.is_scheduled(place) {
            let texts = Vec::new();
            return Box::new(Writer { settings, shared, random, mode: self.mode, texts });
        }
        let started = now_ms();
        Box::new(Querier { settings, shared, random, mode: self.mode, started, next: 0, due: Instant::now() })
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

/// Returns a price, not rounded, and higher for higher customers.
fn price(customer: i32, random: &mut Random) -> f64 {
    (random.unit() * 500.0 + f64::from(customer)) / 100.0
}

struct Writer {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    random: Random,
    mode: Mode,
    /// Texts of each purchase of the batch.
    texts: Vec<Vec<String>>,
}

impl Writer {
    /// Returns the number of rows of the next batch. The original drops rows that do not fill one.
    fn take(&self) -> usize {
        let Settings { rows, batch, .. } = *self.settings;
        let taken = self.shared.taken.fetch_add(batch as u64, Ordering::Relaxed);
        let left = if rows == 0 { batch } else { rows.saturating_sub(taken).min(batch as u64) as usize };
        if self.mode == Mode::Compat && left < batch { 0 } else { left }
    }

    fn fill_texts(&mut self, count: usize) {
        let Settings { char_fields, char_length, percent_compressible, .. } = *self.settings;
        let random_bytes = char_length * (100 - percent_compressible) / 100;
        self.texts.resize_with(count, || vec![String::new(); char_fields]);
        for text in self.texts.iter_mut().flatten() {
            text.clear();
            let start = self.random.below((POOL_BYTES - random_bytes + 1) as u64) as usize;
            text.push_str(self.shared.pool.get(start..start + random_bytes).unwrap_or_default());
            text.extend(std::iter::repeat_n('a', char_length - random_bytes));
        }
    }
}

impl Client for Writer {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let count = self.take();
        if count == 0 {
            return Unit::Finished;
        }
        self.fill_texts(count);
        let (random, time) = (&mut self.random, now_ms());
        let purchases: Vec<Purchase<'_>> = self
            .texts
            .iter()
            .map(|texts| {
                let (register, customer) = (random.below(REGISTERS) as i32, random.below(CUSTOMERS) as i32);
                let product = random.below(PRODUCTS) as i32;
                Purchase { time, register, customer, product, price: price(customer, random), texts }
            })
            .collect();
        let ordered = self.settings.version == Version::Of2014;
        let insert = Operation::Iibench(IibenchOperation::Insert { purchases: &purchases, ordered });
        match execute(&insert) {
            Some(answer) => {
                self.shared.inserted.fetch_add(answer.rows, Ordering::Relaxed);
                Unit::Complete(&[])
            }
            None => Unit::Abandoned,
        }
    }
}

struct Querier {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    random: Random,
    mode: Mode,
    started: i64,
    /// Which of the three.
    next: usize,
    due: Instant,
}

impl Querier {
    fn is_due(&self) -> bool {
        self.shared.inserted.load(Ordering::Relaxed) >= self.settings.query_begin && Instant::now() >= self.due
    }

    fn query(&mut self) -> Query {
        let random = &mut self.random;
        let (register, customer) = (random.below(REGISTERS) as i32, random.below(CUSTOMERS) as i32);
        let price = price(customer, random);
        self.next = (self.next + 1) % 3;
        match self.next {
            1 => {
                let time = self.started + random.below((now_ms() - self.started + 1).max(1) as u64) as i64;
                Query::PriceTimeCustomer { price, time, customer }
            }
            2 => Query::PriceCustomer { price, customer },
            _ => Query::RegisterPriceCustomer { register, price, customer },
        }
    }
}

impl Client for Querier {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        if !self.is_due() {
            std::thread::sleep(NAP);
            return Unit::Complete(&[]);
        }
        // From now, not from when it was due: the original drifts, and a slow query is not made up for.
        self.due = Instant::now() + Duration::from_millis(self.settings.query_every_ms);
        let covered = self.mode == Mode::Fixed || self.settings.version == Version::Of2014;
        let (query, limit) = (self.query(), self.settings.query_limit);
        let operation = Operation::Iibench(IibenchOperation::Query { query, limit, covered });
        execute(&operation).map_or(Unit::Abandoned, |_| Unit::Complete(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Answer;

    fn iibench(settings: Value, mode: Mode) -> Iibench {
        Iibench::new(mode, serde_json::from_value(settings).unwrap()).unwrap()
    }

    #[test]
    fn purchases_have_the_ranges_of_the_specification() {
        let workload = iibench(json!({"batch": 500}), Mode::Compat);
        let (mut registers, mut customers) = (0i64, 0i64);
        workload.client(Place { number: 0, of: 1 }, 1).unit(&mut |operation| {
            let Operation::Iibench(IibenchOperation::Insert { purchases, ordered: true }) = operation else {
                panic!("{operation:?}")
            };
            assert_eq!(purchases.len(), 500);
            for purchase in *purchases {
                assert!((0..1000).contains(&purchase.register) && (0..10_000).contains(&purchase.product));
                let least = f64::from(purchase.customer) / 100.0;
                assert!((least..least + 5.0).contains(&purchase.price), "{purchase:?}");
                let [text] = purchase.texts else { panic!("{purchase:?}") };
                assert!(text.len() == 1000 && text[100..].bytes().all(|byte| byte == b'a'));
                assert!(text[..100].bytes().any(|byte| byte != b'a'));
                (registers, customers) =
                    (registers + i64::from(purchase.register), customers + i64::from(purchase.customer));
            }
            Some(Answer::rows(500))
        });
        assert!((420..580).contains(&(registers / 500)) && (42_000..58_000).contains(&(customers / 500)));
    }

    #[test]
    fn writers_end_at_the_last_row() {
        for (mode, expect) in [(Mode::Fixed, vec![10, 10, 5]), (Mode::Compat, vec![10, 10])] {
            let workload = iibench(json!({"rows": 125, "batch": 10, "char_length": 10}), mode);
            workload.resume(&[Found { documents: 100, last_id: None }]);
            let (mut client, mut sizes) = (workload.client(Place { number: 0, of: 1 }, 1), Vec::new());
            while client.unit(&mut |operation| {
                let Operation::Iibench(IibenchOperation::Insert { purchases, .. }) = operation else {
                    panic!("{operation:?}")
                };
                sizes.push(purchases.len());
                Some(Answer::rows(purchases.len() as u64))
            }) != Unit::Finished
            {}
            assert_eq!(sizes, expect);
        }
    }

    #[test]
    fn queries_cycle_when_there_are_rows() {
        let workload = iibench(json!({"query_threads": 1, "version": "2023"}), Mode::Compat);
        assert_eq!(workload.threads(4), 5);
        let mut client = workload.client(Place { number: 4, of: 5 }, 1);
        client.unit(&mut |operation| panic!("{operation:?} before there are rows"));
        workload.resume(&[Found { documents: 10_000, last_id: None }]);
        let mut seen = Vec::new();
        for _ in 0..6 {
            client.unit(&mut |operation| {
                let Operation::Iibench(IibenchOperation::Query { query, limit: 10, covered: false }) = operation else {
                    panic!("{operation:?}")
                };
                seen.push(match query {
                    Query::PriceTimeCustomer { .. } => 1,
                    Query::PriceCustomer { .. } => 2,
                    Query::RegisterPriceCustomer { .. } => 3,
                });
                Some(Answer::rows(10))
            });
        }
        assert_eq!(seen, [1, 2, 3, 1, 2, 3]);
    }
}
