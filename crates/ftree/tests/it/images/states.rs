//! Every state that the forest was in, so that a recovered one can be found among them.

use arbor_base::{Position, TreeId};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Engine, Result};
use arbor_engine_contract::rows_of;
use parking_lot::Mutex;

const TREES: u64 = 6;

pub(crate) type Row = (Vec<u8>, Vec<u8>);
/// `None`: there is no such tree.
type Rows = Option<Vec<Row>>;

/// The states after each batch and bulk load, oldest first.
pub(crate) struct States {
    list: Mutex<Vec<ModelEngine>>,
}

impl States {
    pub(crate) fn new(model: &ModelEngine) -> States {
        States { list: Mutex::new(vec![model.reopen()]) }
    }

    /// The state after one more change.
    pub(crate) fn push(&self, change: impl FnOnce(&ModelEngine) -> Result<()>) {
        let mut list = self.list.lock();
        let next = list.last().expect("there is the first state").reopen();
        change(&next).expect("the model does what the forest did");
        list.push(next);
    }

    pub(crate) fn newest(&self) -> usize {
        self.list.lock().len() - 1
    }

    pub(crate) fn model(&self, number: usize) -> ModelEngine {
        self.list.lock()[number].reopen()
    }

    pub(crate) fn go_back_to(&self, number: usize) {
        self.list.lock().truncate(number + 1);
    }

    /// Which state from `floor` on an engine is in.
    pub(crate) fn find(&self, floor: usize, engine: &dyn Engine) -> usize {
        let list = self.list.lock();
        let (applied, found) = (engine.applied(), dump(engine));
        let same = |(_, state): &(usize, &ModelEngine)| state.applied() == applied && dump(*state) == found;
        match list.iter().enumerate().skip(floor).rev().find(same) {
            Some((number, _)) => number,
            None => panic!(
                "a state at {applied} that never was; the last checkpoint was at {}, the newest batch is {}\n{}",
                list[floor].applied(),
                list.last().map_or(Position::ZERO, |state| state.applied()),
                difference(&list[floor..], applied, &found),
            ),
        }
    }
}

fn dump(engine: &dyn Engine) -> Vec<Rows> {
    let snapshot = engine.snapshot().expect("a snapshot");
    assert_eq!(snapshot.position(), engine.applied());
    (0..TREES).map(|tree| rows_of(&*snapshot, TreeId(tree))).collect()
}

fn difference(states: &[ModelEngine], applied: Position, found: &[Rows]) -> String {
    let at_position = states.iter().filter(|state| state.applied() == applied);
    let describe = |state: &ModelEngine| {
        let expected = dump(state);
        let differs = |(tree, (left, right)): (usize, (&Rows, &Rows))| {
            let rows = |rows: &Rows| rows.as_ref().map(Vec::len);
            let missing = |of: &Rows, from: &Rows| {
                let from = from.as_ref()?;
                let row = of.as_ref()?.iter().find(|row| !from.contains(row))?;
                Some(format!("{} ({} bytes)", row.0.escape_ascii(), row.1.len()))
            };
            (left != right).then(|| {
                format!(
                    "tree {tree}: {:?} rows instead of {:?}; misses {:?}, has {:?} too much",
                    rows(right),
                    rows(left),
                    missing(left, right),
                    missing(right, left)
                )
            })
        };
        expected.iter().zip(found).enumerate().filter_map(differs).collect::<Vec<_>>().join("\n")
    };
    at_position.map(describe).collect::<Vec<_>>().join("\nor ")
}
