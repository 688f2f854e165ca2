//! New ObjectIds: seconds, five bytes of this process, a counter.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::ObjectId;

static PROCESS: LazyLock<[u8; 5]> = LazyLock::new(rand::random);
static COUNTER: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(rand::random()));

pub(crate) fn new_object_id() -> ObjectId {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut id = [0; 12];
    id[..4].copy_from_slice(&seconds.to_be_bytes());
    id[4..9].copy_from_slice(&*PROCESS);
    id[9..].copy_from_slice(&count[1..]);
    ObjectId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_share_their_process() {
        let (a, b) = (new_object_id(), new_object_id());
        assert_ne!(a, b);
        assert_eq!(a.0[4..9], b.0[4..9]);
    }
}
