//! The integration tests of `bson` in one binary: one link instead of one for each file.

mod agrees_with_the_reference_bson_crate;
mod deep_values_need_no_stack;
mod order_of_keys_is_order_of_values;
mod values;
