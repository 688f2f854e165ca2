//! Defects that a test builds in on purpose: the tests must find each of them.

/// One defect of the state machine. Takes effect only in builds with debug assertions, which a release is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// R3: a majority of the set is enough.
    Majority,
    /// R3: the set's minimum is ignored.
    BelowMinimum,
    /// R2: a member outside of the in-sync set takes over.
    Outsider,
    /// R4: the newcomer is not waited for while the set grows.
    NewcomerIgnored,
    /// R4: the removed member is no longer waited for from the request on.
    ShrunkEarly,
    /// R4: the set grows by a member that has not caught up.
    GrownEarly,
    /// R4: an unknown outcome is taken for "not done".
    UnknownIsStale,
    /// R4: the expected version, read again, is taken for "not done".
    UnchangedIsStale,
    /// R1: a stale replacement is taken for done.
    StaleIsDone,
    /// R1: a member leads its epoch again after a restart.
    LeadsTwice,
    /// R5: appends of lower epochs are accepted.
    NoFence,
    /// R6: a follower's durable position counts before its log is found to match.
    UnmatchedCounts,
    /// R6: a late notice of divergence is obeyed.
    LateCut,
    /// R6: what another follower sent counts as the primary's.
    RelayedCounts,
    /// R7: records are applied as they are appended.
    AppliedEarly,
    /// R7: cuts a little more than it has to.
    CutTooFar,
    /// R3: a follower acknowledges what is not on its disk.
    AckBeforeSync,
    /// R3: the primary counts what is not on its own disk.
    OwnBeforeSync,
    /// R8: no empty record at the beginning of an epoch; it serves at once.
    NoEmptyRecord,
    /// R9: the identity of the data is ignored.
    StoreIgnored,
    /// R10: records that refer to a load are acknowledged without it.
    LoadMissing,
    /// Takes over in spite of its promise.
    PromiseBroken,
    /// Makes no pause for a promise that it may have given before a restart.
    PromiseForgotten,
}

impl Mutant {
    pub const ALL: [Mutant; 23] = [
        Mutant::Majority,
        Mutant::BelowMinimum,
        Mutant::Outsider,
        Mutant::NewcomerIgnored,
        Mutant::ShrunkEarly,
        Mutant::GrownEarly,
        Mutant::UnknownIsStale,
        Mutant::UnchangedIsStale,
        Mutant::StaleIsDone,
        Mutant::LeadsTwice,
        Mutant::NoFence,
        Mutant::UnmatchedCounts,
        Mutant::LateCut,
        Mutant::RelayedCounts,
        Mutant::AppliedEarly,
        Mutant::CutTooFar,
        Mutant::AckBeforeSync,
        Mutant::OwnBeforeSync,
        Mutant::NoEmptyRecord,
        Mutant::StoreIgnored,
        Mutant::LoadMissing,
        Mutant::PromiseBroken,
        Mutant::PromiseForgotten,
    ];
}
