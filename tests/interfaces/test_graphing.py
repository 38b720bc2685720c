"""People, places and things, business objects and episodes, on the command line."""

from __future__ import annotations

import pytest

ACME = '{"name": "Acme GmbH", "plan": "gold"}'


# ── Business objects ─────────────────────────────────────────────────────────────────────────────


def test_a_business_object_is_stored_shown_and_invalidated(recollect):
    kept = recollect("entities", "put", "customer", "42", ACME, "--alias", "Acme", "--life", "60", "--json").json
    assert (kept["name"], kept["aliases"]) == ("Acme GmbH", ["Acme"])
    assert "customer 42: Acme GmbH, plan: gold" in recollect("entities").out
    assert recollect("entities", "--type", "order").code == 1
    assert recollect("entities", "get", "customer", "42", "--json").json == {"name": "Acme GmbH", "plan": "gold"}
    assert "gold" in recollect("entities", "get", "customer", "42").out
    assert recollect("entities", "invalidate", "customer", "42").out == "Dropped 1 entity.\n"
    assert recollect("entities", "get", "customer", "42").code == 1


def test_all_business_objects_are_invalidated_only_on_explicit_request(recollect):
    assert recollect("entities", "put", "customer", "42", ACME).code == 0
    assert recollect("entities", "invalidate").code == 2
    assert recollect("entities", "invalidate", "customer", "--all").code == 2
    assert recollect("entities", "invalidate", "--all", "--json").json == {"invalidated": 1}


def test_business_objects_belong_to_the_org(recollect):
    assert recollect("entities", "put", "customer", "42", ACME, "--org", "acme").code == 0
    assert recollect("entities").code == 1
    assert recollect("entities", "--org", "acme").code == 0


@pytest.mark.parametrize("data", ["[1]", "{", "null"])
def test_a_business_object_is_a_json_object(recollect, data):
    assert recollect("entities", "put", "customer", "42", data).code == 2


# ── The graph ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def graph(recollect):
    """Ana, who lived in Oslo and lives in Bergen, and her employer."""
    for relation in (
        ["Ana", "lives_in", "Oslo", "--since", "2020-01-01"],
        ["Ana", "lives_in", "Bergen", "--since", "2026-03-01"],
        ["Ana", "works_at", "Equinor", "--since", "2021-01-01"],
        ["user", "sister", "Ana", "--since", "2019-01-01"],
    ):
        assert recollect("graph", "relate", *relation).code == 0
    return recollect


def _said(ran) -> set[str]:
    return {relation["content"] for relation in ran.json["relations"]}


def test_the_graph_shows_what_is_related_now_and_at_a_past_time(graph):
    assert _said(graph("graph", "--json")) == {"Ana lives in Bergen", "Ana works at Equinor", "user sister Ana"}
    told = graph("graph", "show", "Ana").out
    assert "Ana lives in Bergen" in told and "2026-03-01" in told
    assert _said(graph("graph", "show", "Ana", "--at", "2020-06-01", "--json")) == {
        "Ana lives in Oslo",
        "user sister Ana",
    }


def test_neighbours_are_counted_in_steps(graph):
    assert _said(graph("graph", "show", "user", "--json")) == {"user sister Ana"}
    assert "Ana works at Equinor" in _said(graph("graph", "show", "user", "--depth", "2", "--json"))
    assert graph("graph", "show", "user", "--depth", "9").code == 2
    assert graph("graph", "show", "--depth", "2").code == 2
    assert graph("graph", "show", "Nobody").code == 1


def test_a_relation_can_end(graph):
    (job,) = [r for r in graph("graph", "--json").json["relations"] if r["relation"] == "works_at"]
    assert graph("graph", "end", job["id"], "--reason", "moved on").out.startswith("Ended: Ana works at Equinor")
    assert "Ana works at Equinor" not in _said(graph("graph", "--json"))
    assert graph("graph", "end", "nothing").code == 1


def test_two_entities_become_one_and_two_again(graph):
    assert graph("graph", "add", "Anita", "--type", "person", "--alias", "Nita").code == 0
    assert graph("graph", "merge", "Ana", "Anita").out == "Merged: Ana (thing), also called Anita, Nita.\n"
    assert "Ana lives in Bergen" in _said(graph("graph", "show", "Nita", "--json"))
    assert graph("graph", "undo-merge", "Anita").out.startswith("Separate again: Ana (thing) and Anita (person)")
    assert graph("graph", "undo-merge", "Anita").code == 1


def test_the_graph_is_drawn_to_files_that_are_not_overwritten_by_accident(graph, tmp_path):
    svg, dot = str(tmp_path / "ana.svg"), str(tmp_path / "ana.dot")
    assert graph("graph", "show", "Ana", "--svg", svg, "--dot", dot).code == 0
    assert "Bergen" in (tmp_path / "ana.svg").read_text()
    assert (tmp_path / "ana.dot").read_text().startswith("digraph")
    assert graph("graph", "show", "Ana", "--svg", svg).code == 3
    assert graph("graph", "show", "Ana", "--svg", svg, "--force").code == 0


def test_the_graph_of_the_org_is_separate(graph):
    assert graph("graph", "relate", "Acme", "owns", "Bolt", "--org-wide").code == 0
    assert _said(graph("graph", "--org-wide", "--json")) == {"Acme owns Bolt"}
    assert graph("graph", "show", "Acme").code == 1


# ── Episodes ─────────────────────────────────────────────────────────────────────────────────────


def test_a_closed_session_becomes_an_episode_that_can_be_read(recollect):
    talk = "My sister Ana visits on Friday.\nShall we cook or eat out?\nWe decided to cook lasagne on Friday.\n"
    assert recollect("chat", "--script", "-", "--session", "monday", input=talk).code == 0
    assert recollect("episodes").code == 1
    (made,) = recollect("episodes", "close", "monday", "--json").json
    assert made["session"] == "monday"
    assert made["id"] in recollect("episodes", "--session", "monday").out
    told = recollect("episodes", "show", made["id"]).out
    assert "messages of monday" in told and told.count("decided to cook lasagne") == 1
    assert recollect("episodes", "close", "monday").code == 1
    assert recollect("episodes", "show", "nothing").code == 1
    assert recollect("episodes", "--session", "tuesday").code == 1
