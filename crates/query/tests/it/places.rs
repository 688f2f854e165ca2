//! Whatever index finds them, the documents at a place are those that the test accepts one by one, and those near a point
//! come in the order of their distances. Random points, lines and polygons, as GeoJSON and as pairs; a failure prints its
//! seed and what was asked. `ARBOR_SEEDS=100` runs more seeds.

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::geo::Near;
use arbor_notation::{doc, show};
use arbor_query::{FindSpec, Hint, Interrupt};
use arbor_store::Namespace;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{Rig, at, ids, rig};

const SPHERES: &[(&str, &str)] = &[
    ("s", "{loc: '2dsphere'}"),
    ("sa", "{loc: '2dsphere', a: 1}"),
    ("as", "{a: -1, loc: '2dsphere'}"),
    ("so", "{loc: '2dsphere', other: '2dsphere'}"),
];
const PLANES: &[(&str, &str)] = &[("p", "{pair: '2d'}"), ("pa", "{pair: '2d', a: 1}")];

struct Random(StdRng);

fn wrapped(lng: f64) -> f64 {
    if lng > 180.0 {
        lng - 360.0
    } else if lng < -180.0 {
        lng + 360.0
    } else {
        lng
    }
}

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// Near 0, the antimeridian, a pole, or a corner of a face of the cube.
    fn center(&mut self) -> (f64, f64) {
        [(0.0, 0.0), (179.5, 10.0), (30.0, 88.0), (45.0, 35.26)][self.below(4)]
    }

    fn spot(&mut self, center: (f64, f64), size: f64) -> (f64, f64) {
        let mut part = || self.0.random_range(-1.0..1.0f64) * size;
        let (lng, lat) = (center.0 + part().round(), center.1 + part());
        let lng = wrapped(lng);
        // over a pole and down again
        (lng, if lat.abs() > 90.0 { lat.signum() * 180.0 - lat } else { lat })
    }

    fn pair(&mut self, center: (f64, f64), size: f64) -> String {
        let (lng, lat) = self.spot(center, size);
        format!("[{lng:?}, {lat:?}]")
    }

    /// Around a point, in order.
    fn ring(&mut self, center: (f64, f64), size: f64) -> String {
        let count = 3 + self.below(40);
        let size = size * self.0.random_range(0.05..1.0f64);
        let leap = |random: &mut StdRng| size * random.random_range(0.8..1.0f64);
        let spot = |at: usize, random: &mut StdRng| {
            let (turn, far) = (at as f64 / count as f64 * std::f64::consts::TAU, leap(random));
            let lng = center.0 + far * turn.cos();
            let lng = wrapped(lng);
            format!("[{lng:?}, {:?}]", (center.1 + far * turn.sin()).clamp(-89.9, 89.9))
        };
        let mut spots: Vec<String> = (0..count).map(|at| spot(at, &mut self.0)).collect();
        spots.push(spots[0].clone());
        format!("[{}]", spots.join(", "))
    }

    fn shape(&mut self) -> String {
        let center = self.center();
        match self.below(8) {
            0 => {
                format!("{{type: 'LineString', coordinates: [{}, {}]}}", self.pair(center, 9.0), self.pair(center, 9.0))
            }
            1 => {
                let (lng, lat) = self.spot(center, 8.0);
                format!("{{type: 'Polygon', coordinates: [{}]}}", self.ring((lng, lat.clamp(-80.0, 80.0)), 6.0))
            }
            2 => format!("[{}, {}]", self.pair(center, 10.0), self.pair((0.0, 0.0), 100.0)),
            3 => self.pair(center, 10.0),
            4 => "null".to_owned(),
            _ => format!("{{type: 'Point', coordinates: {}}}", self.pair(center, 10.0)),
        }
    }

    fn document(&mut self, id: usize) -> DocBuf {
        let a = ["1", "2", "[1, 3]", "null"][self.below(4)];
        let other = if self.below(3) == 0 { self.shape() } else { "null".to_owned() };
        let center = self.center();
        let pair = match self.below(5) {
            0 => format!("[{}, {}]", self.pair(center, 10.0), self.pair(center, 20.0)),
            1 => "null".to_owned(),
            _ => self.pair(center, 10.0),
        };
        doc(&format!("{{_id: {id}, a: {a}, loc: {}, other: {other}, pair: {pair}}}", self.shape()))
    }

    fn on_sphere(&mut self) -> String {
        let center = self.center();
        match self.below(6) {
            0 => {
                format!("{{$geoIntersects: {{$geometry: {{type: 'Point', coordinates: {}}}}}}}", self.pair(center, 5.0))
            }
            1 => format!(
                "{{$geoIntersects: {{$geometry: {{type: 'LineString', coordinates: [{}, {}]}}}}}}",
                self.pair(center, 9.0),
                self.pair(center, 9.0)
            ),
            2 => format!(
                "{{$geoWithin: {{$centerSphere: [{}, {:?}]}}}}",
                self.pair(center, 9.0),
                self.0.random_range(0.0..0.3f64)
            ),
            kind => {
                let operator = if kind == 3 { "$geoIntersects" } else { "$geoWithin" };
                let (lng, lat) = self.spot(center, 4.0);
                let ring = self.ring((lng, lat.clamp(-75.0, 75.0)), 12.0);
                format!("{{{operator}: {{$geometry: {{type: 'Polygon', coordinates: [{ring}]}}}}}}")
            }
        }
    }

    fn on_plane(&mut self) -> String {
        let center = self.center();
        let far = self.0.random_range(0.0..20.0f64);
        match self.below(4) {
            0 => format!("{{$geoWithin: {{$box: [{}, {}]}}}}", self.pair(center, 15.0), self.pair(center, 15.0)),
            1 => format!("{{$within: {{$center: [{}, {far:?}]}}}}", self.pair(center, 9.0)),
            2 => format!("{{$geoWithin: {{$polygon: {}}}}}", self.ring(center, 12.0)),
            _ => format!("{{$geoWithin: {{$centerSphere: [{}, {:?}]}}}}", self.pair(center, 9.0), far / 60.0),
        }
    }

    fn near(&mut self, field: &str) -> String {
        let center = self.center();
        let at = self.pair(center, 12.0);
        let limit = |random: &mut Random, unit: f64| match random.below(3) {
            0 => String::new(),
            1 => format!(", $maxDistance: {:?}", unit * random.0.random_range(0.01..0.3f64)),
            _ => format!(", $minDistance: {:?}, $maxDistance: {unit:?}", unit * 0.1),
        };
        match (field, self.below(3)) {
            ("pair", 0 | 1) => format!("{{$near: {at}{}}}", limit(self, 60.0)),
            ("pair", _) => format!("{{$nearSphere: {at}{}}}", limit(self, 1.0)),
            (_, 0) => format!("{{$nearSphere: {at}{}}}", limit(self, 1.0)),
            _ => format!("{{$near: {{$geometry: {{type: 'Point', coordinates: {at}}}{}}}}}", limit(self, 6e6)),
        }
    }
}

fn filled(random: &mut Random) -> Rig {
    let rig = rig();
    let index = |(name, key): &(&str, &str)| doc(&format!("{{name: '{name}', key: {key}}}"));
    let (before, after) = SPHERES.split_at(2);
    let specs: Vec<DocBuf> = before.iter().chain(PLANES).map(index).collect();
    rig.database.store.create_indexes(&rig.ns, &specs).unwrap();
    let docs: Vec<DocBuf> = (0..150).map(|id| random.document(id)).collect();
    rig.fill(&docs);
    // and over documents that are there
    rig.database.store.create_indexes(&rig.ns, &after.iter().map(index).collect::<Vec<_>>()).unwrap();
    rig.check_valid();
    rig
}

fn check(rig: &Rig, field: &str, test: &str, indexes: &[(&str, &str)], seed: u64) -> usize {
    let natural = doc("{$natural: 1}");
    let mut hits = 0;
    for more in ["", ", a: 1", ", a: {$gt: 1}"] {
        let text = format!("{{{field}: {test}{more}}}");
        let filter = doc(&text);
        let find = |hint: Option<Hint<'_>>| {
            let mut found = ids(&rig.run(&FindSpec { hint, ..rig.find_spec(&filter) }));
            found.sort();
            found
        };
        let expected = find(Some(Hint::Pattern(natural.as_doc())));
        assert_eq!(find(None), expected, "seed {seed}: {text}");
        for (name, _) in indexes {
            let usable = rig.run(&FindSpec { hint: Some(Hint::Name(name)), ..rig.find_spec(&filter) });
            assert!(
                usable.len() == expected.len(),
                "seed {seed}, index {name}: {text}\n{expected:?}\n{:?}",
                ids(&usable)
            );
        }
        hits += expected.len();
    }
    hits
}

fn check_near(rig: &Rig, field: &str, operators: &str, seed: u64) -> usize {
    let all = rig.find(&DocBuf::new());
    let parsed = doc(operators);
    let near = Near::parse(field, parsed.as_doc().first().unwrap().0, parsed.as_doc()).unwrap();
    let mut found = 0;
    for more in ["", ", a: 1"] {
        let text = format!("{{{field}: {operators}{more}}}");
        let filter = doc(&text);
        let rest = doc(&format!("{{{}}}", more.trim_start_matches(", ")));
        let accepted = rig.ids(&rest);
        let mut expected: Vec<f64> = all
            .iter()
            .filter(|doc| accepted.contains(&ids(std::slice::from_ref(*doc))[0]))
            .filter_map(|doc| near.find(doc.as_doc()).map(|found| found.distance))
            .collect();
        expected.sort_by(f64::total_cmp);
        let distances = |docs: &[DocBuf]| -> Vec<f64> {
            docs.iter().map(|doc| near.find(doc.as_doc()).unwrap().distance).collect()
        };
        assert_eq!(distances(&rig.find(&filter)), expected, "seed {seed}: {text}");
        let batches = rig.run_in_batches(&rig.find_spec(&filter), 7);
        assert_eq!(distances(&batches), expected, "seed {seed}: {text}");
        let first = rig.run(&FindSpec { limit: Some(5), skip: 2, ..rig.find_spec(&filter) });
        assert_eq!(
            distances(&first),
            expected.iter().skip(2).take(5).copied().collect::<Vec<_>>(),
            "seed {seed}: {text}"
        );
        found += expected.len();
    }
    found
}

#[test]
fn indexes_find_what_tests_accept() {
    let seeds = std::env::var("ARBOR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    let mut hits = [0; 4];
    for seed in 0..seeds {
        let mut random = Random(StdRng::seed_from_u64(seed));
        let rig = filled(&mut random);
        for _ in 0..12 {
            let (sphere, plane) = (random.on_sphere(), random.on_plane());
            hits[0] += check(&rig, "loc", &sphere, SPHERES, seed);
            hits[1] += check(&rig, "pair", &plane, PLANES, seed);
            let (near, flat) = (random.near("loc"), random.near("pair"));
            hits[2] += check_near(&rig, "loc", &near, seed);
            hits[3] += check_near(&rig, "pair", &flat, seed);
        }
    }
    assert!(hits.iter().all(|hits| *hits > 30), "{hits:?}");
}

fn grid_of_points() -> Rig {
    let rig = rig();
    rig.database.store.create_indexes(&rig.ns, &[doc("{name: 's', key: {loc: '2dsphere'}}")]).unwrap();
    let docs: Vec<DocBuf> = (0..2500)
        .map(|id| doc(&format!("{{_id: {id}, a: {}, loc: [{}.5, {}.5]}}", id % 10, id % 50, id / 50)))
        .collect();
    docs.chunks(500).for_each(|docs| rig.fill(docs));
    rig
}

#[test]
fn a_limit_reads_little_and_plans_say_how() {
    let rig = grid_of_points();
    let near = doc("{loc: {$near: {$geometry: {type: 'Point', coordinates: [25, 25]}}}}");
    let plan = rig.explain(FindSpec { limit: Some(4), ..rig.find_spec(&near) });
    assert_eq!(show(at(&plan, "queryPlanner.winningPlan.inputStage.stage")), "\"GEO_NEAR_2DSPHERE\"");
    assert_eq!(show(at(&plan, "queryPlanner.winningPlan.inputStage.inputStages.0.stage")), "\"IXSCAN\"");
    let ValueRef::Int32(examined) = at(&plan, "executionStats.totalDocsExamined") else { panic!("{plan:?}") };
    assert!(examined < 600, "{examined}");
    assert_eq!(rig.run(&FindSpec { limit: Some(4), ..rig.find_spec(&near) }).len(), 4);
    let within = doc("{loc: {$geoWithin: {$centerSphere: [[25, 25], 0.03]}}}");
    let plan = rig.explain(rig.find_spec(&within));
    assert_eq!(show(at(&plan, "queryPlanner.winningPlan.inputStage.stage")), "\"IXSCAN\"");
    let ValueRef::Int32(examined) = at(&plan, "executionStats.totalDocsExamined") else { panic!("{plan:?}") };
    assert!((4..100).contains(&examined), "{examined}");
    // an explicit sort gives that order
    let sort = doc("{_id: -1}");
    let sorted = rig.run(&FindSpec { sort: Some(sort.as_doc()), limit: Some(3), ..rig.find_spec(&near) });
    assert_eq!(ids(&sorted), ["2499", "2498", "2497"]);
    // nothing is left out far away
    assert_eq!(rig.find(&near).len(), 2500);
}

#[test]
fn geo_near_writes_distances() {
    let rig = grid_of_points();
    let stage = "{$geoNear: {near: {type: 'Point', coordinates: [0.5, 0.5]}, distanceField: 'd', includeLocs: 'at', query: {a: 0}, distanceMultiplier: 0.001}}";
    let found = rig.aggregate(&[doc(stage), doc("{$limit: 2}"), doc("{$project: {d: {$round: ['$d', 1]}, at: 1}}")]);
    assert_eq!(found, ["{ _id: 0, at: [ 0.5, 0.5 ], d: 0.0 }", "{ _id: 50, at: [ 0.5, 1.5 ], d: 111.3 }"]);
    let found =
        rig.aggregate(&[doc(stage), doc("{$match: {d: {$lt: 200}}}"), doc("{$sort: {d: -1}}"), doc("{$count: 'n'}")]);
    assert_eq!(found, ["{ n: 2 }"]);
    for (stages, code) in [
        (vec![doc("{$match: {}}"), doc(stage)], 40602),
        (vec![doc("{$geoNear: {near: [0, 0], distanceField: 'd', key: 'x', spherical: true}}")], 291),
        (vec![doc("{$match: {loc: {$near: [0, 0]}}}")], 5_626_500),
        (vec![doc("{$facet: {a: [{$geoNear: {near: [0, 0], distanceField: 'd'}}]}}")], 40600),
    ] {
        let error = rig.try_aggregate(&stages).expect_err("refused");
        let arbor_query::Error::Lang(error) = error else { panic!("{error}") };
        assert_eq!(error.code.0, code, "{error}");
    }
    rig.database.store.create_indexes(&rig.ns, &[doc("{name: 't', key: {loc: '2dsphere', a: 1}}")]).unwrap();
    let error = rig.try_aggregate(&[doc(stage)]).expect_err("two indexes");
    assert!(
        error.to_string().contains("There is more than one 2dsphere index on db.c; unsure which to use"),
        "{error}"
    );
}

#[test]
fn near_needs_an_index_and_a_place_of_its_own() {
    let rig = rig();
    rig.fill(&[doc("{_id: 1, loc: [0, 0]}")]);
    let run = |filter: &str| {
        let filter = doc(filter);
        let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(Namespace::parse("db.c").unwrap()) };
        match arbor_query::find(&rig.scope(), &spec, &Interrupt::never()) {
            Err(arbor_query::Error::Lang(error)) => error.code.0,
            Err(other) => panic!("{other}"),
            Ok(_) => 0,
        }
    };
    assert_eq!(run("{loc: {$near: [0, 0]}}"), 291);
    rig.database.store.create_indexes(&rig.ns, &[doc("{name: 's', key: {loc: '2dsphere'}}")]).unwrap();
    assert_eq!(run("{loc: {$near: [0, 0]}}"), 291);
    assert_eq!(run("{loc: {$nearSphere: [0, 0]}}"), 0);
    assert_eq!(run("{$or: [{loc: {$nearSphere: [0, 0]}}, {a: 1}]}"), 2);
    assert_eq!(run("{loc: {$not: {$nearSphere: [0, 0]}}}"), 2);
    assert_eq!(run("{loc: {$nearSphere: [0, 0]}, other: {$nearSphere: [0, 0]}}"), 2);
    assert_eq!(run("{$and: [{loc: {$nearSphere: [0, 0]}}, {a: 1}]}"), 0);
    assert_eq!(rig.count(&doc("{loc: {$nearSphere: [0, 0]}}")), 1);
}
