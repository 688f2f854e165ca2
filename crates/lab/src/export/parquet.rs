//! Parquet: the columns of `csv`.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{at_ms, began_ms};
use crate::results::{Point, Run};
use crate::{Error, Result};

const SCHEMA: &str = "message point {
    required binary experiment (string);
    required int64 started (timestamp(millis, true));
    required binary system (string);
    required binary step (string);
    required int64 clients (integer(64, false));
    required binary phase (string);
    required int64 time (timestamp(millis, true));
    required double t_s;
    required binary series (string);
    required double value;
}";

/// Returns the file. Times are milliseconds since 1970.
pub(super) fn file(runs: &[Run]) -> Result<Vec<u8>> {
    let schema = parse_message_type(SCHEMA).map_err(not_written)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).map_err(not_written)?;
    for run in runs {
        let began = began_ms(run)?;
        let mut group = file.next_row_group().map_err(not_written)?;
        write_rows(&mut group, run, began).and_then(|()| group.close().map(drop)).map_err(not_written)?;
    }
    file.into_inner().map_err(not_written)
}

fn not_written(error: ParquetError) -> Error {
    Error::Usage(format!("parquet: {error}"))
}

type Written = std::result::Result<(), ParquetError>;

/// Writes the columns in the order of [`SCHEMA`].
fn write_rows(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, run: &Run, began_ms: i64) -> Written {
    let points = &run.series;
    let texts = |of: fn(&Point) -> &str| points.iter().map(|point| ByteArray::from(of(point))).collect::<Vec<_>>();
    let numbers = |of: fn(&Point) -> f64| points.iter().map(of).collect::<Vec<_>>();
    write_column::<ByteArrayType>(group, &vec![ByteArray::from(run.record.experiment.as_str()); points.len()])?;
    write_column::<Int64Type>(group, &vec![began_ms; points.len()])?;
    write_column::<ByteArrayType>(group, &texts(|point| &point.system))?;
    write_column::<ByteArrayType>(group, &texts(|point| &point.step))?;
    write_column::<Int64Type>(group, &points.iter().map(|point| point.clients as i64).collect::<Vec<_>>())?;
    write_column::<ByteArrayType>(group, &texts(|point| point.phase.name()))?;
    write_column::<Int64Type>(group, &points.iter().map(|point| at_ms(began_ms, point)).collect::<Vec<_>>())?;
    write_column::<DoubleType>(group, &numbers(|point| point.t_s))?;
    write_column::<ByteArrayType>(group, &texts(|point| &point.series))?;
    write_column::<DoubleType>(group, &numbers(|point| point.value))
}

fn write_column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: &[T::T]) -> Written {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".to_owned()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// Reads the two points of the test of `export`.
#[cfg(test)]
pub(super) fn check(runs: &[Run], directory: &std::path::Path) {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let path = directory.join("a.parquet");
    std::fs::write(&path, file(runs).unwrap()).unwrap();
    let read = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows: Vec<String> = read.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows.len(), 2);
    let first = "{experiment: \"a\", started: 2026-11-21 00:00:01.000 +00:00, system: \"x,y\", step: \"c1\", clients: 1, phase: \"run\", \
                     time: 2026-11-21 00:00:03.500 +00:00, t_s: 2.5, series: \"ops.read\", value: 7.0}";
    assert_eq!(rows.first().map(String::as_str), Some(first));
}
