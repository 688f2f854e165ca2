//! One connection: sysbench's statements in SQL, prepared once each.

use std::collections::HashMap;

use mysql::prelude::Queryable;
use mysql::{Conn, Params, Statement as Prepared};

use crate::target::{Failure, Session, Sizes};
use crate::workload::{Answer, Collection, Columns, Found, Operation, PerconaStatement, Row, Statement};

type Done<T> = std::result::Result<T, Failure>;

pub(super) struct Connection {
    connection: Conn,
    engine: Option<&'static str>,
    handler: bool,
    /// Prepared statements by table and text, in which `{}` is the table's name.
    prepared: HashMap<(u32, &'static str), Prepared>,
    /// Tables whose handler is open.
    opened: Vec<u32>,
    text: String,
}

const POINT_ALL: &str = "SELECT id, k, c, pad FROM {} WHERE id = ?";
const POINT_C: &str = "SELECT c FROM {} WHERE id = ?";
const RANGE: &str = "SELECT c FROM {} WHERE id BETWEEN ? AND ?";
const SUM: &str = "SELECT SUM(k) FROM {} WHERE id BETWEEN ? AND ?";
const ORDER: &str = "SELECT c FROM {} WHERE id BETWEEN ? AND ? ORDER BY c";
const DISTINCT: &str = "SELECT DISTINCT c FROM {} WHERE id BETWEEN ? AND ?";
const INDEX_UPDATE: &str = "UPDATE {} SET k = k + 1 WHERE id = ?";
const NON_INDEX_UPDATE: &str = "UPDATE {} SET c = ? WHERE id = ?";
const DELETE: &str = "DELETE FROM {} WHERE id = ?";
const INSERT: &str = "INSERT INTO {} (id, k, c, pad) VALUES (?, ?, ?, ?)";
const REPLACE: &str = "REPLACE INTO {} (id, k, c, pad) VALUES (?, ?, ?, ?)";

/// Returns the table's name qualified with its database.
fn table_name(table: u32) -> String {
    format!("sbtest.sbtest{table}")
}

impl Connection {
    pub(super) fn new(connection: Conn, engine: Option<&'static str>, handler: bool) -> Connection {
        let (prepared, opened, text) = (HashMap::new(), Vec::new(), String::new());
        Connection { connection, engine, handler, prepared, opened, text }
    }

    fn prepare(&mut self, table: u32, text: &'static str) -> Done<Prepared> {
        if let Some(statement) = self.prepared.get(&(table, text)) {
            return Ok(statement.clone());
        }
        let statement = self.connection.prep(text.replacen("{}", &table_name(table), 1))?;
        self.prepared.insert((table, text), statement.clone());
        Ok(statement)
    }

    /// Rows that came.
    fn read(&mut self, table: u32, text: &'static str, params: impl Into<Params>) -> Done<u64> {
        let statement = self.prepare(table, text)?;
        let mut rows = 0;
        for row in self.connection.exec_iter(&statement, params)? {
            row?;
            rows += 1;
        }
        Ok(rows)
    }

    /// Rows that changed.
    fn write(&mut self, table: u32, text: &'static str, params: impl Into<Params>) -> Done<u64> {
        let statement = self.prepare(table, text)?;
        self.connection.exec_drop(&statement, params)?;
        Ok(self.connection.affected_rows())
    }

    /// The primary key by the storage engine's handler, without the optimizer.
    fn handler_point(&mut self, table: u32, id: i32) -> Done<u64> {
        if !self.opened.contains(&table) {
            self.connection.query_drop(format!("HANDLER {} OPEN AS h{table}", table_name(table)))?;
            self.opened.push(table);
        }
        self.text.clear();
        let _ = std::fmt::Write::write_fmt(&mut self.text, format_args!("HANDLER h{table} READ `PRIMARY` = ({id})"));
        let mut rows = 0;
        for row in self.connection.query_iter(self.text.as_str())? {
            row?;
            rows += 1;
        }
        Ok(rows)
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Done<u64> {
        match *statement {
            Statement::Point { table, id, columns: Columns::All } if self.handler => self.handler_point(table, id),
            Statement::Point { table, id, columns: Columns::All } => self.read(table, POINT_ALL, (id,)),
            Statement::Point { table, id, columns: Columns::C } => self.read(table, POINT_C, (id,)),
            Statement::Range { table, ids } => self.read(table, RANGE, (ids.from, ids.to)),
            Statement::Sum { table, ids, .. } => self.read(table, SUM, (ids.from, ids.to)),
            Statement::Order { table, ids } => self.read(table, ORDER, (ids.from, ids.to)),
            Statement::Distinct { table, ids } => self.read(table, DISTINCT, (ids.from, ids.to)),
            Statement::IndexUpdate { table, id } => self.write(table, INDEX_UPDATE, (id,)),
            Statement::NonIndexUpdate { table, id, c } => self.write(table, NON_INDEX_UPDATE, (c, id)),
            Statement::Delete { table, id } => self.write(table, DELETE, (id,)),
            Statement::Insert { table, row } => {
                self.write(table, INSERT, (row.id, row.k, row.c.as_str(), row.pad.as_str()))
            }
            Statement::InsertRows { table, rows } => self.insert_rows(table, rows),
        }
    }

    /// Percona's statements as far as they are sysbench's in SQL; what its C driver did otherwise has none.
    fn percona(&mut self, statement: &PerconaStatement<'_>) -> Done<u64> {
        match *statement {
            PerconaStatement::Sum { table, ids } => self.read(table, SUM, (ids.from, ids.to)),
            PerconaStatement::Order { table, ids } => self.read(table, ORDER, (ids.from, ids.to)),
            PerconaStatement::Distinct { table, ids } => self.read(table, DISTINCT, (ids.from, ids.to)),
            PerconaStatement::Replace { table, row } | PerconaStatement::Upsert { table, row } => {
                self.write(table, REPLACE, (row.id, row.k, row.c.trim_start(), row.pad.trim_start()))
            }
            PerconaStatement::Load { table, rows, .. } => self.insert_rows(table, rows),
            _ => Err(Failure::unsupported("MySQL")),
        }
    }

    fn insert_rows(&mut self, table: u32, rows: &[Row]) -> Done<u64> {
        self.text.clear();
        self.text.push_str("INSERT INTO ");
        self.text.push_str(&table_name(table));
        self.text.push_str(" (id, k, c, pad) VALUES ");
        for (n, row) in rows.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            // Digits and hyphens: nothing to escape.
            let row = format_args!("{comma}({},{},'{}','{}')", row.id, row.k, row.c, row.pad);
            let _ = std::fmt::Write::write_fmt(&mut self.text, row);
        }
        self.connection.query_drop(self.text.as_str())?;
        Ok(self.connection.affected_rows())
    }
}

impl Session for Connection {
    fn execute(&mut self, operation: &Operation<'_>) -> Done<Answer> {
        match operation {
            Operation::Sysbench(statement) => self.statement(statement).map(Answer::rows),
            Operation::Percona(statement) => self.percona(statement).map(Answer::rows),
            _ => Err(Failure::unsupported("MySQL")),
        }
    }

    fn create(&mut self, collection: &Collection) -> Done<()> {
        let Collection { database, name, .. } = collection;
        if *database != "sbtest" {
            return Err(Failure::unsupported("MySQL"));
        }
        self.connection.query_drop(format!("CREATE DATABASE IF NOT EXISTS {database}"))?;
        let engine = self.engine.map_or(String::new(), |engine| format!(" ENGINE={engine}"));
        self.connection.query_drop(format!(
            "CREATE TABLE {database}.{name} (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, \
             pad CHAR(60) NOT NULL, KEY k (k)) DEFAULT CHARSET=latin1 COLLATE=latin1_bin{engine}"
        ))?;
        Ok(())
    }

    fn create_late_indexes(&mut self, _collection: &Collection) -> Done<()> {
        Ok(())
    }

    fn remove(&mut self, collection: &Collection) -> Done<()> {
        let Collection { database, name, .. } = collection;
        self.connection.query_drop(format!("CREATE DATABASE IF NOT EXISTS {database}"))?;
        Ok(self.connection.query_drop(format!("DROP TABLE IF EXISTS {database}.{name}"))?)
    }

    fn find(&mut self, collection: &Collection) -> Done<Found> {
        let Collection { database, name, .. } = collection;
        match self.connection.query_first::<u64, _>(format!("SELECT COUNT(*) FROM {database}.{name}")) {
            Ok(count) => Ok(Found { documents: count.unwrap_or(0), ..Found::default() }),
            Err(mysql::Error::MySqlError(error)) if NOT_THERE.contains(&error.code) => Ok(Found::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn scan(&mut self, collection: &Collection) -> Done<u64> {
        let Collection { database, name, .. } = collection;
        // A column that no index holds: the rows themselves are read.
        let text = format!("SELECT COUNT(pad) FROM {database}.{name} WHERE pad <> ''");
        Ok(self.connection.query_first(text)?.unwrap_or(0))
    }

    fn sizes(&mut self, database: &str) -> Done<Sizes> {
        let text = "SELECT SUM(table_rows), SUM(data_length), SUM(index_length) FROM information_schema.tables \
                    WHERE table_schema = ?";
        let sums: Option<(Option<f64>, Option<f64>, Option<f64>)> = self.connection.exec_first(text, (database,))?;
        let (documents, storage_bytes, index_bytes) = sums.unwrap_or_default();
        Ok(Sizes { documents, storage_bytes, index_bytes, ..Sizes::default() })
    }
}

/// Unknown database, unknown table.
const NOT_THERE: [u16; 2] = [1049, 1146];
