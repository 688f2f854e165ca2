//! Geometry against known results and against slower algorithms.

use arbor_bson::ValueRef;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::arc::{angle, point_at};
use super::cover::Relation;
use super::relate::{intersects, is_within};
use super::ring::{Place as At, Ring, Winding};
use super::*;
use crate::notation::{doc, value};

fn geometry(text: &str) -> Geometry {
    geojson::parse_query(doc(text).as_doc()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn polygon(rings: &str) -> Geometry {
    geometry(&format!("{{type: 'Polygon', coordinates: {rings}}}"))
}

fn point(lng: f64, lat: f64) -> Geometry {
    Geometry::Point(geometry::Place::new(lng, lat))
}

#[test]
fn distances_between_cities() {
    // great-circle distances on a sphere of 6378.1 km
    for (a, b, km) in [
        ((2.3522, 48.8566), (-0.1276, 51.5072), 344.0),
        ((-74.006, 40.7128), (-0.1276, 51.5072), 5_576.5),
        ((139.6917, 35.6895), (-122.4194, 37.7749), 8_280.0),
        ((151.2093, -33.8688), (-70.6693, -33.4489), 11_360.0),
        ((0.0, 90.0), (77.0, -90.0), 20_037.4),
    ] {
        let found = angle(point_at(a.0, a.1), point_at(b.0, b.1)) * EARTH_RADIUS_METRES / 1000.0;
        assert!((found - km).abs() < km * 0.003, "{a:?} {b:?}: {found}");
    }
    let metre = angle(point_at(10.0, 50.0), point_at(10.0, 50.0 + 1e-5)) * EARTH_RADIUS_METRES;
    assert!((metre - 1.1132).abs() < 1e-3, "{metre}");
}

#[test]
fn polygons_hold_points() {
    let square = "[[[0,0],[10,0],[10,10],[0,10],[0,0]]]";
    let clockwise = "[[[0,0],[0,10],[10,10],[10,0],[0,0]]]";
    let hole = "[[[0,0],[10,0],[10,10],[0,10],[0,0]],[[3,3],[3,6],[6,6],[6,3],[3,3]]]";
    let antimeridian = "[[[170,-10],[-170,-10],[-170,10],[170,10],[170,-10]]]";
    let pole = "[[[0,80],[90,80],[180,80],[-90,80],[0,80]]]";
    let south = "[[[0,-80],[120,-80],[-120,-80],[0,-80]]]";
    let half = "[[[0,0],[120,0],[-120,0],[0,0]]]";
    for (rings, lng, lat, inside) in [
        (square, 5.0, 5.0, true),
        (square, 0.0, 0.0, true),
        (square, 0.0, 5.0, true),
        (square, 10.0, 5.0, true),
        (square, 5.0, 0.0, true),
        (square, -0.001, 5.0, false),
        (square, 5.0, 10.03, true),
        (square, 5.0, 10.05, false),
        (square, 5.0, -5.0, false),
        (square, -175.0, -5.0, false),
        (clockwise, 5.0, 5.0, true),
        (clockwise, 15.0, 5.0, false),
        (hole, 1.0, 1.0, true),
        (hole, 5.0, 5.0, false),
        (hole, 3.0, 4.0, true),
        (hole, 3.0, 3.0, true),
        (antimeridian, 180.0, 0.0, true),
        (antimeridian, -180.0, 0.0, true),
        (antimeridian, 175.0, 5.0, true),
        (antimeridian, -175.0, 5.0, true),
        (antimeridian, 0.0, 0.0, false),
        (antimeridian, 165.0, 0.0, false),
        (pole, 12.0, 90.0, true),
        (pole, -45.0, 85.0, true),
        (pole, -45.0, 81.0, false),
        (pole, 30.0, 70.0, false),
        (pole, 30.0, -90.0, false),
        (south, 30.0, -89.0, true),
        (half, 60.0, 0.0, true),
    ] {
        let found = is_within(&point(lng, lat), &polygon(rings));
        assert_eq!(found, inside, "{rings} {lng} {lat}");
        assert_eq!(intersects(&point(lng, lat), &polygon(rings)), inside, "{rings} {lng} {lat}");
    }
}

#[test]
fn big_polygons_hold_what_is_on_their_left() {
    let crs = "crs: {type: 'name', properties: {name: 'urn:x-mongodb:crs:strictwinding:EPSG:4326'}}";
    let ring = |ring: &str| geometry(&format!("{{type: 'Polygon', coordinates: [{ring}], {crs}}}"));
    let small = ring("[[0,0],[10,0],[10,10],[0,10],[0,0]]");
    let big = ring("[[0,0],[0,10],[10,10],[10,0],[0,0]]");
    assert!(is_within(&point(5.0, 5.0), &small) && !is_within(&point(50.0, 5.0), &small));
    assert!(
        !is_within(&point(5.0, 5.0), &big)
            && is_within(&point(50.0, 5.0), &big)
            && is_within(&point(-100.0, -80.0), &big)
    );
    let around = polygon("[[[-5,-5],[15,-5],[15,15],[-5,15],[-5,-5]]]");
    assert!(!is_within(&around, &big) && intersects(&around, &big));
    assert!(is_within(&polygon("[[[20,20],[25,20],[25,25],[20,20]]]"), &big));
}

#[test]
fn lines_and_polygons_within_polygons() {
    let ushape = polygon("[[[0,0],[30,0],[30,30],[20,30],[20,10],[10,10],[10,30],[0,30],[0,0]]]");
    let hole = polygon("[[[0,0],[30,0],[30,30],[0,30],[0,0]],[[10,10],[20,10],[20,20],[10,20],[10,10]]]");
    let line = |list: &str| geometry(&format!("{{type: 'LineString', coordinates: {list}}}"));
    for (value, region, within, overlap) in [
        (line("[[1,1],[5,25]]"), &ushape, true, true),
        (line("[[5,25],[25,25]]"), &ushape, false, true),
        (line("[[10,30],[20,30]]"), &ushape, false, true),
        (line("[[0,0],[30,0]]"), &ushape, true, true),
        (line("[[-1,1],[5,25]]"), &ushape, false, true),
        (line("[[12,20],[18,20]]"), &ushape, false, false),
        (line("[[1,1],[29,29]]"), &hole, false, true),
        (line("[[11,11],[19,19]]"), &hole, false, false),
        (polygon("[[[1,1],[9,1],[9,9],[1,9],[1,1]]]"), &ushape, true, true),
        (polygon("[[[1,1],[29,1],[29,29],[1,29],[1,1]]]"), &ushape, false, true),
        (polygon("[[[1,1],[29,1],[29,29],[1,29],[1,1]]]"), &hole, false, true),
        (polygon("[[[11,11],[19,11],[19,19],[11,19],[11,11]]]"), &hole, false, false),
        (polygon("[[[40,40],[50,40],[50,50],[40,40]]]"), &hole, false, false),
        (polygon("[[[-10,-10],[50,-10],[50,50],[-10,50],[-10,-10]]]"), &ushape, false, true),
        (polygon("[[[30,0],[40,0],[40,10],[30,10],[30,0]]]"), &ushape, false, true),
        (geometry("{type: 'MultiPoint', coordinates: [[1,1],[25,25]]}"), &ushape, true, true),
        (geometry("{type: 'MultiPoint', coordinates: [[1,1],[15,25]]}"), &ushape, false, true),
    ] {
        assert_eq!(is_within(&value, region), within, "{value:?}");
        assert_eq!(intersects(&value, region), overlap, "{value:?}");
        assert_eq!(intersects(region, &value), overlap, "{value:?}");
    }
    for region in [&ushape, &hole] {
        assert!(is_within(region, region) && intersects(region, region));
    }
}

#[test]
fn bad_geometries_say_why() {
    for (text, reason) in [
        ("{type: 'Point', coordinates: [200, 0]}", "longitude/latitude is out of bounds, lng: 200 lat: 0"),
        ("{type: 'Point', coordinates: [0, -90.5]}", "longitude/latitude is out of bounds, lng: 0 lat: -90.5"),
        ("{type: 'Point', coordinates: [NaN, 0]}", "finite"),
        ("{type: 'Point', coordinates: [Infinity, 0]}", "finite"),
        ("{type: 'Point', coordinates: ['a', 0]}", "Point must only contain numeric elements"),
        ("{type: 'Point', coordinates: [1]}", "at least two"),
        ("{type: 'Point'}", "Point must be an array or object, instead got type null"),
        ("{type: 'Line', coordinates: []}", "unknown GeoJSON type: { type: \"Line\", coordinates: [] }"),
        ("{type: 'LineString', coordinates: [[1, 1], [1, 1]]}", "at least 2 vertices"),
        ("{type: 'LineString', coordinates: [[0, 0], [180, 0]]}", "antipodal"),
        ("{type: 'Polygon', coordinates: []}", "Polygon has no loops"),
        ("{type: 'Polygon', coordinates: [[[0,0],[1,0],[1,1]]]}", "Loop is not closed"),
        ("{type: 'Polygon', coordinates: [[[0,0],[1,0],[0,0]]]}", "at least 3 different vertices"),
        (
            "{type: 'Polygon', coordinates: [[[0,0],[1,1],[1,0],[0,1],[0,0]]]}",
            "Edges 0 and 2 cross. Edge locations in degrees: [0, 0]-[1, 1] and [0, 1]-[1, 0]",
        ),
        (
            "{type: 'Polygon', coordinates: [[[0,0],[2,0],[1,1],[2,2],[0,2],[1,1],[0,0]]]}",
            "Duplicate vertices: 2 and 5",
        ),
        (
            "{type: 'Polygon', coordinates: [[[0,0],[1,0],[1,1],[0,0]],[[5,5],[6,5],[6,6],[5,5]]]}",
            "Secondary loops not contained",
        ),
        ("{type: 'MultiPoint', coordinates: []}", "at least 1 element"),
        ("{type: 'GeometryCollection', geometries: [{type: 'GeometryCollection', geometries: []}]}", "nested"),
        ("{type: 'Point', coordinates: [0, 0], crs: {type: 'name', properties: {name: 'x'}}}", "Unknown CRS name: x"),
    ] {
        let error = geojson::parse(doc(text).as_doc()).expect_err(text);
        assert!(error.message.contains(reason), "{text}: {error}");
        assert_eq!(error.code, crate::Code::BAD_VALUE);
    }
}

#[test]
fn operands_are_checked() {
    for (name, operand, reason) in [
        ("$geoWithin", "5", "geometry must be an object"),
        ("$geoWithin", "{}", "not supported with provided geometry"),
        (
            "$geoWithin",
            "{$geometry: {type: 'Point', coordinates: [0, 0]}}",
            "$geoWithin not supported with provided geometry",
        ),
        ("$geoWithin", "{$sphere: 1}", "unknown geo specifier: $sphere: 1"),
        ("$geoWithin", "{$box: [[0, 0]]}", "two corners"),
        ("$geoWithin", "{$box: [[0, 0], [1, 1, 1]]}", "two coordinates"),
        ("$geoWithin", "{$polygon: [[0, 0], [1, 1]]}", "at least 3 points"),
        ("$geoWithin", "{$center: [[0, 0], -1]}", "radius must be a non-negative number"),
        ("$geoWithin", "{$center: [[0, 0]]}", "Only 2 fields allowed for circular region"),
        ("$geoWithin", "{$centerSphere: [[0, 95], 1]}", "out of bounds"),
        ("$geoIntersects", "{$box: [[0, 0], [1, 1]]}", "$geoIntersects not supported with provided geometry"),
    ] {
        let operand = value(operand);
        let test = match name {
            "$geoWithin" => GeoTest::within(name, operand.as_ref()),
            _ => GeoTest::intersects(name, operand.as_ref()),
        };
        let error = test.err().unwrap_or_else(|| panic!("{name} {operand:?}"));
        assert!(error.message.contains(reason), "{name} {operand:?}: {error}");
    }
    for (operators, reason) in [
        ("{$near: 5}", "$near requires a point"),
        ("{$near: [0]}", "at least two"),
        ("{$near: [0, 0], $maxDistance: 'x'}", "maxDistance must be a number"),
        ("{$near: [0, 0], $minDistance: -1}", "minDistance must be non-negative"),
        ("{$nearSphere: [0, 100]}", "out of bounds"),
        ("{$near: {$geometry: {type: 'LineString', coordinates: [[0, 0], [1, 1]]}}}", "$near requires geojson point"),
        (
            "{$near: {$geometry: {type: 'Point', coordinates: [0, 100]}}}",
            "invalid point in geo near query $geometry argument",
        ),
        ("{$near: {$geometry: {type: 'Point', coordinates: [0, 0]}, $x: 1}}", "invalid argument in geo near query: $x"),
    ] {
        let operators = doc(operators);
        let name = operators.as_doc().first().unwrap().0;
        let error = Near::parse("a", name, operators.as_doc()).expect_err(name);
        assert!(error.message.contains(reason), "{operators:?}: {error}");
    }
}

#[test]
fn near_finds_the_nearest_place_of_a_document() {
    let near = |text: &str| {
        let operators = doc(text);
        Near::parse("a", operators.as_doc().first().unwrap().0, operators.as_doc()).unwrap()
    };
    for (near, document, distance) in [
        (near("{$near: [0, 0]}"), "{a: [3, 4]}", Some(5.0)),
        (near("{$near: [0, 0]}"), "{a: {x: 3, y: 4}}", Some(5.0)),
        (near("{$near: [0, 0]}"), "{a: [[3, 4], [0, 1], 'x']}", Some(1.0)),
        (near("{$near: [0, 0]}"), "{a: {type: 'Point', coordinates: [3, 4]}}", Some(5.0)),
        (near("{$near: [0, 0], $maxDistance: 4}"), "{a: [3, 4]}", None),
        (near("{$near: [0, 0, 4]}"), "{a: [3, 4]}", None),
        (near("{$near: [0, 0], $minDistance: 2}"), "{a: [0, 1]}", None),
        (near("{$nearSphere: [0, 0]}"), "{a: [90, 0]}", Some(std::f64::consts::FRAC_PI_2)),
        (near("{$nearSphere: [0, 0]}"), "{a: [900, 0]}", None),
        (
            near("{$near: {$geometry: {type: 'Point', coordinates: [0, 0]}}}"),
            "{a: [180, 0]}",
            Some(std::f64::consts::PI * 6_378_100.0),
        ),
        (near("{$near: {$geometry: {type: 'Point', coordinates: [0, 0]}}}"), "{b: [180, 0]}", None),
        (
            near("{$near: {$geometry: {type: 'Point', coordinates: [5, 5]}}}"),
            "{a: {type: 'Polygon', coordinates: [[[0,0],[10,0],[10,10],[0,10],[0,0]]]}}",
            Some(0.0),
        ),
    ] {
        let found = near.find(doc(document).as_doc()).map(|found| found.distance);
        match (found, distance) {
            (Some(found), Some(distance)) => {
                assert!((found - distance).abs() <= distance * 1e-12, "{document}: {found}")
            }
            (found, distance) => assert_eq!(found, distance, "{document}"),
        }
    }
}

/// A ring of many vertices around a point: the more there are, the less it leaps, so that no two edges cross.
fn star(random: &mut SmallRng, center: (f64, f64), size: f64, count: usize) -> Vec<(f64, f64)> {
    let leap = (30.0 / count as f64).min(0.3);
    let spot = |at: usize, random: &mut SmallRng| {
        let (turn, far) =
            (at as f64 / count as f64 * std::f64::consts::TAU, size * (0.7 + leap * random.random_range(-1.0..1.0)));
        (center.0 + far * turn.cos(), center.1 + far * turn.sin())
    };
    (0..count).map(|at| spot(at, random)).collect()
}

#[test]
fn indexed_rings_answer_as_their_edges_do() {
    let mut random = SmallRng::seed_from_u64(7);
    for (center, size, count) in
        [((10.0, 20.0), 5.0, 500), ((179.0, 10.0), 15.0, 200), ((0.0, 0.0), 40.0, 3000), ((44.9, 0.1), 1.0, 40)]
    {
        let vertices: Vec<_> = star(&mut random, center, size, count);
        let wrapped = |lng: f64| if lng > 180.0 { lng - 360.0 } else { lng };
        let points: Vec<_> = vertices.iter().map(|(lng, lat)| point_at(wrapped(*lng), *lat)).collect();
        let ring = Ring::new(points.clone(), Winding::Smaller).unwrap();
        assert!(ring.chain.index.is_some());
        let mut inside = 0;
        for _ in 0..2000 {
            let (lng, lat) = (random.random_range(-1.2..1.2) * size, random.random_range(-1.2..1.2) * size);
            let p = point_at(wrapped(center.0 + lng), center.1 + lat);
            let plain = ring.encloses_by_all_edges(p);
            assert_eq!(ring.place(p) == At::Inside, plain, "{center:?} {lng} {lat}");
            inside += usize::from(plain);
        }
        assert!((200..1900).contains(&inside), "{inside}");
        assert!(points.iter().all(|vertex| ring.place(*vertex) == At::Boundary));
    }
}

fn random_geometry(random: &mut SmallRng) -> Geometry {
    let at = |random: &mut SmallRng| (random.random_range(-20..20) as f64, random.random_range(-20..20) as f64);
    let center = at(random);
    match random.random_range(0..4) {
        0 => point(center.0, center.1),
        1 => {
            let end = at(random);
            let size = random.random_range(0.01..1.0);
            let points =
                vec![point_at(center.0, center.1), point_at(center.0 + 0.5 + end.0 * size, center.1 + end.1 * size)];
            Geometry::Line(chain::Chain::new(points, false))
        }
        kind => {
            let size = if kind == 2 { 1.0 } else { random.random_range(0.001..15.0) };
            let count = random.random_range(3..60);
            let points = star(random, center, size, count);
            let points = points.iter().map(|(lng, lat)| point_at(*lng, *lat)).collect();
            Geometry::Polygon(polygon::Polygon {
                outer: Ring::new(points, Winding::Smaller).unwrap(),
                holes: Vec::new(),
            })
        }
    }
}

#[test]
fn geometries_that_intersect_have_covers_that_intersect() {
    let mut random = SmallRng::seed_from_u64(11);
    let (mut intersecting, mut held) = (0, 0);
    for _ in 0..1500 {
        let (a, b) = (random_geometry(&mut random), random_geometry(&mut random));
        let overlap = intersects(&a, &b);
        assert_eq!(overlap, intersects(&b, &a));
        let within = is_within(&a, &b);
        assert!(overlap || !within, "{a:?} {b:?}");
        let (own, other) = (cells_of(&a), cells_of_region(&b, COVER_CELLS_MAX));
        assert!(own.len() <= COVER_CELLS_MAX && !own.is_empty());
        let nested = own.iter().any(|x| other.iter().any(|y| cell_range(*x).contains(y) || cell_range(*y).contains(x)));
        assert!(nested || !overlap, "{a:?} {b:?}");
        if let Geometry::Point(place) = &a {
            let distance = b.distance(place.point);
            assert_eq!(distance <= arc::TOLERANCE, overlap, "{distance}");
        }
        intersecting += usize::from(overlap);
        held += usize::from(within);
    }
    assert!(intersecting > 40 && held >= 3, "{intersecting} {held}");
}

#[test]
fn a_ring_of_a_hundred_thousand_vertices_is_bounded_work() {
    let mut random = SmallRng::seed_from_u64(3);
    let points = star(&mut random, (10.0, 10.0), 20.0, 100_000);
    let points: Vec<_> = points.iter().map(|(lng, lat)| point_at(*lng, *lat)).collect();
    assert_eq!(Ring::new(points, Winding::Smaller).unwrap().place(point_at(10.0, 10.0)), At::Inside);
    // long parallel edges are in each other's way: only a comparison of every pair could decide
    let comb = |at: usize| point_at(if at.is_multiple_of(2) { 0.0 } else { 20.0 }, at as f64 / 100_000.0 * 20.0);
    assert_eq!(Ring::new((0..100_000).map(comb).collect(), Winding::Smaller).err(), Some(ring::Fault::TooComplex));
    let circle: Vec<_> = (0..100_000)
        .map(|at| at as f64 / 100_000.0 * std::f64::consts::TAU)
        .map(|turn| point_at(10.0 + 20.0 * turn.cos(), 10.0 + 20.0 * turn.sin()))
        .collect();
    let ring = Ring::new(circle, Winding::Smaller).unwrap();
    assert_eq!(ring.place(point_at(10.0, 10.0)), At::Inside);
    assert_eq!(ring.place(point_at(31.0, 10.0)), At::Outside);
    let polygon = polygon::Polygon { outer: ring, holes: Vec::new() };
    let faces = cell::Cell::faces().filter(|face| polygon.relation(face) != Relation::Outside).count();
    assert!((1..=2).contains(&faces));
    assert!(!cells_of(&Geometry::Polygon(polygon)).is_empty());
}

#[test]
fn the_plane_takes_points_only() {
    let test = |operand: &str| GeoTest::within("$geoWithin", value(operand).as_ref()).unwrap();
    for (operand, place, matches) in [
        ("{$box: [[0, 0], [10, 10]]}", "[10, 10]", true),
        ("{$box: [[10, 10], [0, 0]]}", "[5, 5]", true),
        ("{$box: [[0, 0], [1000, 1000]]}", "[500, 500]", true),
        ("{$box: [[0, 0], [10, 10]]}", "{type: 'Point', coordinates: [5, 5]}", true),
        ("{$box: [[0, 0], [10, 10]]}", "{type: 'LineString', coordinates: [[5, 5], [6, 6]]}", false),
        ("{$center: [[0, 0], 5]}", "[3, 4]", true),
        ("{$center: [[0, 0], 5]}", "[3, 4.1]", false),
        ("{$center: [[0, 0], 5]}", "[[30, 40], [1, 1]]", true),
        ("{$polygon: [[0, 0], [4, 0], [4, 4]]}", "{lng: 3, lat: 1}", true),
        ("{$polygon: {a: [0, 0], b: [4, 0], c: [4, 4]}}", "{lng: 1, lat: 3}", false),
        ("{$centerSphere: [[0, 0], 0.1]}", "[5, 0]", true),
        ("{$centerSphere: [[0, 0], 0.1]}", "[6, 0]", false),
        ("{$centerSphere: [[0, 0], 0.1]}", "[600, 0]", false),
        ("{$centerSphere: [[0, 0], 2]}", "{type: 'LineString', coordinates: [[100, 0], [0, 70]]}", true),
        ("{$centerSphere: [[0, 0], 2]}", "{type: 'LineString', coordinates: [[100, 0], [170, 0]]}", false),
        ("{$centerSphere: [[0, 0], 4]}", "[180, 0]", true),
        ("{$box: [[0, 0], [10, 10]]}", "'x'", false),
        ("{$box: [[0, 0], [10, 10]]}", "null", false),
    ] {
        let found = test(operand).matches(value(place).as_ref());
        assert_eq!(found, matches, "{operand} {place}");
    }
    assert!(!test("{$box: [[0, 0], [1, 1]]}").matches(ValueRef::Undefined));
}
