//! The operators of aggregation expressions: one file each, one row each.
//!
//! The examples in the doc blocks are run as tests (`expression/examples.rs`).

mod abs;
mod acos;
mod acosh;
mod add;
mod all_elements_true;
mod and;
mod any_element_true;
mod array_elem_at;
mod array_to_object;
mod asin;
mod asinh;
mod atan;
mod atan2;
mod atanh;
mod avg;
mod binary_size;
mod bit_and;
mod bit_not;
mod bit_or;
mod bit_xor;
mod bson_size;
mod ceil;
mod cmp;
mod concat;
mod concat_arrays;
mod cond;
mod convert;
mod cos;
mod cosh;
mod date_add;
mod date_diff;
mod date_from_parts;
mod date_from_string;
mod date_subtract;
mod date_to_parts;
mod date_to_string;
mod date_trunc;
mod day_of_month;
mod day_of_week;
mod day_of_year;
mod degrees_to_radians;
mod divide;
mod eq;
mod exp;
mod filter;
mod first;
mod first_n;
mod floor;
mod get_field;
mod gt;
mod gte;
mod hour;
mod if_null;
mod in_array;
mod index_of_array;
mod index_of_bytes;
mod index_of_cp;
mod is_array;
mod is_number;
mod iso_day_of_week;
mod iso_week;
mod iso_week_year;
mod last;
mod last_n;
mod let_variables;
mod literal;
mod ln;
mod log;
mod log10;
mod lt;
mod lte;
mod ltrim;
mod map;
mod max;
mod max_n;
mod median;
mod merge_objects;
mod meta;
mod millisecond;
mod min;
mod min_n;
mod minute;
mod modulo;
mod month;
mod multiply;
mod ne;
mod not;
mod object_to_array;
mod or;
mod percentile;
mod pow;
mod radians_to_degrees;
mod rand;
mod range;
mod reduce;
mod regex_find;
mod regex_find_all;
mod regex_match;
mod replace_all;
mod replace_one;
mod reverse_array;
mod round;
mod rtrim;
mod second;
mod set_difference;
mod set_equals;
mod set_field;
mod set_intersection;
mod set_is_subset;
mod set_union;
mod sigmoid;
mod sin;
mod sinh;
mod size;
mod slice;
mod sort_array;
mod split;
mod sqrt;
mod std_dev_pop;
mod std_dev_samp;
mod str_len_bytes;
mod str_len_cp;
mod strcasecmp;
mod substr_bytes;
mod substr_cp;
mod subtract;
mod sum;
mod switch;
mod tan;
mod tanh;
mod to_bool;
mod to_date;
mod to_decimal;
mod to_double;
mod to_hashed_index_key;
mod to_int;
mod to_long;
mod to_lower;
mod to_object_id;
mod to_string;
mod to_upper;
mod to_uuid;
mod trim;
mod trunc;
mod ts_increment;
mod ts_second;
mod type_name;
mod unset_field;
mod week;
mod year;
mod zip;

use super::form::{ANY, Form};

pub use merge_objects::not_a_document;
pub use slice::range as slice_range;

/// Every operator, by name.
const OPERATORS: &[(&str, Form)] = &[
    ("$abs", Form::Unary(abs::eval)),
    ("$acos", Form::Unary(acos::eval)),
    ("$acosh", Form::Unary(acosh::eval)),
    ("$add", Form::Nary(0, ANY, add::eval)),
    ("$allElementsTrue", Form::Unary(all_elements_true::eval)),
    ("$and", Form::Special(and::parse)),
    ("$anyElementTrue", Form::Unary(any_element_true::eval)),
    ("$arrayElemAt", Form::Binary(array_elem_at::eval)),
    ("$arrayToObject", Form::Unary(array_to_object::eval)),
    ("$asin", Form::Unary(asin::eval)),
    ("$asinh", Form::Unary(asinh::eval)),
    ("$atan", Form::Unary(atan::eval)),
    ("$atan2", Form::Binary(atan2::eval)),
    ("$atanh", Form::Unary(atanh::eval)),
    ("$avg", Form::Nary(0, ANY, avg::eval)),
    ("$binarySize", Form::Unary(binary_size::eval)),
    ("$bitAnd", Form::Nary(0, ANY, bit_and::eval)),
    ("$bitNot", Form::Unary(bit_not::eval)),
    ("$bitOr", Form::Nary(0, ANY, bit_or::eval)),
    ("$bitXor", Form::Nary(0, ANY, bit_xor::eval)),
    ("$bsonSize", Form::Unary(bson_size::eval)),
    ("$ceil", Form::Unary(ceil::eval)),
    ("$cmp", Form::BinaryBy(cmp::eval)),
    ("$concat", Form::Nary(0, ANY, concat::eval)),
    ("$concatArrays", Form::Nary(0, ANY, concat_arrays::eval)),
    ("$cond", Form::Special(cond::parse)),
    ("$const", Form::Special(literal::parse)),
    ("$convert", Form::Special(convert::parse)),
    ("$cos", Form::Unary(cos::eval)),
    ("$cosh", Form::Unary(cosh::eval)),
    ("$dateAdd", Form::Special(date_add::parse)),
    ("$dateDiff", Form::Special(date_diff::parse)),
    ("$dateFromParts", Form::Special(date_from_parts::parse)),
    ("$dateFromString", Form::Special(date_from_string::parse)),
    ("$dateSubtract", Form::Special(date_subtract::parse)),
    ("$dateToParts", Form::Special(date_to_parts::parse)),
    ("$dateToString", Form::Special(date_to_string::parse)),
    ("$dateTrunc", Form::Special(date_trunc::parse)),
    ("$dayOfMonth", Form::Special(day_of_month::parse)),
    ("$dayOfWeek", Form::Special(day_of_week::parse)),
    ("$dayOfYear", Form::Special(day_of_year::parse)),
    ("$degreesToRadians", Form::Unary(degrees_to_radians::eval)),
    ("$divide", Form::Binary(divide::eval)),
    ("$eq", Form::BinaryBy(eq::eval)),
    ("$exp", Form::Unary(exp::eval)),
    ("$filter", Form::Special(filter::parse)),
    ("$first", Form::Unary(first::eval)),
    ("$firstN", Form::Special(first_n::parse)),
    ("$floor", Form::Unary(floor::eval)),
    ("$getField", Form::Special(get_field::parse)),
    ("$gt", Form::BinaryBy(gt::eval)),
    ("$gte", Form::BinaryBy(gte::eval)),
    ("$hour", Form::Special(hour::parse)),
    ("$ifNull", Form::Special(if_null::parse)),
    ("$in", Form::BinaryBy(in_array::eval)),
    ("$indexOfArray", Form::NaryBy(2, 4, index_of_array::eval)),
    ("$indexOfBytes", Form::Nary(2, 4, index_of_bytes::eval)),
    ("$indexOfCP", Form::Nary(2, 4, index_of_cp::eval)),
    ("$isArray", Form::Unary(is_array::eval)),
    ("$isNumber", Form::Unary(is_number::eval)),
    ("$isoDayOfWeek", Form::Special(iso_day_of_week::parse)),
    ("$isoWeek", Form::Special(iso_week::parse)),
    ("$isoWeekYear", Form::Special(iso_week_year::parse)),
    ("$last", Form::Unary(last::eval)),
    ("$lastN", Form::Special(last_n::parse)),
    ("$let", Form::Special(let_variables::parse)),
    ("$literal", Form::Special(literal::parse)),
    ("$ln", Form::Unary(ln::eval)),
    ("$log", Form::Binary(log::eval)),
    ("$log10", Form::Unary(log10::eval)),
    ("$lt", Form::BinaryBy(lt::eval)),
    ("$lte", Form::BinaryBy(lte::eval)),
    ("$ltrim", Form::Special(ltrim::parse)),
    ("$map", Form::Special(map::parse)),
    ("$max", Form::NaryBy(0, ANY, max::eval)),
    ("$maxN", Form::Special(max_n::parse)),
    ("$median", Form::Special(median::parse)),
    ("$mergeObjects", Form::Nary(0, ANY, merge_objects::eval)),
    ("$meta", Form::Special(meta::parse)),
    ("$millisecond", Form::Special(millisecond::parse)),
    ("$min", Form::NaryBy(0, ANY, min::eval)),
    ("$minN", Form::Special(min_n::parse)),
    ("$minute", Form::Special(minute::parse)),
    ("$mod", Form::Binary(modulo::eval)),
    ("$month", Form::Special(month::parse)),
    ("$multiply", Form::Nary(0, ANY, multiply::eval)),
    ("$ne", Form::BinaryBy(ne::eval)),
    ("$not", Form::Unary(not::eval)),
    ("$objectToArray", Form::Unary(object_to_array::eval)),
    ("$or", Form::Special(or::parse)),
    ("$percentile", Form::Special(percentile::parse)),
    ("$pow", Form::Binary(pow::eval)),
    ("$radiansToDegrees", Form::Unary(radians_to_degrees::eval)),
    ("$rand", Form::Special(rand::parse)),
    ("$range", Form::Nary(2, 3, range::eval)),
    ("$reduce", Form::Special(reduce::parse)),
    ("$regexFind", Form::Special(regex_find::parse)),
    ("$regexFindAll", Form::Special(regex_find_all::parse)),
    ("$regexMatch", Form::Special(regex_match::parse)),
    ("$replaceAll", Form::Special(replace_all::parse)),
    ("$replaceOne", Form::Special(replace_one::parse)),
    ("$reverseArray", Form::Unary(reverse_array::eval)),
    ("$round", Form::Nary(1, 2, round::eval)),
    ("$rtrim", Form::Special(rtrim::parse)),
    ("$second", Form::Special(second::parse)),
    ("$setDifference", Form::BinaryBy(set_difference::eval)),
    ("$setEquals", Form::Special(set_equals::parse)),
    ("$setField", Form::Special(set_field::parse)),
    ("$setIntersection", Form::NaryBy(0, ANY, set_intersection::eval)),
    ("$setIsSubset", Form::BinaryBy(set_is_subset::eval)),
    ("$setUnion", Form::NaryBy(0, ANY, set_union::eval)),
    ("$sigmoid", Form::Special(sigmoid::parse)),
    ("$sin", Form::Unary(sin::eval)),
    ("$sinh", Form::Unary(sinh::eval)),
    ("$size", Form::Unary(size::eval)),
    ("$slice", Form::Nary(2, 3, slice::eval)),
    ("$sortArray", Form::Special(sort_array::parse)),
    ("$split", Form::Binary(split::eval)),
    ("$sqrt", Form::Unary(sqrt::eval)),
    ("$stdDevPop", Form::Nary(0, ANY, std_dev_pop::eval)),
    ("$stdDevSamp", Form::Nary(0, ANY, std_dev_samp::eval)),
    ("$strLenBytes", Form::Unary(str_len_bytes::eval)),
    ("$strLenCP", Form::Unary(str_len_cp::eval)),
    ("$strcasecmp", Form::Binary(strcasecmp::eval)),
    ("$substr", Form::Nary(3, 3, substr_bytes::eval)),
    ("$substrBytes", Form::Nary(3, 3, substr_bytes::eval)),
    ("$substrCP", Form::Nary(3, 3, substr_cp::eval)),
    ("$subtract", Form::Binary(subtract::eval)),
    ("$sum", Form::Nary(0, ANY, sum::eval)),
    ("$switch", Form::Special(switch::parse)),
    ("$tan", Form::Unary(tan::eval)),
    ("$tanh", Form::Unary(tanh::eval)),
    ("$toBool", Form::Conversion(to_bool::eval)),
    ("$toDate", Form::Conversion(to_date::eval)),
    ("$toDecimal", Form::Conversion(to_decimal::eval)),
    ("$toDouble", Form::Conversion(to_double::eval)),
    ("$toHashedIndexKey", Form::Unary(to_hashed_index_key::eval)),
    ("$toInt", Form::Conversion(to_int::eval)),
    ("$toLong", Form::Conversion(to_long::eval)),
    ("$toLower", Form::Unary(to_lower::eval)),
    ("$toObjectId", Form::Conversion(to_object_id::eval)),
    ("$toString", Form::Conversion(to_string::eval)),
    ("$toUUID", Form::Conversion(to_uuid::eval)),
    ("$toUpper", Form::Unary(to_upper::eval)),
    ("$trim", Form::Special(trim::parse)),
    ("$trunc", Form::Nary(1, 2, trunc::eval)),
    ("$tsIncrement", Form::Unary(ts_increment::eval)),
    ("$tsSecond", Form::Unary(ts_second::eval)),
    ("$type", Form::Unary(type_name::eval)),
    ("$unsetField", Form::Special(unset_field::parse)),
    ("$week", Form::Special(week::parse)),
    ("$year", Form::Special(year::parse)),
    ("$zip", Form::Special(zip::parse)),
];

/// The names of all operators.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// The operator of this name.
pub(super) fn find(name: &str) -> Option<(&'static str, Form)> {
    OPERATORS.iter().find(|(known, _)| *known == name).copied()
}
