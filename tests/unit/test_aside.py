"""What is laid aside in a file comes back unchanged while there is room for it, and leaves nothing behind."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.aside import AGE_S, PAGE, Aside, room_for

KEYS = st.sampled_from("abcd")
STEPS = st.lists(st.tuples(st.sampled_from(["put", "get", "drop"]), KEYS, st.integers(0, 5 * PAGE)), max_size=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("aside")


def written(aside):
    """Everything its file holds."""
    aside._opened().seek(0)
    return aside._opened().read()


@given(STEPS)
def test_it_returns_what_a_dict_would(folder, steps):
    aside, known = Aside(folder, bytes_max=100 * PAGE), {}
    for step, key, size in steps:
        if step == "put":
            known[key] = key.encode() * size
            assert aside.put(key, known[key])
        elif step == "drop":
            known.pop(key, None)
            aside.drop(key)
        assert aside.get(key) == known.get(key)
        assert set(aside) == set(known)
    for key in "abcd":
        if key not in known:
            assert 20 * key.encode() not in written(aside)
    aside.close()


def test_entries_put_first_go_first_when_room_runs_out(folder):
    aside = Aside(folder, bytes_max=3 * PAGE)
    for key in "abc":
        assert aside.put(key, key)
    assert aside.put("a", "a again")
    assert aside.put("d", "d")
    assert [*aside] == ["c", "a", "d"]
    assert aside.nbytes == 3 * PAGE


def test_an_entry_larger_than_all_the_room_is_not_taken(folder):
    aside = Aside(folder, bytes_max=3 * PAGE)
    assert not aside.put("a", bytes(4 * PAGE))
    assert aside.get("a") is None
    assert aside.put("b", "b")


def test_after_an_hour_an_entry_is_gone_from_the_file(folder):
    now = [0.0]
    aside = Aside(folder, bytes_max=100 * PAGE, clock_s=lambda: now[0])
    aside.put("a", "words")
    now[0] = AGE_S + 1
    aside.put("b", "others")
    assert [*aside] == ["b"]
    assert b"words" not in written(aside)


def test_an_hour_without_new_entries_counts_too(folder):
    now = [0.0]
    aside = Aside(folder, bytes_max=100 * PAGE, clock_s=lambda: now[0])
    aside.put("a", "words")
    now[0] = AGE_S / 2
    aside.put("b", "others")
    now[0] = AGE_S + 1
    assert aside.drop_old() == pytest.approx(AGE_S / 2 - 1)
    assert [*aside] == ["b"] and b"words" not in written(aside)
    now[0] = 2 * AGE_S
    assert aside.drop_old() is None
    assert [*aside] == [] and b"others" not in written(aside)


def test_freed_places_are_reused(folder):
    aside = Aside(folder, bytes_max=100 * PAGE)
    for number in range(50):
        aside.put(number, bytes(2 * PAGE))
        aside.drop(number)
    assert len(written(aside)) <= 3 * PAGE


def test_its_file_stays_short_as_entries_grow(folder):
    aside, lengths = Aside(folder, bytes_max=100 * PAGE), []
    for pages in range(1, 30):
        for number in range(100):
            aside.put(number, b"words" * (pages * PAGE // 5))
            lengths.append(len(written(aside)))
        assert aside.nbytes <= 100 * PAGE
    assert max(lengths) <= 260 * PAGE
    held = set(aside)
    assert held and all(aside.get(number) for number in held)
    for number in held:
        aside.drop(number)
    assert not written(aside).strip(b"\0")


def test_a_disk_that_fails_while_an_entry_moves_to_a_larger_place_only_ends_the_file(folder):
    aside = Aside(folder, bytes_max=100 * PAGE)
    assert aside.put("a", b"a") and aside.put("b", b"b")
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, aside._opened().fileno())
    os.close(full)
    assert not aside.put("a", bytes(5 * PAGE))
    assert [*aside] == [] and aside.nbytes == 0
    assert aside.get("a") is None and aside.get("b") is None
    assert not aside.put("c", b"c")


def test_its_file_has_no_name(folder):
    aside = Aside(folder, bytes_max=100 * PAGE)
    aside.put("a", "words")
    assert not [*folder.iterdir()]


@given(st.integers(0, 10**8))
def test_at_most_an_eighth_of_a_place_lies_unused(size):
    assert size <= room_for(size) <= max(size * 1.125, 0) + PAGE
    assert room_for(size) % PAGE == 0
