"""Long texts are shortened around what a question asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.policies.fitting import allowances, cut
from recollect.policies.tokens import estimate
from recollect.policies.trimming import GAP, sentences, trimmed

LONG = (
    "Here is a plan for your week. Monday is for rest. On Tuesday you could visit the lighthouse at Skagen. "
    "It opens at nine. Wednesday is for the museum. Thursday is free. On Friday there is a market."
)


def words(text: str) -> int:
    return len(text.split())


def test_the_relevant_sentence_stays_with_the_one_after_it() -> None:
    short = trimmed(LONG, {"lighthous": 2.0}, 22, words)
    assert short == "… On Tuesday you could visit the lighthouse at Skagen. It opens at nine. …"


def test_two_parts_of_a_text_are_joined_by_a_mark() -> None:
    short = trimmed(LONG, {"lighthous": 2.0, "market": 2.0}, 28, words)
    assert short.startswith("… On Tuesday") and short.endswith("On Friday there is a market.")
    assert short.count(GAP.strip()) == 2


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    assert "lighthouse" in trimmed(LONG, {"lighthous": 3.0, "on": 0.1, "friday": 1.0}, 17, words)


def test_without_words_of_the_question_the_beginning_is_kept() -> None:
    assert trimmed(LONG, {}, 22, words).startswith("Here is a plan for your week. Monday")


def test_a_text_without_full_stops_is_shortened_too() -> None:
    short = trimmed("never ending " * 500 + "lighthouse " + "and on " * 500, {"lighthous": 1.0}, 60, words)
    assert "lighthouse" in short and words(short) < 70


def test_a_word_as_long_as_a_file_is_cut() -> None:
    assert len(trimmed("x" * 100_000, {"x": 1.0}, 50, estimate)) < 300


def test_sentence_ends_of_other_languages_are_recognised() -> None:
    assert sentences("我去了海边。天气很好！") == ["我去了海边。", "天气很好！"]
    assert sentences("हम पार्क में गए। मौसम अच्छा था।") == ["हम पार्क में गए।", "मौसम अच्छा था।"]
    assert sentences("أين تسكن؟ أسكن في القاهرة.") == ["أين تسكن؟", "أسكن في القاهرة."]


def test_a_long_sentence_of_a_script_without_spaces_is_shortened_and_loses_nothing_unmarked() -> None:
    filler = "今天天气很好，我们去公园散步，看到很多花和树，" * 20
    chinese = f"{filler}我的护照号码是X1234，{filler}"
    assert "".join(sentences(chinese)) == chinese
    short = trimmed(chinese, {"护照": 1.0, "护": 1.0}, 250, estimate)
    assert "X1234" in short and short.startswith("…") and estimate(short) < 250


def test_a_long_text_in_thai_with_few_spaces_keeps_what_was_asked_for() -> None:
    filler = "เราไปเดินเล่นในสวนสาธารณะ เห็นดอกไม้และต้นไม้มากมาย " * 30
    short = trimmed(f"{filler}รหัสคือ X1234 {filler}", {"x1234": 1.0}, 250, estimate)
    assert "X1234" in short and estimate(short) < 250


def test_a_date_is_kept_whole() -> None:
    assert sentences("Wir ziehen am 3. Mai um. Anna hilft.") == ["Wir ziehen am 3. Mai um.", "Anna hilft."]


@given(st.text(max_size=400), st.integers(0, 80))
def test_what_stays_keeps_its_order(text: str, tokens_max: int) -> None:
    said = " ".join(" ".join(sentences(text)).split())
    start = 0
    for part in trimmed(text, {"sail": 1.0}, tokens_max, estimate).split("…"):
        found = said.find(" ".join(part.split()), start)
        assert found >= 0 or "…" in text
        start = max(found, start)


def test_nothing_is_shortened_when_there_is_room_enough() -> None:
    assert allowances([100, 50, 700], [0.9, 0.5, 0.1], 850, least=40) == [100, 50, 700]


def test_room_left_by_short_lines_goes_to_long_ones() -> None:
    first, short, last = allowances([900, 10, 900], [0.9, 0.8, 0.5], 500, least=40)
    assert (short, last) == (10, 40)
    assert first > 400


def test_equal_scores_get_equal_room() -> None:
    assert allowances([500, 500], [0.7, 0.7], 300, least=40) == [150, 150]


sizes_and_scores = st.lists(st.tuples(st.integers(0, 900), st.floats(-1, 1)), max_size=30)


@given(sizes_and_scores, st.integers(-10, 5000), st.integers(1, 100))
def test_no_line_gets_more_than_its_size_or_less_than_the_least(
    given_items: list[tuple[int, float]], room: int, least: int
) -> None:
    sizes = [size for size, _ in given_items]
    allowed = allowances(sizes, [score for _, score in given_items], room, least)
    assert len(allowed) == len(sizes)
    for size, tokens in zip(sizes, allowed, strict=True):
        assert min(size, least) <= tokens <= size


def test_the_cut_follows_the_drop_in_scores() -> None:
    assert cut([0.9, 0.85, 0.8, 0.7], fewest=2, share=0.5) == 4
    assert cut([0.9, 0.3, 0.2, 0.1], fewest=2, share=0.5) == 2
    assert cut([], fewest=2, share=0.5) == 0
