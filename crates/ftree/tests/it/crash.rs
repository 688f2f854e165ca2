//! Power cuts at every kind of moment. `examples/ftree_crash_images.rs` checks many more of these.

use crate::images;

#[test]
fn images_open_in_a_state_that_was() {
    let images: u64 = (0..6).map(|seed| images::run(seed, 20)).sum();
    assert!(images >= 60, "{images}");
}
