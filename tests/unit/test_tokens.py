"""Counting tokens, exactly and by estimate."""

import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect.policies.tokens as tokens_module
from recollect.policies.tokens import MESSAGE_OVERHEAD, counter, estimate, message_tokens

openai = pytest.importorskip("rs_bpe.bpe", reason="no exact counts here: install recollect[tokens]").openai
O200K = openai.o200k_base()
CL100K = openai.cl100k_base()

PROSE = """
My sister Deborah moved to Rotterdam last autumn, and since then we call each other every Sunday evening.
She found a small flat near the harbour, with a balcony on which she grows tomatoes, basil and far too much mint.
When I asked whether she misses the mountains, she laughed and said that the wind makes up for it.
I'd like to visit her in March, but the trains are expensive, so I'm thinking about taking the night bus instead.
Could you remind me to book it before the twentieth? Last time I forgot, and the ticket cost nearly twice as much.
Also, please keep in mind that I'm allergic to peanuts; the restaurant we chose in Utrecht didn't take it seriously.
The project at work is going well: we finished the migration two days early and nobody noticed any downtime.
My manager suggested that I give a talk about it at the conference in Lisbon, which makes me a little nervous.
On weekends I paint, mostly landscapes in watercolour, though lately I have been trying portraits of my neighbours.
"""

CODE = """
class Ledger:
    def __init__(self, opened_at: int, limit: float = 1e6) -> None:
        self.entries: list[Entry] = []
        self._limit = limit  # in cents

    def post(self, entry: Entry) -> None:
        if entry.amount > self._limit or not entry.account_id:
            raise ValueError(f"entry {entry.id!r} is over {self._limit:,.2f}")
        self.entries.append(entry)

SELECT account_id, SUM(amount) AS total FROM entries WHERE booked_at >= '2024-01-01' GROUP BY account_id;
for (let i = 0; i < items.length; i++) { total += items[i].price * (1 - discount); }
"""

MARKDOWN = """
# Getting started

1. **Install** the package with `pip install ledger`.
2. Run `ledger init --path ./data` and open <http://localhost:8000/docs>.

| option | default | meaning |
|--------|---------|---------|
| `--port` | 8000 | where it listens |
| `--workers` | 4 | how many processes |

> Note: *never* share the `SECRET_KEY` with anyone.
"""

CHINESE = (
    "今天天气很好，我们一起去公园散步吧。我最近在学习编程，特别"
    "喜欢用人工智能写代码。请问你能告诉我怎么去最近的地铁站吗？"
)
TRADITIONAL = "請問最近的捷運站怎麼走？我們週末打算騎腳踏車去郊外旅行，聽說那裡的風景很漂亮，還有許多傳統小吃可以嘗試。"
JAPANESE = (
    "今日はとても天気がいいので、公園を散歩しましょう。すみません、"
    "一番近い駅はどこですか。コーヒーを飲みながら確認してください。"
)
KOREAN = (
    "오늘은 날씨가 아주 좋아서 공원에 산책하러 갑시다. 실례합니다, 가장 "
    "가까운 지하철역이 어디에 있나요? 그는 어제 새 자전거를 샀어요."
)
RUSSIAN = (
    "Сегодня очень хорошая погода, давайте прогуляемся по парку. "
    "Извините, вы не подскажете, где находится станция метро?"
)
HINDI = "आज मौसम बहुत अच्छा है, चलो पार्क में टहलने चलते हैं। क्षमा करें, क्या आप मुझे बता सकते हैं कि स्टेशन कहाँ है?"
EMOJI = (
    "We won! 🎉🎉 Thanks to 👩‍💻 and 👍🏽, see you in 🇫🇷 on Friday "
    "❤️ ☕️ ✅ 🚀🚀🚀 bring the 🐶 and the 🌈 flag 🙏 please 🥲✨"
)
CHANCE = random.Random(5)
NUMBERS = " ".join(f"{CHANCE.random() * 10 ** CHANCE.randint(1, 9):.{CHANCE.randint(0, 3)}f}" for _ in range(200))
KEYS = "\n".join(f"key-{number}: {CHANCE.randbytes(24).hex()}" for number in range(30))
JSON = json.dumps(
    [{"id": CHANCE.getrandbits(32), "name": f"item {n}", "tags": ["new", "sold"], "price": n / 7} for n in range(40)]
)
TEXTS = {
    "prose": PROSE, "code": CODE, "markdown": MARKDOWN, "json": JSON, "numbers": NUMBERS, "keys": KEYS, "emoji": EMOJI,
    "chinese": CHINESE, "traditional": TRADITIONAL, "japanese": JAPANESE,
    "korean": KOREAN, "russian": RUSSIAN, "hindi": HINDI,
}  # fmt: skip


def cuts(text):
    """Parts of 50 to 400 characters, from many places of the text."""
    return [
        text[start : start + size] for size in (50, 80, 200, 400) for start in range(0, max(1, len(text) - size), 11)
    ]


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_is_seldom_too_low(kind):
    parts = cuts(TEXTS[kind])
    low = [part for part in parts if estimate(part) < max(O200K.count(part), CL100K.count(part))]
    assert len(low) <= 0.01 * len(parts), low[:3]


@pytest.mark.parametrize("exact", [O200K, CL100K])
def test_the_estimate_for_english_is_at_most_a_third_too_high(exact):
    parts = cuts(PROSE)
    assert sum(map(estimate, parts)) <= 1.35 * sum(map(exact.count, parts))


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_is_useful_in_every_script(kind):
    assert estimate(TEXTS[kind]) <= 1.6 * CL100K.count(TEXTS[kind])


@given(st.text())
def test_every_text_has_an_estimate(text):
    assert estimate(text) >= bool(text)
    assert estimate(text) <= 4 * len(text) + 1


def test_an_empty_text_has_no_tokens():
    assert estimate("") == 0


@pytest.mark.parametrize("text", ["a" * 1_000_000, " " * 1_000_000, "漢" * 300_000, "aB3" * 300_000, "." * 1_000_000])
def test_hostile_texts_take_little_time(text):
    started = time.process_time()
    estimate(text)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1-nano", "gpt-5", "GPT-5.1", "o1", "o3-mini", "o4-mini", "gpt-oss-20b",
     "chatgpt-4o-latest", "openai/gpt-4o", "ft:gpt-4o-mini:acme"],
)  # fmt: skip
def test_newer_openai_models_are_counted_with_their_vocabulary(model):
    assert counter(model)(CHINESE) == O200K.count(CHINESE)


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-3.5-turbo", "gpt-35-turbo-16k"])
def test_older_openai_models_are_counted_with_theirs(model):
    assert counter(model)(CHINESE) == CL100K.count(CHINESE)


@pytest.mark.parametrize("model", [None, "", "claude-sonnet", "llama-3", "mistral", "o", "opus", "o1x", "gpt-2", "gpt"])
def test_other_models_are_estimated(model):
    assert counter(model) is estimate


def test_models_with_the_same_vocabulary_share_a_counter():
    assert counter("gpt-4o") is counter("gpt-5")


def test_a_message_also_costs_its_role_and_its_overhead():
    assert message_tokens(len, "user", "hello") == MESSAGE_OVERHEAD + 4 + 5


def test_every_code_point_has_a_cost():
    starts = tokens_module._STARTS
    assert starts == sorted(starts)
    assert starts[0] == 0x80
