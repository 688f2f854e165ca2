//! Timeouts of the state machine.

/// Milliseconds of a member's own steady clock. Clocks of members are never compared.
pub type Millis = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// A follower without a word of its primary for this time takes over.
    pub election_ms: Millis,
    /// Additional time for each member that is before it in the in-sync set, so that they do not all try at once.
    pub stagger_ms: Millis,
    /// A member of the in-sync set that has not caught up for this time leaves it.
    pub in_sync_ms: Millis,
    /// Longest time that the primary lets a fetch wait.
    pub beacon_ms: Millis,
    /// A fetch without a reply is repeated, and so is a failed read of the agreement. Longer than `beacon_ms`: each repeated fetch
    /// begins to wait, so that a primary without news would never reply.
    pub retry_ms: Millis,
    /// A follower that fetches promises not to take over for this time.
    pub promise_ms: Millis,
    /// The primary relies on a promise for this time: less than `promise_ms`, for clocks of different speed.
    pub trust_ms: Millis,
    /// A primary that hands over waits this long for its successor to catch up.
    pub hand_over_ms: Millis,
    /// Largest number of records in a reply.
    pub records_max: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        DEFAULT
    }
}

const _: () = {
    let Timing { beacon_ms, retry_ms, trust_ms, promise_ms, in_sync_ms, .. } = DEFAULT;
    assert!(beacon_ms < in_sync_ms && beacon_ms < retry_ms && trust_ms < promise_ms);
};

const DEFAULT: Timing = Timing {
    election_ms: 2_000,
    stagger_ms: 150,
    in_sync_ms: 1_000,
    beacon_ms: 250,
    retry_ms: 500,
    promise_ms: 2_000,
    trust_ms: 1_500,
    hand_over_ms: 10_000,
    records_max: 1_000,
};
