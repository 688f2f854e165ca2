//! YCSB's workloads A to F and what of them can be set (spec/workloads.md 8.4, 8.7).

use serde::{Deserialize, Serialize};

use crate::workload::Mode;

/// Settings of an experiment; the defaults come from the stock file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The stock file: a, b, c, d, e or f.
    workload: Option<Letter>,
    /// Loaded records.
    records: Option<u64>,
    /// Operations that scrambled Zipf makes room for; read only by D and E, which insert.
    operationcount: Option<u64>,
    fieldcount: Option<u32>,
    fieldlength: Option<u32>,
    /// Records per insert of the load.
    batch: Option<u32>,
    /// Load by replacing with upsert, as YCSB did in 2015; only with batches of one.
    upsert: Option<bool>,
    readproportion: Option<f64>,
    updateproportion: Option<f64>,
    insertproportion: Option<f64>,
    scanproportion: Option<f64>,
    readmodifywriteproportion: Option<f64>,
    requestdistribution: Option<Distribution>,
    maxscanlength: Option<u32>,
    readallfields: Option<bool>,
    writeallfields: Option<bool>,
    insertorder: Option<Order>,
    zeropadding: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// YCSB's scrambled Zipf in compat mode; Zipf itself in fixed mode.
    Zipfian,
    /// Zipf over the keys through a permutation.
    ZipfianExact,
    Latest,
    Uniform,
    Hotspot,
    Exponential,
    Sequential,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    Hashed,
    Ordered,
}

/// The settings with every default.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Plan {
    pub workload: Letter,
    pub records: u64,
    pub operationcount: u64,
    pub fieldcount: u32,
    pub fieldlength: u32,
    pub batch: u32,
    pub upsert: bool,
    pub readproportion: f64,
    pub updateproportion: f64,
    pub insertproportion: f64,
    pub scanproportion: f64,
    pub readmodifywriteproportion: f64,
    pub requestdistribution: Distribution,
    pub maxscanlength: u32,
    pub readallfields: bool,
    pub writeallfields: bool,
    pub insertorder: Order,
    pub zeropadding: usize,
    #[serde(skip)]
    pub mode: Mode,
}

impl Letter {
    /// Proportions of reads, updates, inserts, scans and read-modify-writes.
    fn proportions(self) -> [f64; 5] {
        match self {
            Letter::A => [0.5, 0.5, 0.0, 0.0, 0.0],
            Letter::B => [0.95, 0.05, 0.0, 0.0, 0.0],
            Letter::C => [1.0, 0.0, 0.0, 0.0, 0.0],
            Letter::D => [0.95, 0.0, 0.05, 0.0, 0.0],
            Letter::E => [0.0, 0.0, 0.05, 0.95, 0.0],
            Letter::F => [0.5, 0.0, 0.0, 0.0, 0.5],
        }
    }

    fn distribution(self) -> Distribution {
        if self == Letter::D { Distribution::Latest } else { Distribution::Zipfian }
    }
}

impl Settings {
    pub fn plan(&self, mode: Mode) -> Result<Plan, String> {
        let workload = self.workload.unwrap_or(Letter::A);
        let [reads, updates, inserts, scans, modifications] = workload.proportions();
        let records = self.records.unwrap_or(1000);
        let compat = mode == Mode::Compat;
        let batch = self.batch.unwrap_or(if compat { 1 } else { 1000 });
        let plan = Plan {
            workload,
            records,
            operationcount: self.operationcount.unwrap_or(records),
            fieldcount: self.fieldcount.unwrap_or(10),
            fieldlength: self.fieldlength.unwrap_or(100),
            batch,
            upsert: self.upsert.unwrap_or(compat && batch == 1),
            readproportion: self.readproportion.unwrap_or(reads),
            updateproportion: self.updateproportion.unwrap_or(updates),
            insertproportion: self.insertproportion.unwrap_or(inserts),
            scanproportion: self.scanproportion.unwrap_or(scans),
            readmodifywriteproportion: self.readmodifywriteproportion.unwrap_or(modifications),
            requestdistribution: self.requestdistribution.unwrap_or(workload.distribution()),
            maxscanlength: self.maxscanlength.unwrap_or(100),
            readallfields: self.readallfields.unwrap_or(true),
            writeallfields: self.writeallfields.unwrap_or(false),
            insertorder: self.insertorder.unwrap_or(Order::Hashed),
            zeropadding: self.zeropadding.unwrap_or(1),
            mode,
        };
        plan.checked()
    }
}

impl Plan {
    fn checked(self) -> Result<Plan, String> {
        let parts = self.proportions();
        if parts.iter().any(|part| !(0.0..=1e6).contains(part)) || parts.iter().sum::<f64>() <= 0.0 {
            return Err("ycsb: proportions must not be negative, and one must be above 0".to_owned());
        }
        // Key numbers are hashed as 64 bits; the bound keeps counters and item counts far from overflow.
        let counts = [self.records, self.fieldcount.into(), self.batch.into(), self.maxscanlength.into()];
        if counts.contains(&0) || self.records > 1 << 40 || self.operationcount > 1 << 40 || self.zeropadding > 100 {
            return Err("ycsb: records, fieldcount, batch and maxscanlength must be at least 1, counts at most 2^40, \
                        zeropadding at most 100"
                .to_owned());
        }
        if self.upsert && self.batch > 1 {
            return Err("ycsb: upsert loads records one by one: batch must be 1".to_owned());
        }
        Ok(self)
    }

    /// Returns the proportions of reads, updates, inserts, scans and read-modify-writes.
    pub fn proportions(&self) -> [f64; 5] {
        [
            self.readproportion,
            self.updateproportion,
            self.insertproportion,
            self.scanproportion,
            self.readmodifywriteproportion,
        ]
    }

    /// The original loses the last batch when it is not full.
    pub fn records_loaded(&self) -> u64 {
        match self.mode {
            Mode::Compat => self.records / u64::from(self.batch) * u64::from(self.batch),
            Mode::Fixed => self.records,
        }
    }
}
