"""mgo, the Go driver before MongoDB's own (go/mgo)."""

from program import program, run_as_flow

run_as_flow([program("legacy_mgo")])
