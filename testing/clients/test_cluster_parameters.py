"""Cluster parameters: types of their values, and what is shown."""

import pytest
from bson import Decimal128, Int64
from pymongo.errors import OperationFailure

OTHERS = [1, Int64(1), 1.5, Decimal128("1"), "x", True, [], {"a": 1}]


def refused(client, code, command):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command(command)
    assert caught.value.code == code, (command, caught.value)


def put(client, name, value):
    client.admin.command({"setClusterParameter": {name: value}})


def shown(client, name):
    (parameter,) = client.admin.command({"getClusterParameter": name})["clusterParameters"]
    assert parameter.pop("_id") == name and parameter.pop("clusterParameterTime")
    return parameter


@pytest.mark.parametrize(
    "name, field, code, kinds, default, values",
    [
        ("changeStreams", "expireAfterSeconds", 14, (str, bool, list, dict), Int64(3600), [60, Int64(7), 8.0, Decimal128("9")]),
        ("pauseMigrationsDuringMultiUpdates", "enabled", 14, (int, float, Decimal128, str, list, dict), False, [True]),
        ("changeStreamOptions", "preAndPostImages", 2, (int, float, Decimal128, str, list), {"expireAfterSeconds": "off"}, []),
    ],
)
def test_values_have_their_types(set_client, name, field, code, kinds, default, values):
    assert shown(set_client, name) == {field: default}
    for value in OTHERS:
        if not isinstance(value, dict):
            refused(set_client, 2, {"setClusterParameter": {name: value}})
        if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
            refused(set_client, code, {"setClusterParameter": {name: {field: value}}})
    for value in values:
        put(set_client, name, {field: value})
        number = int(value.to_decimal()) if isinstance(value, Decimal128) else value
        assert shown(set_client, name) == {field: number}
    put(set_client, name, {field: default})


def test_ranges_and_unknown_fields(set_client):
    for seconds in (0, -1):
        refused(set_client, 2, {"setClusterParameter": {"changeStreams": {"expireAfterSeconds": seconds}}})
    refused(set_client, 40415, {"setClusterParameter": {"changeStreams": {"x": 1}}})
    put(set_client, "changeStreams", {"expireAfterSeconds": None})
    assert shown(set_client, "changeStreams") == {"expireAfterSeconds": 3600}


def test_one_parameter_by_its_name(set_client):
    for value in OTHERS[:-1]:
        refused(set_client, 14, {"setClusterParameter": value})
    for value in ({}, {"changeStreams": {}, "changeStreamOptions": {}}):
        refused(set_client, 72, {"setClusterParameter": value})
    refused(set_client, 4, {"setClusterParameter": {"none": {}}})


def test_names_to_show(set_client):
    for value in [each for each in OTHERS if not isinstance(each, (str, list))]:
        refused(set_client, 14, {"getClusterParameter": value})
    refused(set_client, 2, {"getClusterParameter": []})
    refused(set_client, 14, {"getClusterParameter": ["changeStreams", 1]})
    refused(set_client, 4, {"getClusterParameter": "none"})
    for names in ("*", ["changeStreamOptions", "changeStreams", "pauseMigrationsDuringMultiUpdates"]):
        reply = set_client.admin.command({"getClusterParameter": names})["clusterParameters"]
        assert [each["_id"] for each in reply] == ["changeStreamOptions", "changeStreams", "pauseMigrationsDuringMultiUpdates"]
