//! From a rank to an id and back in constant time (spec/workloads.md 7.5): a rotation inside each class of residues.

use super::java_random::JavaRandom;

const GROUPS_MAX: u64 = 1024;

/// A permutation of `0..n`.
#[derive(Clone, Debug)]
pub(super) struct Shuffler {
    n: u64,
    groups: u64,
    offsets: Vec<u64>,
}

impl Shuffler {
    /// Requires n above 0 and below 2^31, as the original.
    pub(super) fn new(seed: i64, n: u64) -> Shuffler {
        let groups = GROUPS_MAX.min(n);
        let mut random = JavaRandom::new(seed);
        let size = (n / groups) as i32;
        Shuffler { n, groups, offsets: (0..groups).map(|_| random.below(size) as u64).collect() }
    }

    pub(super) fn forward(&self, i: u64) -> u64 {
        self.rotated(i, |offset, _| offset)
    }

    pub(super) fn inverse(&self, i: u64) -> u64 {
        self.rotated(i, |offset, size| size - offset)
    }

    /// Turns `i` inside its group by what `by` makes of the group's offset and size.
    fn rotated(&self, i: u64, by: impl Fn(u64, u64) -> u64) -> u64 {
        let group = i % self.groups;
        let small = self.n / self.groups;
        // The first groups hold what is left over.
        let size = if group < self.n % self.groups { small + 1 } else { small };
        let offset = self.offsets.get(group as usize).copied().unwrap_or(0);
        let turned = i + self.groups * by(offset, size);
        if turned < self.n { turned } else { turned % (self.groups * size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets are those of `java.util.Random.nextInt(9765)` on OpenJDK 17. Section 10 of the specification has them
    /// less 2^31 (modulo 9765) wherever the 31 bits drawn have their highest set: a sign slipped in there.
    #[test]
    fn images_are_those_of_java() {
        let ranks = [0, 1, 2, 1000, 9_999_999];
        for (seed, offsets, images) in [
            (20343988438726021, [347, 5629, 1728, 6331, 8819], [355328, 5764097, 1769474, 3268584, 3297919]),
            (53238253823453, [5777, 7391, 3650, 7109, 7444], [5915648, 7568385, 3737602, 4527080, 3851903]),
            (4766565305853767165, [6047, 7075, 2965, 3711, 6513], [6192128, 7244801, 3036162, 287720, 3749503]),
        ] {
            let shuffler = Shuffler::new(seed, 10_000_000);
            assert_eq!(shuffler.offsets[..5], offsets);
            assert_eq!(ranks.map(|rank| shuffler.forward(rank)), images);
            assert_eq!(images.map(|image| shuffler.inverse(image)), ranks);
        }
    }

    #[test]
    fn it_is_a_permutation_of_any_size() {
        for n in [1, 2, 1000, 1023, 1024, 1025, 2048, 5000, 12345] {
            let shuffler = Shuffler::new(53238253823453, n);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let image = shuffler.forward(i);
                assert!(!std::mem::replace(&mut seen[image as usize], true), "{n}: {image} twice");
                assert_eq!(shuffler.inverse(image), i, "{n}");
            }
        }
    }
}
