//! Which states snapshots hold.

use std::collections::BTreeMap;

/// Counts the snapshots of each state, by a number that rises from state to state.
#[derive(Debug, Default)]
pub struct StateHolds(BTreeMap<u64, usize>);

impl StateHolds {
    pub fn hold(&mut self, state: u64) {
        *self.0.entry(state).or_default() += 1;
    }

    /// Undoes one [`StateHolds::hold`]. Returns true if no snapshot holds the state any more.
    pub fn release(&mut self, state: u64) -> bool {
        let Some(count) = self.0.get_mut(&state) else {
            unreachable!("state {state} is released more often than held")
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.0.remove(&state);
        }
        is_last
    }

    pub fn oldest(&self) -> Option<u64> {
        self.0.first_key_value().map(|(oldest, _)| *oldest)
    }

    /// Returns the number of snapshots.
    pub fn count(&self) -> u64 {
        self.0.values().map(|count| *count as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_held_until_its_last_snapshot_is_released() {
        let mut held = StateHolds::default();
        assert_eq!((held.oldest(), held.count()), (None, 0));
        [5, 3, 3].into_iter().for_each(|state| held.hold(state));
        assert_eq!((held.oldest(), held.count()), (Some(3), 3));
        assert_eq!((held.release(3), held.oldest()), (false, Some(3)));
        assert_eq!((held.release(3), held.oldest()), (true, Some(5)));
        assert_eq!((held.release(5), held.oldest(), held.count()), (true, None, 0));
    }

    #[test]
    #[should_panic(expected = "state 4 is released more often than held")]
    fn a_state_is_not_released_more_often_than_held() {
        StateHolds::default().release(4);
    }
}
