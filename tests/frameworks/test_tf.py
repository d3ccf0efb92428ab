"""UniRecord in TensorFlow: unirecord.tf.dataset gives a tf.data.Dataset with static types, in order, sharded inside."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest
import tensorflow as tf
from process_counts import POOLS, assert_nothing_more, held

import unirecord
from unirecord import UniRecordDataset, Writer

N = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tf") / "set.urec"
    schema = {
        "x": {"type": "float32", "shape": [4]},
        "label": "int64",
        "name": "string?",
        "raw": "bytes",
        "text": "text",
        "boxes": {"type": "int32", "shape": [-1, 4]},
        "grid": {"type": "uint8", "shape": [-1, -1]},
        "half": {"type": "bfloat16", "shape": [2]},
        "maybe": "int32?",
        "meta": "object",
        "odd": {"type": "int8", "shape": [2, -1]},
    }
    with Writer(path, schema) as writer:
        for i in range(N):
            writer.write(
                {
                    "x": np.full(4, i, np.float32),
                    "label": i,
                    "name": None if i % 3 == 0 else f"é{i}",
                    "raw": bytes([i]) * (i % 4),
                    "text": "t" * (i % 3),
                    "boxes": np.full((i % 3, 4), i, np.int32),
                    "grid": np.full((i % 3, i % 2 + 1), i, np.uint8),
                    "half": np.array([0x3F80, 0xBF80], np.uint16),
                    "maybe": None if i % 5 == 0 else i,
                    "meta": {},
                    "odd": np.zeros((2, 1), np.int8),
                }
            )
    return path


TENSORS = ["x", "label", "name", "raw", "text", "boxes", "grid", "half", "maybe"]


def test_values_and_static_types(path: Path) -> None:
    data = unirecord.tf.dataset(UniRecordDataset(path, columns=TENSORS), 32)
    spec = data.element_spec
    assert spec["x"] == tf.TensorSpec((None, 4), tf.float32)
    assert spec["name"] == tf.TensorSpec((None,), tf.string)
    assert spec["boxes"].shape.as_list() == [None, None, 4]
    assert isinstance(spec["boxes"], tf.RaggedTensorSpec)
    assert len(data) == 4
    seen = 0
    for batch in data:
        for k in range(len(batch["label"])):
            i = seen + k
            assert batch["label"][k] == i
            assert batch["x"][k].numpy().tolist() == [i] * 4
            assert batch["name"][k].numpy().decode() == ("" if i % 3 == 0 else f"é{i}")
            assert bool(batch["name_valid"][k]) == (i % 3 != 0)
            assert batch["raw"][k].numpy() == bytes([i]) * (i % 4)
            assert batch["text"][k].numpy() == b"t" * (i % 3)
            assert batch["boxes"][k].numpy().tolist() == np.full((i % 3, 4), i).tolist()
            assert batch["grid"][k].to_list() == np.full((i % 3, i % 2 + 1), i).tolist()
            assert batch["half"][k].dtype == tf.bfloat16
            assert batch["half"][k].numpy().tolist() == [1.0, -1.0]
            assert bool(batch["maybe_valid"][k]) == (i % 5 != 0)
        seen += len(batch["label"])
    assert seen == N


def test_full_batches_have_a_static_size(path: Path) -> None:
    data = unirecord.tf.dataset(UniRecordDataset(path, columns=["x", "label"]), 30, drop_last=True)
    assert data.element_spec["x"].shape == (30, 4)
    assert len(list(data)) == 3


def test_columns_without_a_tensor_form_are_named(path: Path) -> None:
    for name in ("meta", "odd"):
        with pytest.raises(unirecord.SchemaError, match=f"{name}.*columns="):
            unirecord.tf.dataset(UniRecordDataset(path, columns=["label", name]), 4)


def test_every_repetition_has_an_order_of_its_own(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["label"], shuffle=True, seed=5)
    expected = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        expected += ds.order.row_ids().tolist()
    ds.set_epoch(0)
    data = (
        unirecord.tf.dataset(ds, 10)
        .repeat(3)
        .map(lambda b: b["label"], num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    assert [int(i) for batch in data for i in batch] == expected


def test_sharded_inside_with_automatic_sharding_off(path: Path) -> None:
    seen = []
    for rank in range(3):
        data = unirecord.tf.dataset(UniRecordDataset(path, rank, 3, columns=["label"], remainder="uneven"), 8)
        policy = data.options().experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.OFF
        seen += [int(i) for batch in data for i in batch["label"]]
    assert sorted(seen) == list(range(N))


def test_distribute_datasets_from_function(path: Path) -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return unirecord.tf.dataset(
            UniRecordDataset(path, context.input_pipeline_id, context.num_input_pipelines, columns=["label"]),
            10,
        )

    seen = [int(i) for batch in strategy.distribute_datasets_from_function(make) for i in batch["label"]]
    assert sorted(seen) == list(range(N))


def test_model_fit(path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = unirecord.tf.dataset(UniRecordDataset(path, columns=["x", "label"], shuffle=True), 20)
    history = model.fit(
        data.map(lambda b: (b["x"] / 100.0, b["label"] / 100)), epochs=2, shuffle=False, verbose=0
    )
    assert len(history.history["loss"]) == 2


def test_decode_resize_flip_normalise_in_parallel(tmp_path: Path) -> None:
    """Operators and their autotuning come from tf.data; the order is kept."""
    pictures = np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3), dtype=np.uint8)
    with Writer(tmp_path / "p.urec", {"png": "bytes", "label": "int32"}) as writer:
        for i, picture in enumerate(pictures):
            writer.write({"png": tf.io.encode_png(picture).numpy(), "label": i})

    def prepare(sample: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_png(sample["png"], 3)
        image = tf.image.resize(image, (4, 4), method="nearest")
        image = tf.image.flip_left_right(image)
        return tf.cast(image, tf.float32) / 255.0, sample["label"]

    ds = UniRecordDataset(tmp_path / "p.urec", shuffle=True, seed=1)
    order = ds.order.row_ids().tolist()
    data = (
        unirecord.tf.dataset(ds, 8)
        .unbatch()
        .map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(8)
        .prefetch(tf.data.AUTOTUNE)
    )
    got = list(data)
    assert [int(i) for _, label in got for i in label] == order
    expected = tf.image.resize(pictures[order[0]], (4, 4), method="nearest").numpy()[:, ::-1]
    assert np.allclose(got[0][0][0].numpy(), expected / 255.0)


def test_python_is_called_once_for_a_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unirecord.loading.batch import BatchBuilder

    calls = []
    chosen = BatchBuilder.build.fget
    assert chosen is not None

    def counting(self: BatchBuilder) -> Any:
        build = chosen(self)

        def counted(native: Any) -> Any:
            calls.append(1)
            return build(native)

        return counted

    monkeypatch.setattr(BatchBuilder, "build", property(counting))
    data = unirecord.tf.dataset(UniRecordDataset(path, columns=TENSORS), 25)
    assert sum(len(batch["label"]) for batch in data.map(lambda b: b, num_parallel_calls=4)) == N
    assert len(calls) == 4


def test_tensors_that_are_kept_keep_their_values(path: Path) -> None:
    """They may lie in the memory that batches are read into."""
    ds = UniRecordDataset(path, columns=["x", "label", "boxes"], shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    kept = list(unirecord.tf.dataset(ds, 4, prefetch=1, num_threads=1))
    assert [int(i) for batch in kept for i in batch["label"]] == order
    for batch in kept:
        assert np.array_equal(batch["x"].numpy(), np.repeat(batch["label"].numpy()[:, None], 4, axis=1))
        assert [len(boxes) for boxes in batch["boxes"].to_list()] == (batch["label"].numpy() % 3).tolist()


def test_a_state_counted_in_steps_is_exact_whatever_reads_ahead(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["label"], shuffle=True, seed=7)
    order = ds.order.row_ids().tolist()
    data = iter(unirecord.tf.dataset(ds, 8).map(lambda b: b, num_parallel_calls=2).prefetch(4))
    seen = [int(i) for _ in range(5) for i in next(data)["label"]]
    assert seen == order[:40]
    state = {**ds.state_dict(), "epoch": 0, "position": 40}
    rest = []
    for rank in range(3):
        again = UniRecordDataset(path, rank, 3, columns=["label"], shuffle=True, seed=7)
        again.load_state_dict(state)
        rest += [int(i) for batch in unirecord.tf.dataset(again, 8) for i in batch["label"]]
    assert sorted(rest) == sorted(order[40:])


def test_batches_that_are_left_early_leave_no_threads(path: Path) -> None:
    def left_early() -> None:
        next(iter(unirecord.tf.dataset(UniRecordDataset(path, columns=["label"]), 4)))

    # TensorFlow's own pools come with the first pass
    left_early()
    before = held()
    for _ in range(3):
        left_early()
    assert_nothing_more(before, POOLS)


def labels_of(batch: Any) -> Any:
    return batch["label"]


def rows_of_a_batch(batch: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(batch)


def counted_in_a_graph(data: Any) -> int:
    @tf.function
    def batches() -> Any:
        count = 0
        for _ in data:
            count += 1
        return count

    return int(batches())


@pytest.mark.parametrize(
    "made",
    [
        lambda data: data,
        lambda data: data.prefetch(2),
        lambda data: data.map(labels_of),
        lambda data: data.unbatch().batch(7),
        lambda data: data.unbatch().shuffle(10).take(50).cache().repeat(2),
        lambda data: data.concatenate(data),
        lambda data: tf.data.Dataset.zip(data, data),
        lambda data: tf.data.Dataset.sample_from_datasets([data, data], stop_on_empty_dataset=True),
        lambda data: data.flat_map(rows_of_a_batch),
        lambda data: data.interleave(rows_of_a_batch),
        lambda data: tf.distribute.MirroredStrategy(["CPU:0"]).experimental_distribute_dataset(data),
        lambda data: tf.distribute.get_strategy().experimental_distribute_dataset(data),
    ],
)
def test_what_is_made_of_a_tf_dataset_keeps_it_open_and_nothing_else_does(path: Path, made: Any) -> None:
    data = made(unirecord.tf.dataset(UniRecordDataset(path, columns=["label"]), 4))
    gc.collect()
    assert sum(1 for _ in data) > 0

    assert counted_in_a_graph(data) > 0
    passes = iter(data)
    next(passes)
    del data
    gc.collect()
    assert sum(1 for _ in passes) > 0
    del passes
    gc.collect()
    assert [kept for kept in gc.get_objects() if isinstance(kept, UniRecordDataset)] == []


def rows_of(data: Iterable[Any]) -> list[int]:
    return [int(i) for batch in data for i in batch["label"]]


@pytest.mark.parametrize("taken", [0, 3, 10])
def test_after_a_resumed_pass_every_pass_is_whole(path: Path, taken: int) -> None:
    """At the end of an epoch, the next one follows: tf.data takes an empty pass for an error."""
    ds = UniRecordDataset(path, columns=["x", "label"], shuffle=True)
    orders = []
    for epoch in range(4):
        ds.set_epoch(epoch)
        orders.append(ds.order.row_ids().tolist())
    ds.set_epoch(0)
    batches = iter(ds.batches(10))
    for _ in range(taken):
        next(batches)
    again = UniRecordDataset(path, columns=["x", "label"], shuffle=True)
    again.load_state_dict(ds.state_dict())
    data = unirecord.tf.dataset(again, 10)
    passes = [rows_of(data) for _ in range(3)]
    assert passes == ([orders[0][10 * taken :], *orders[1:3]] if taken < 10 else orders[1:4])


def test_resumed_twice_in_and_between_epochs_and_two_further_is_as_if_never_stopped(path: Path) -> None:
    """By a state that counts steps, each time in a job that begins anew."""

    def made(state: dict[str, Any] | None) -> tuple[UniRecordDataset, tf.data.Dataset]:
        ds = UniRecordDataset(path, columns=["label"], shuffle=True, seed=5)
        if state is not None:
            ds.load_state_dict(state)
        return ds, unirecord.tf.dataset(ds, 10)

    expected = []
    for epoch in range(5):
        ds, _ = made(None)
        ds.set_epoch(epoch)
        expected.append(ds.order.row_ids().tolist())
    found: list[int] = []
    state = None
    for steps in (2, 3, 5, 10):  # of ten, which an epoch has
        ds, data = made(state)
        found += rows_of(itertools.islice(data, steps))
        state = {**ds.state_dict(), "epoch": (len(found) - 1) // N, "position": (len(found) - 1) % N + 1}
    ds, data = made(state)
    assert [found[:N], found[N:], rows_of(data), rows_of(data), rows_of(data)] == expected


@pytest.mark.parametrize("method", ["repeat", "take", "skip", "cut by steps"])
def test_a_pass_has_one_order_whatever_is_made_of_it(path: Path, method: str) -> None:
    """Each iteration is the next epoch, also of the datasets that methods of TensorFlow's make."""
    ds = UniRecordDataset(path, columns=["label"], shuffle=True, seed=5)
    orders = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        orders.append(ds.order.row_ids().tolist())
    ds.set_epoch(0)
    data = unirecord.tf.dataset(ds, 10)
    if method == "repeat":
        assert rows_of(data.repeat(3)) == orders[0] + orders[1] + orders[2]
    elif method == "cut by steps":  # as fit(steps_per_epoch=5) does
        running = iter(data.repeat())
        cut = [rows_of(itertools.islice(running, 5)) for _ in range(6)]
        assert [cut[i] + cut[i + 1] for i in (0, 2, 4)] == orders
    else:
        made, kept = (data.take(7), slice(70)) if method == "take" else (data.skip(7), slice(70, None))
        assert [rows_of(made) for _ in range(3)] == [order[kept] for order in orders]


def batches_of_epochs(ds: UniRecordDataset, batch_size: int, epochs: int, **options: Any) -> list[int]:
    """How many batches each epoch of a fit trains on."""
    counted: list[int] = []

    class Count(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            counted.append(0)

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            counted[-1] += 1

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = unirecord.tf.dataset(ds, batch_size).map(
        lambda b: (tf.cast(b["label"], tf.float32)[:, None] / 100,) * 2
    )
    model.fit(data, epochs=epochs, shuffle=False, verbose=0, callbacks=[Count()], **options)
    return counted


@pytest.mark.parametrize("taken", [0, 2, 4, 5])
@pytest.mark.parametrize("options", [{}, {"steps_per_epoch": 5}], ids=str)
def test_fit_on_a_resumed_dataset_runs_the_rest_and_then_whole_epochs(
    path: Path, taken: int, options: dict[str, Any]
) -> None:
    ds = UniRecordDataset(path, columns=["label"], shuffle=True)
    batches = iter(ds.batches(20))
    for _ in range(taken):
        next(batches)
    again = UniRecordDataset(path, columns=["label"], shuffle=True)
    again.load_state_dict(ds.state_dict())
    assert len(unirecord.tf.dataset(again, 20)) == 5
    if 0 < taken < 5:
        with pytest.warns(UserWarning, match="ran out of data"):
            counted = batches_of_epochs(again, 20, 3, **options)
    else:
        counted = batches_of_epochs(again, 20, 3, **options)
    assert counted == [5 - taken % 5, 5, 5]


def test_an_epoch_with_a_corrupt_batch_does_not_shorten_the_others(tmp_path: Path) -> None:
    ds = UniRecordDataset(
        damaged(tmp_path / "a.urec", 105), columns=["label", "b"], shuffle=True, on_corrupt="skip"
    )
    with pytest.warns(UserWarning, match="ran out of data"):
        assert batches_of_epochs(ds, 1, 3) == [11, 11, 11]
    half = damaged(tmp_path / "b.urec", 105, 106)  # one batch of two in some epochs
    ds = UniRecordDataset(half, columns=["label", "b"], shuffle=True, on_corrupt="skip")
    pairs = []
    for epoch in range(100):
        ds.set_epoch(epoch)
        pairs.append({frozenset(pair.tolist()) for pair in ds.order.row_ids().reshape(-1, 2)})
    first = next(i for i in range(99) if {5, 6} in pairs[i] and {5, 6} not in pairs[i + 1])
    ds.set_epoch(first)
    with pytest.warns(UserWarning, match="ran out of data"):
        assert batches_of_epochs(ds, 2, 2) == [5, 6]


def test_refresh_and_close_reach_it(tmp_path: Path) -> None:
    with Writer(tmp_path / "set", {"label": "int64"}) as writer:
        writer.write_batch({"label": list(range(8))})
    ds = UniRecordDataset(tmp_path / "set")
    data = unirecord.tf.dataset(ds, 4)
    with unirecord.append(tmp_path / "set") as writer:
        writer.write_batch({"label": list(range(8, 16))})
    assert ds.refresh()
    with pytest.raises(tf.errors.OpError, match=r"call unirecord\.tf\.dataset again"):
        rows_of(data)
    assert rows_of(unirecord.tf.dataset(ds, 4)) == list(range(16))
    data = unirecord.tf.dataset(ds, 4)
    ds.close()
    with pytest.raises(tf.errors.OpError, match="closed"):
        rows_of(data)


def damaged(path: Path, *corrupt: int) -> Path:
    """12 rows, those of these bytes (from 100 on) corrupt."""
    with Writer(path, {"label": "int64", "b": {"type": "uint8", "shape": [64]}, "r": "bytes"}) as writer:
        for i in range(12):
            writer.write(
                {"label": i, "b": np.full(64, 100 + i, np.uint8), "r": bytes(5_000)}
            )  # large rows have digests of their own
    raw = bytearray(path.read_bytes())
    for byte in corrupt:
        raw[raw.find(bytes([byte]) * 64) + 3] ^= 1
    path.write_bytes(raw)
    return path


def test_full_batches_and_skipped_rows_go_together(tmp_path: Path) -> None:
    ds = UniRecordDataset(damaged(tmp_path / "a.urec", 105), on_corrupt="skip")
    assert rows_of(unirecord.tf.dataset(ds, 3, drop_last=True)) == [i for i in range(12) if i != 5]


def test_refresh_reaches_a_dataset_that_skips(tmp_path: Path) -> None:
    with Writer(tmp_path / "set", {"label": "int64"}) as writer:
        writer.write_batch({"label": list(range(8))})
    ds = UniRecordDataset(tmp_path / "set", on_corrupt="skip")
    data = unirecord.tf.dataset(ds, 4)
    with unirecord.append(tmp_path / "set") as writer:
        writer.write_batch({"label": list(range(8, 16))})
    assert ds.refresh()
    with pytest.raises(tf.errors.OpError, match=r"call unirecord\.tf\.dataset again"):
        rows_of(data)


def test_a_transform_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"view\(transform=None\)"):
        unirecord.tf.dataset(UniRecordDataset(path, columns=["x"], transform=lambda sample: sample), 4)


def test_a_repetition_begins_when_it_is_asked_for(tmp_path: Path) -> None:
    with Writer(tmp_path / "nine.urec", {"i": "int64"}) as writer:
        for i in range(9):
            writer.write({"i": i})
    for round_ in range(40):  # what reads ahead by itself is sometimes too late to be seen
        ds = UniRecordDataset(tmp_path / "nine.urec", shuffle=True, seed=round_)
        repeated = iter(unirecord.tf.dataset(ds, 9, num_threads=1).repeat())
        next(repeated)
        ds[0]
        ds.set_epoch(7)
        assert next(repeated)["i"].numpy().tolist() == ds.order.row_ids().tolist()
