//! One promise each.

mod bulk;
mod cursor;
mod durable;
mod rows;
mod snapshot;
mod trees;
mod updates;

use super::Bench;

type Case = fn(&Bench<'_>);

pub(super) const ALL: &[(&str, Case)] = &[
    ("a new engine is empty", trees::a_new_engine_is_empty),
    ("create and drop are idempotent", trees::create_and_drop_are_idempotent),
    ("tree options are checked", trees::options_are_checked),
    ("many trees stay apart", trees::many_trees_stay_apart),
    ("rows are put, replaced and deleted", rows::put_replace_delete),
    ("range deletes", rows::range_deletes),
    ("long keys keep their order", rows::long_keys),
    ("values of every size", rows::values_of_every_size),
    ("sizes count large values", rows::sizes_count_large_values),
    ("rows beyond the bounds are refused", rows::bounds),
    ("counts are exact", rows::counts_are_exact),
    ("a group that fails changes nothing", rows::a_failed_group_changes_nothing),
    ("updates change what is there", updates::change_what_is_there),
    ("updates survive", updates::survive),
    ("updates under range deletes and new trees", updates::under_range_deletes),
    ("engines without updates refuse them", updates::are_refused_without_a_function),
    ("applied batches are passed over", rows::applied_batches_are_passed_over),
    ("a batch of many megabytes", rows::a_batch_of_many_megabytes),
    ("cursor moves at every place", cursor::moves_at_every_place),
    ("cursors over long keys", cursor::moves_over_long_keys),
    ("cursors of empty trees", cursor::empty_trees),
    ("estimates", cursor::estimates),
    ("a snapshot does not change", snapshot::does_not_change),
    ("a snapshot outlives its trees", snapshot::outlives_its_trees),
    ("readers see whole batches", snapshot::readers_see_whole_batches),
    ("threads share a snapshot", snapshot::threads_share_one),
    ("a checkpoint survives", durable::a_checkpoint_survives),
    ("a crash shows a prefix", durable::a_crash_shows_a_prefix),
    ("no state is durable before its log", durable::no_state_before_its_log),
    ("checkpoints during writes", durable::checkpoints_during_writes),
    ("bulk load", bulk::loads),
    ("many bulk loads behind one batch", bulk::many_behind_one_batch),
    ("bulk load refuses", bulk::refuses),
    ("bulk load during batches", bulk::during_batches),
    ("a crash leaves a bulk load empty or whole", bulk::empty_or_whole),
];
