//! iiBench's purchases in MongoDB (spec/workloads.md 6.2, 6.4).

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::Client;

use super::object_ids::ObjectIds;
use super::{array, insert_many};
use crate::target::Failure;
use crate::workload::iibench::{COLLECTION, DATABASE, IibenchOperation, Purchase, Query};

type Result<T> = std::result::Result<T, Failure>;

/// Connection state of iiBench.
#[derive(Default)]
pub(super) struct Iibench {
    ids: ObjectIds,
    documents: Vec<DocBuf>,
}

impl Iibench {
    pub(super) fn execute(&mut self, client: &mut Client, operation: &IibenchOperation<'_>) -> Result<u64> {
        match *operation {
            IibenchOperation::Insert { purchases, ordered } => {
                self.documents.clear();
                self.documents.extend(purchases.iter().map(|purchase| document(purchase, &mut self.ids)));
                insert_many(client, DATABASE, COLLECTION, ordered, &self.documents)
            }
            IibenchOperation::Query { query, limit, covered } => {
                let (filter, projection) = parts(&query);
                let projection = if covered { projection } else { projected(&ALL) };
                let find = DocBuf::new().with("find", COLLECTION).with("filter", &filter);
                let find = find.with("projection", &projection).with("limit", limit as i32);
                Ok(client.find(DATABASE, &find, |_| {})? as u64)
            }
        }
    }
}

/// Fields that the client of 2023 requests, whichever index it reads.
const ALL: [&str; 4] = ["dateandtime", "customerid", "cashregisterid", "price"];

fn document(purchase: &Purchase<'_>, ids: &mut ObjectIds) -> DocBuf {
    let mut document = DocBuf::new()
        .with("_id", ValueRef::ObjectId(ids.next()))
        .with("dateandtime", purchase.time)
        .with("cashregisterid", purchase.register)
        .with("customerid", purchase.customer)
        .with("productid", purchase.product)
        .with("price", purchase.price);
    for (number, text) in (1..).zip(purchase.texts) {
        document.append(&format!("cf{number}"), text.as_str());
    }
    document
}

fn projected(fields: &[&str]) -> DocBuf {
    fields.iter().fold(DocBuf::new(), |document, field| document.with(field, 1)).with("_id", 0)
}

/// The filter of a query, and the fields of its index.
fn parts(query: &Query) -> (DocBuf, DocBuf) {
    let doc = DocBuf::new;
    let from = |customer: i32| doc().with("$gte", customer);
    let above = |value: ValueRef<'_>| doc().with("$gt", value);
    let (cases, fields): (Vec<DocBuf>, &[&str]) = match *query {
        Query::PriceTimeCustomer { price, time, customer } => (
            vec![
                doc().with("price", price).with("dateandtime", time).with("customerid", &from(customer)),
                doc().with("price", price).with("dateandtime", &above(time.into())),
                doc().with("price", &above(price.into())),
            ],
            &["price", "dateandtime", "customerid"],
        ),
        Query::PriceCustomer { price, customer } => (
            vec![
                doc().with("price", price).with("customerid", &from(customer)),
                doc().with("price", &above(price.into())),
            ],
            &["price", "customerid"],
        ),
        Query::RegisterPriceCustomer { register, price, customer } => (
            vec![
                doc().with("cashregisterid", register).with("price", price).with("customerid", &from(customer)),
                doc().with("cashregisterid", register).with("price", &above(price.into())),
                doc().with("cashregisterid", &above(register.into())),
            ],
            &["cashregisterid", "price", "customerid"],
        ),
    };
    (doc().with("$or", &array(&cases)), projected(fields))
}
