//! `convertToCapped`: a collection becomes a capped one, in the order of its `_id`s.

use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_txn::{Transaction, View};
use uuid::Uuid;

use crate::catalogue::change_collections::{drop_index, put_collection};
use crate::collection::{bytes_counter, count_counter, unread_counter};
use crate::noting::commands as noting;
use crate::{Collection, Error, Namespace, RecordCursor, Result, Store, capped};

/// Key and size of a record.
type Record = (Vec<u8>, u64);

impl Store {
    /// The last documents that fit stay, the indexes go. All of it is one transaction, so a collection of some millions of
    /// documents is refused (`Txn(TooLarge)`).
    pub fn convert_to_capped(&self, namespace: &Namespace, bytes_max: i64) -> Result<()> {
        let (old, _guard) =
            self.hold_exclusive(namespace).ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))?;
        self.switches.refuse(&old, "convert")?;
        self.builds.refuse(&old)?;
        old.refuse_partitioned("become a capped one")?;
        let _changing = self.lock_changes();
        let others = old.options.as_doc().iter().filter(|(name, _)| !matches!(*name, "capped" | "size" | "max"));
        let options = others.collect::<DocBuf>().with("capped", true).with("size", bytes_max);
        let trees = self.options.trees.of_collection(options.as_doc())?;
        let mut txn = self.transactions.begin()?;
        let order = txn.create_tree(trees.options);
        // another identity: a reader of the old order must not continue in the new one
        let uuid = Uuid::new_v4();
        let new = Collection { uuid, options, order: Some(order), indexes: Vec::new(), ..old.copy() };
        let records = records_in_order(&txn, &old)?;
        old.order.into_iter().for_each(|order| txn.drop_tree(order));
        let kept = last_that_fit(&records, bytes_max as u64);
        debug_assert!(crate::count(&txn, &old)? == records.len() as u64, "all documents of {namespace} are in order");
        let (gone, stay) = records.split_at(records.len() - kept);
        // As they are, since the size bounds them: what unread updates added is not counted.
        let bytes: u64 = stay.iter().map(|(_, bytes)| bytes).sum();
        gone.iter().for_each(|(id_key, _)| txn.delete(new.tree, id_key.as_slice()));
        let (counted, unread) = (txn.counter(bytes_counter(new.tree))?, txn.counter(unread_counter(new.tree))?);
        txn.add_counter(count_counter(new.tree), -(gone.len() as i64));
        txn.add_counter(bytes_counter(new.tree), bytes as i64 - counted);
        txn.add_counter(unread_counter(new.tree), -unread);
        capped::place_all(&mut txn, order, stay.iter().map(|(id_key, _)| id_key.as_slice()));
        for index in &old.indexes {
            drop_index(&mut txn, index);
        }
        put_collection(&mut txn, &new);
        noting::converted_to_capped(&mut txn, &old, bytes_max);
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(new)))
    }
}

/// In the order of insertion, if there is one.
fn records_in_order(txn: &Transaction, collection: &Collection) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    if collection.order.is_some() {
        let mut cursor = capped::OrderCursor::new(txn, collection)?;
        let mut valid = cursor.seek(&[])?;
        while valid {
            records.push((cursor.id_key().to_vec(), cursor.doc().as_bytes().len() as u64));
            valid = cursor.next()?;
        }
        return Ok(records);
    }
    let mut cursor = RecordCursor::new(txn, collection)?;
    let mut valid = cursor.first()?;
    while valid {
        records.push((cursor.id_key().to_vec(), cursor.doc().as_bytes().len() as u64));
        valid = cursor.next()?;
    }
    Ok(records)
}

fn last_that_fit(records: &[Record], bytes_max: u64) -> usize {
    let mut bytes = 0;
    let fits = |(_, own): &&Record| {
        bytes += own;
        bytes <= bytes_max
    };
    records.iter().rev().take_while(fits).count()
}
