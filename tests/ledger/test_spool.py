"""Texts that wait in files: whole or not there, whoever else writes into the folder."""

import json
import os
from dataclasses import asdict

import pytest

from pellucid.ledger.spool import FileSpool, Kept

KEPT = Kept(2, "ab" * 32, "é \ud800 t")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "study.db.pending"


def test_nothing_is_made_before_something_waits(folder):
    spool = FileSpool(folder)
    assert spool.items() == [] and not folder.exists()
    spool.remove(KEPT)
    assert not folder.exists()


def test_a_text_is_one_file_and_the_folder_goes_with_the_last(folder):
    FileSpool(folder).put(KEPT)
    assert [file.name for file in folder.iterdir()] == [f"{KEPT.hash}.json"]
    assert FileSpool(folder).items() == [KEPT]
    FileSpool(folder).remove(KEPT)
    assert not folder.exists()


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "7", json.dumps({"seq": 1}), json.dumps({**asdict(KEPT), "more": 1}),
        *(json.dumps({**asdict(KEPT), **wrong}) for wrong in ({"seq": "1"}, {"text": None}, {"hash": "../../victim"})),
    ],
)  # fmt: skip
def test_what_is_no_kept_text_is_left_alone(folder, content):
    folder.mkdir()
    (folder / f"{KEPT.hash}.json").write_text(content)
    (folder / "half.part").write_text("half")
    assert FileSpool(folder).items() == []
    assert len(list(folder.iterdir())) == 2


def test_an_older_crash_leaves_no_half_text(folder, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    spool = FileSpool(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        spool.put(KEPT)
    assert list(folder.iterdir()) == [] and spool.items() == [KEPT], "in memory, because the disk is full"
    assert FileSpool(folder).items() == []
    spool.remove(KEPT)
    assert spool.items() == []
