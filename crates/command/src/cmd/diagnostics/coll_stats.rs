//! `collStats`: statistics of a collection. Counts and sizes are exact, sizes on disk are the engine's own.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_engine::TreeStats;
use arbor_store::{CappedBounds, Collection, Namespace};

use crate::Result;
use crate::call::Call;
use crate::cmd::shared::numbers::fitting;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let mut scale = 1;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "scale" => scale = read_scale(field, value)?,
            "waitForLock" | "numericOnly" => drop(field.bool(value)?),
            _ => call.unknown(field)?,
        }
    }
    if let Some(buckets) = call.database().store.buckets_of(&namespace) {
        call.reply = crate::cmd::shared::time_series::statistics(call, &namespace, &buckets, scale)?;
        return Ok(());
    }
    if let Some(statistics) = crate::cmd::shared::oplog::statistics(call, &namespace) {
        let doc = statistics_doc(call, &statistics, true, scale);
        call.reply = DocBuf::new().with("ns", namespace.as_str()).as_doc().iter().chain(doc.as_doc()).collect();
        return Ok(());
    }
    call.database().store.refuse_view(&namespace)?;
    call.reply.append("ns", namespace.as_str());
    append_statistics(call, &namespace, scale)?;
    Ok(())
}

pub(crate) fn read_scale(field: arbor_protocol::arguments::Field<'_>, value: ValueRef<'_>) -> Result<u64> {
    match field.integer(value)? {
        // COMPAT: MongoDB keeps the scale as an int32
        scale @ 1.. => Ok(scale.min(i64::from(i32::MAX)) as u64),
        scale => Err(field.out_of_bounds(">= 1", scale).into()),
    }
}

/// Statistics of one collection.
#[derive(Default)]
pub(crate) struct Statistics {
    /// Engine of the documents; empty for a collection that is not there.
    pub engine: String,
    /// Limits of a capped collection.
    pub capped: Option<CappedBounds>,
    /// The records count as no index, since they are a clustered one.
    pub clustered: bool,
    pub documents: u64,
    pub data_bytes: u64,
    /// Documents of ranges that the shard does not own.
    pub orphans: u64,
    /// All of its trees of records.
    pub disk: TreeStats,
    /// Each partition of a partitioned collection.
    pub partitions: Vec<PartitionStatistics>,
    /// Each secondary index.
    pub indexes: Vec<IndexStatistics>,
    /// Names of those that are being built.
    pub unfinished: Vec<String>,
}

pub(crate) struct PartitionStatistics {
    pub id: i64,
    pub documents: u64,
    pub data_bytes: u64,
    pub disk: TreeStats,
}

pub(crate) struct IndexStatistics {
    pub name: String,
    pub engine: String,
    pub disk: TreeStats,
}

impl Statistics {
    /// Errors: the collection's engine is not available.
    pub(crate) fn of(call: &Call<'_>, collection: &Collection) -> Result<Statistics> {
        call.database().transactions.engine().check_tree(collection.tree).map_err(arbor_txn::Error::from)?;
        let mut statistics = Statistics::reachable(call, collection)?;
        let view = call.database().transactions.read()?;
        statistics.orphans = call.server.orphans(&view, collection, collection.namespace.as_str())?;
        Ok(statistics)
    }

    /// For sums: what lives on an engine that is not available counts nothing on disk.
    pub(crate) fn reachable(call: &Call<'_>, collection: &Collection) -> Result<Statistics> {
        let transactions = &call.database().transactions;
        let view = transactions.read()?;
        let mut statistics = Statistics {
            engine: collection.engine.to_string(),
            capped: collection.capped(),
            clustered: collection.clustered_index().is_some(),
            documents: arbor_store::count(&view, collection)?,
            data_bytes: arbor_store::data_size(&view, collection)?,
            orphans: 0,
            disk: TreeStats::default(),
            partitions: Vec::new(),
            indexes: Vec::new(),
            unfinished: Vec::new(),
        };
        statistics.disk = sum_of(call, collection.record_trees())?;
        for own in collection.partitions.iter() {
            let (documents, data_bytes) = arbor_store::counted(&view, own.tree)?;
            let disk = tree(call, own.tree)?;
            statistics.partitions.push(PartitionStatistics { id: own.id, documents, data_bytes, disk });
        }
        for build in call.database().store.index_builds(collection) {
            let names = build.specs.iter().filter_map(|spec| match spec.get("name") {
                Some(ValueRef::String(name)) => Some(name.to_owned()),
                _ => None,
            });
            statistics.unfinished.extend(names);
        }
        for index in &collection.indexes {
            let (name, engine) = (index.name.clone(), index.engine.to_string());
            statistics.indexes.push(IndexStatistics { name, engine, disk: sum_of(call, index.trees())? });
        }
        Ok(statistics)
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|index| index.disk.disk_bytes).sum()
    }
}

/// Shown of every tree at least.
const BLOCK_BYTES: u64 = 4096;

fn sum_of(call: &Call<'_>, trees: impl Iterator<Item = arbor_base::TreeId>) -> Result<TreeStats> {
    let mut all = TreeStats::default();
    for own in trees {
        let own = tree(call, own)?;
        all.keys += own.keys;
        all.data_bytes += own.data_bytes;
        all.disk_bytes += own.disk_bytes;
        all.free_bytes += own.free_bytes;
    }
    Ok(all)
}

/// A tree that was dropped meanwhile counts nothing.
fn tree(call: &Call<'_>, tree: arbor_base::TreeId) -> Result<TreeStats> {
    match call.database().transactions.engine().tree_stats(tree) {
        Err(arbor_engine::Error::UnknownTree(_) | arbor_engine::Error::Unavailable { .. }) => Ok(TreeStats::default()),
        stats => {
            let stats = stats.map_err(arbor_txn::Error::from)?;
            // COMPAT: data only in memory and in the log counts as one block, like a new file of WiredTiger.
            Ok(TreeStats { disk_bytes: stats.disk_bytes.max(BLOCK_BYTES), ..stats })
        }
    }
}

/// Appends the statistics in the form of `collStats` and `$collStats`; zeros for a collection that does not exist.
pub(crate) fn append_statistics(call: &mut Call<'_>, namespace: &Namespace, scale: u64) -> Result<()> {
    let collection = call.database().store.collection(namespace);
    let statistics = match &collection {
        Some(collection) => Statistics::of(call, collection)?,
        None => Statistics::default(),
    };
    let doc = statistics_doc(call, &statistics, collection.is_some(), scale);
    for (name, value) in doc.as_doc() {
        call.reply.append(name, value);
    }
    Ok(())
}

pub(crate) fn statistics_doc(call: &Call<'_>, statistics: &Statistics, exists: bool, scale: u64) -> DocBuf {
    let scaled = |bytes: u64| fitting(bytes / scale);
    let mut doc =
        DocBuf::new().with("size", scaled(statistics.data_bytes)).with("count", fitting(statistics.documents));
    if let Some(average) = statistics.data_bytes.checked_div(statistics.documents) {
        doc.append("avgObjSize", fitting(average));
    }
    doc.append("numOrphanDocs", fitting(statistics.orphans));
    doc.append("storageSize", scaled(statistics.disk.disk_bytes));
    doc.append("freeStorageSize", scaled(statistics.disk.free_bytes));
    doc.append("capped", statistics.capped.is_some());
    if let Some(bounds) = statistics.capped {
        doc.append("max", fitting(bounds.docs_max.unwrap_or(0))).append("maxSize", scaled(bounds.bytes_max));
    }
    if !statistics.partitions.is_empty() {
        let partition = |own: &PartitionStatistics| {
            let doc = DocBuf::new().with("_id", own.id).with("count", fitting(own.documents));
            let doc = doc.with("size", scaled(own.data_bytes)).with("storageSize", scaled(own.disk.disk_bytes));
            doc.with("freeStorageSize", scaled(own.disk.free_bytes))
        };
        let partitions: Vec<DocBuf> = statistics.partitions.iter().map(partition).collect();
        doc.append("partitioned", true).append("partitions", &partitions.iter().collect::<ArrayBuf>());
    }
    if statistics.clustered {
        doc.append("clustered", true);
    }
    let (mut sizes, mut details) = (DocBuf::new(), DocBuf::new());
    if exists {
        doc.append(&statistics.engine, &tree_section(&statistics.disk));
    }
    let id_index = exists && !statistics.clustered;
    if id_index {
        // The tree of documents is the index on _id; its bytes are in storageSize.
        sizes.append("_id_", 0i32);
        details.append("_id_", &DocBuf::new().with("storageEngine", &*statistics.engine));
    }
    for index in &statistics.indexes {
        sizes.append(&index.name, scaled(index.disk.disk_bytes));
        let section = tree_section(&index.disk);
        details.append(&index.name, &DocBuf::new().with("storageEngine", &*index.engine).with(&index.engine, &section));
    }
    doc.append("nindexes", (statistics.indexes.len() + statistics.unfinished.len()) as i32 + i32::from(id_index));
    doc.append("indexDetails", &details);
    doc.append("indexBuilds", &statistics.unfinished.iter().map(String::as_str).collect::<ArrayBuf>());
    doc.append("totalIndexSize", scaled(statistics.index_bytes()));
    doc.append("totalSize", scaled(statistics.disk.disk_bytes + statistics.index_bytes()));
    doc.append("indexSizes", &sizes);
    let usual = call.database().transactions.engine().name();
    let engine = if exists { statistics.engine.as_str() } else { usual };
    doc.append("storageEngine", &DocBuf::new().with("name", engine)).append("scaleFactor", fitting(scale));
    doc
}

/// Returns the engine's statistics of one tree, as the section of its name, under WiredTiger's field names.
fn tree_section(stats: &TreeStats) -> DocBuf {
    let blocks = DocBuf::new()
        .with("file size in bytes", stats.disk_bytes as i64)
        .with("file bytes available for reuse", stats.free_bytes as i64);
    DocBuf::new()
        .with("keys", stats.keys as i64)
        .with("data bytes", stats.data_bytes as i64)
        .with("block-manager", &blocks)
}
