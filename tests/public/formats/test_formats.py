"""Descriptions in other formats: what they declare is taken, what they measured is not, the rest stays open."""

import datetime as dt
import json
from enum import Enum
from typing import Literal

import numpy as np
import pandas as pd
import pytest

import pellucid as pel

# Small files of our own, in the forms that the specifications show.
CSVW = {
    "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
    "url": "trees.csv",
    "dc:title": "Street trees",
    "tableSchema": {
        "columns": [
            {"name": "id", "titles": ["Id", "Identifier"], "datatype": "string", "required": True},
            {"name": "girth", "titles": "girth of the trunk", "datatype": {"base": "integer", "minimum": "1", "maximum": "900"}},
            {"name": "health", "datatype": {"base": "string", "format": "good|fair|poor"}},
            {
                "name": "pruned",
                "datatype": {"base": "date", "format": "M/d/yyyy", "minimum": "1990-01-01", "maximum": "2030-01-01"},
            },
            {"name": "planted", "datatype": {"base": "boolean", "format": "yes|no"}},
            {"name": "height", "datatype": {"base": "decimal", "minInclusive": 0.5, "maxInclusive": 60}},
            {"name": "nests", "datatype": "nonNegativeInteger"},
            {"name": "link", "virtual": True, "propertyUrl": "rdf:type"},
        ]
    },
}
SAFE = {
    "@context": ["http://www.w3.org/ns/csvw", "https://w3id.org/csvw-safe-context.jsonld"],
    "@type": "csvw:Table",
    "csvw-safe:maxContributions": 2,
    "tableSchema": {
        "columns": [
            {"name": "owner", "datatype": "string", "csvw-safe:privacyId": True},
            {"name": "breed", "datatype": "string", "csvw-safe:keyValues": ["collie", "poodle"]},
            {
                "name": "coat",
                "datatype": "string",
                "dp:publicPartitions": [{"@type": "dp:PartitionKey", "dp:partitionValue": v} for v in ("long", "short")],
            },
            {"name": "town", "datatype": "string", "partitions": [{"predicate": {"partitionValue": "Ulm"}}]},
            {"name": "weight", "datatype": "double", "minimum": 1.0, "maximum": 90.0},
            {
                "name": "age",
                "datatype": "double",
                "dp:publicPartitions": [{"dp:lowerBound": 0, "dp:upperBound": 10}, {"dp:lowerBound": 10, "dp:upperBound": 25}],
            },
        ]
    },
}
AGE = {"name": "age", "type": "integer", "title": "age at the visit", "constraints": {"minimum": 0, "exclusiveMaximum": 121}}
DAYS = {"minimum": "2020-01-01", "maximum": "2025-12-31"}
WHEN = {"name": "when", "type": "date", "format": "%d.%m.%Y", "constraints": DAYS}
CODE = {"name": "code", "type": "integer", "categories": [{"value": 0, "label": "no"}, {"value": 1, "label": "yes"}]}
FRICTIONLESS = {
    "name": "clinic",
    "resources": [
        {
            "name": "visits",
            "path": "visits.csv",
            "schema": {
                "fields": [
                    AGE,
                    {"name": "grade", "type": "string", "categories": ["low", "high"], "categoriesOrdered": True},
                    {"name": "ward", "type": "string", "constraints": {"enum": ["A", "B", "C"], "required": True}},
                    WHEN,
                    CODE,
                ],
                "missingValues": ["", "NA"],
            },
        }
    ],
}
CROISSANT = {
    "@context": {"@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": "http://mlcommons.org/croissant/"},
    "@type": "sc:Dataset",
    "name": "Voyagers",
    "conformsTo": "http://mlcommons.org/croissant/1.0",
    "distribution": [{"@type": "cr:FileObject", "@id": "voyagers.csv", "encodingFormat": "text/csv"}],
    "recordSet": [
        {
            "@type": "cr:RecordSet",
            "@id": "ports",
            "name": "ports",
            "dataType": "sc:Enumeration",
            "key": {"@id": "ports/key"},
            "field": [{"@type": "cr:Field", "@id": "ports/key", "name": "key", "dataType": "sc:Text"}],
            "data": [{"ports/key": "Cork"}, {"ports/key": "Kiel"}],
        },
        {
            "@type": "cr:RecordSet",
            "@id": "voyagers",
            "name": "voyagers",
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": "voyagers/port",
                    "name": "port",
                    "dataType": "sc:Text",
                    "references": {"field": {"@id": "ports/key"}},
                    "source": {"fileObject": {"@id": "voyagers.csv"}, "extract": {"column": "embarked"}},
                },
                {"@type": "cr:Field", "name": "class", "dataType": ["sc:Integer"], "minValue": 1, "maxValue": 3},
                {"@type": "cr:Field", "@id": "voyagers/fare", "name": "fare", "dataType": "sc:Float"},
                {"@type": "cr:Field", "@id": "voyagers/note", "name": "note", "dataType": "sc:Text"},
            ],
        },
    ],
}


def test_csvw(tmp_path):
    (tmp_path / "trees.csv-metadata.json").write_text(json.dumps(CSVW))
    open_columns = {"id": None, "nests": pel.Number(0, 20, integer=True)}
    schema = pel.Schema.read(tmp_path / "trees.csv-metadata.json", columns=open_columns)
    assert list(schema) == ["girth", "health", "pruned", "planted", "height", "nests"]
    assert (schema["girth"].lo, schema["girth"].hi, schema["girth"].integer) == (1, 900, True)
    assert schema["girth"].label == "girth of the trunk" and schema["girth"].source == "CSVW trees.csv-metadata.json"
    assert schema["health"].values == ("good", "fair", "poor") and schema["planted"].values == ("no", "yes")
    assert schema["pruned"].format == "%m/%d/%Y" and schema["pruned"].value_at(schema["pruned"].lo) == "1990-01-01"
    assert pel.Schema.draft(CSVW).left == ["id (its values)", "nests (upper bound)"]
    with pytest.raises(pel.SchemaError, match=r"open.*nests \(upper bound\)"):
        pel.Schema.read(CSVW, columns={"id": None})


def test_csvw_safe():
    schema = pel.Schema.read(SAFE)
    assert list(schema) == ["breed", "coat", "town", "weight", "age"]  # whom to protect is said with pel.Unit
    assert schema["breed"].values == ("collie", "poodle") and schema["coat"].values == ("long", "short")
    assert schema["town"].values == ("Ulm",)
    assert [(schema[n].lo, schema[n].hi) for n in ("weight", "age")] == [(1, 90), (0, 25)]


def test_several_tables_need_a_name():
    several = {"@context": "http://www.w3.org/ns/csvw", "tables": [{"url": "a.csv", **CSVW}, {**CSVW, "url": "b.csv"}]}
    with pytest.raises(pel.SchemaError, match="table="):
        pel.Schema.read(several)
    assert "girth" in pel.Schema.read(several, table="b.csv", columns={"id": None, "nests": None})


def test_frictionless():
    schema = pel.Schema.read(FRICTIONLESS)
    assert (schema["age"].lo, schema["age"].hi, schema["age"].label) == (0, 120, "age at the visit")
    assert schema["grade"].ordered and schema["ward"].values == ("A", "B", "C") and schema["code"].values == (0, 1)
    assert schema["when"].format == "%d.%m.%Y"


def test_croissant():
    assert pel.Schema.draft(CROISSANT).left == ["fare (both bounds)", "note (its values)"]
    schema = pel.Schema.read(CROISSANT, columns={"fare": pel.Number(0, 600), "note": None})
    assert list(schema) == ["embarked", "class", "fare"]
    assert schema["embarked"].values == ("Cork", "Kiel") and (schema["class"].lo, schema["class"].hi) == (1, 3)


def test_round_trips():
    schema = pel.Schema(
        {
            "age": pel.Number(17, 90, integer=True, label="age at entry", unit="years"),
            "bmi": pel.Number(10, 60.5),
            "sex": pel.Category(["F", "M"]),
            "grade": pel.Category([1, 2, 3]),
            "smoker": pel.Boolean(),
            "born": pel.Date("1900-01-01", "2020-12-31"),
            "seen": pel.Datetime("2020-01-01", "2021-01-01T12:00:00"),
        }
    )
    for form in ("csvw", "frictionless", "croissant"):
        again = pel.Schema.read(json.loads(json.dumps(getattr(schema, f"to_{form}")())))
        assert list(again) == list(schema)
        for name, column in schema.items():
            assert type(again[name]) is type(column), (form, name)
            same = ("values",) if isinstance(column, pel.Category) else ("lo", "hi", "integer", "unit")
            assert all(getattr(again[name], field) == getattr(column, field) for field in same), (form, name)


def test_pydantic():
    from pydantic import BaseModel, Field

    class Colour(Enum):
        RED = "red"
        BLUE = "blue"

    class Person(BaseModel):
        age: int = Field(ge=17, lt=91)
        sex: Literal["F", "M"]
        pay: float | None = Field(None, ge=0, le=1e6, title="yearly income")
        born: dt.date = Field(ge=dt.date(1900, 1, 1), le=dt.date(2020, 1, 1))
        colour: Colour
        smoker: bool

    schema = pel.Schema.read(Person)
    assert (schema["age"].lo, schema["age"].hi, schema["age"].label) == (17, 90, "")
    assert schema["sex"].values == ("F", "M") and schema["colour"].values == ("red", "blue")
    assert (schema["pay"].hi, schema["pay"].label) == (1e6, "yearly income")
    assert schema["born"].position("1900-01-01") == schema["born"].lo and schema["smoker"].values == (False, True)
    assert pel.Schema.read(Person.model_json_schema(), columns={"born": None})["age"].hi == 90


def test_pandera():
    pandera = pytest.importorskip("pandera.pandas")

    class People(pandera.DataFrameModel):
        age: int = pandera.Field(ge=17, lt=91)
        sex: str = pandera.Field(isin=["F", "M"])
        share: float = pandera.Field(in_range={"min_value": 0, "max_value": 1})
        note: str

    with pytest.raises(pel.SchemaError, match=r"note \(its values\)"):
        pel.Schema.read(People)
    schema = pel.Schema.read(People.to_schema(), columns={"note": None})
    assert (schema["age"].lo, schema["age"].hi) == (17, 90) and schema["sex"].values == ("F", "M") and schema["share"].hi == 1
    inferred = pandera.infer_schema(pd.DataFrame({"age": np.arange(20, 60)}))
    with pytest.raises(pel.SchemaError, match="inferred from a table"):
        pel.Schema.read(inferred)


OBSERVED = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 19, "maximum": 87}, "observed": True},
    {"name": "age", "type": "integer", "constraints": {"minimum": 19, "maximum": 87}, "stats": {"min": 19, "max": 87}},
    {"name": "age", "type": "integer", "constraints": {"minimum": 19, "maximum": 87, "description": "computed from the data"}},
]


@pytest.mark.parametrize("field", OBSERVED)
def test_bounds_from_data_are_refused(field):
    described = {"fields": [field, {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}}]}
    with pytest.raises(pel.SchemaError, match="no public ones"):
        pel.Schema.read(described)
    assert pel.Schema.read(described, columns={"age": pel.Number(0, 120)})["age"].hi == 120
    draft = pel.Schema.draft(described)
    assert "19" not in draft.text and "87" not in draft.text and "do not count" in draft.text


@pytest.mark.parametrize(
    "described",
    [
        {
            "fields": [
                {"name": "ward", "type": "string", "constraints": {"enum": ["Kafka"]}, "description": "inferred from the data"}
            ]
        },
        {"fields": [{"name": "ward", "type": "string", "categories": ["Kafka"], "observed": True}]},
        {"properties": {"ward": {"type": "string", "enum": ["Kafka"], "description": "taken from the table"}}},
        {
            "tableSchema": {
                "columns": [{"name": "ward", "csvw-safe:keyValues": ["Kafka"], "dc:description": "observed in the data"}]
            }
        },
    ],
)
def test_values_from_data_are_refused(described):
    """A rare ward, diagnosis or name among the values is a person."""
    with pytest.raises(pel.SchemaError, match="its values; those in the file are no public ones"):
        pel.Schema.read(described)
    assert "Kafka" not in pel.Schema.draft(described).text


def test_statistics_are_no_bounds():
    stats = {"name": "age", "type": "integer", "stats": {"min": 19, "max": 87}}
    assert pel.Schema.draft({"fields": [stats]}).left == ["age (both bounds)"]
    # Declared beside statistics, and other than those: they are declared.
    declared = {**stats, "constraints": {"minimum": 0, "maximum": 120}}
    assert pel.Schema.read({"fields": [declared]})["age"].hi == 120
    annotated = {
        "@type": "cr:Field",
        "name": "age",
        "dataType": "sc:Integer",
        "minValue": 19,
        "maxValue": 87,
        "annotation": [
            {"@type": "cr:Field", "name": "age/min", "dataType": "ddi-stats:Minimum", "value": 19},
            {"@type": "cr:Field", "name": "age/max", "dataType": "ddi-stats:Maximum", "value": 87},
        ],
    }
    with pytest.raises(pel.SchemaError, match="statistics beside them"):
        pel.Schema.read({"recordSet": [{"name": "people", "field": [annotated]}]})


@pytest.mark.parametrize("source", [{"columns": []}, 3, [1, 2], {"recordSet": []}, {"@context": "http://www.w3.org/ns/csvw"}])
def test_what_describes_nothing_is_refused_in_words(source):
    with pytest.raises(pel.SchemaError):
        pel.Schema.read(source)
