"""ds.pipeline(): contents and order, filters, several of one, batches, errors, randomness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_rows import ROWS, Twice, later, number, numbers, opened, written

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.errors import CorruptionError, TransformError
from unirecord.pipeline.operators import SkipSample


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pipeline") / "set")


def test_samples_come_in_the_order_of_the_dataset(path: Path) -> None:
    ds = opened(path)
    for build in (
        lambda p: p,
        lambda p: p.map(later, threads=5),
        lambda p: p.map(later, threads=4).map(later).map(later, threads=3),
        lambda p: p.map(later).batch(7).unbatch().map(later, threads=2),
        lambda p: p.batch(16).map_batch(lambda batch: batch, threads=3),
    ):
        ds.set_epoch(0)
        assert numbers(build(ds.pipeline())) == ds.order.row_ids().tolist()


def test_stored_samples_and_batches_are_what_the_dataset_gives(path: Path) -> None:
    ds = opened(path)
    ds.set_epoch(0)
    for sample, row in zip(ds.pipeline(), ds.order.row_ids().tolist(), strict=True):
        assert number(sample) == row
        assert sample["name"] == f"n{row}"
        assert sample["blob"] == bytes([row % 256]) * (row % 7)
        assert sample["weight"] == (None if row % 5 == 0 else row)
    ds.set_epoch(0)
    expected = list(ds.batches(32))
    ds.set_epoch(0)
    for batch, want in zip(ds.pipeline().batch(32), expected, strict=True):
        assert np.array_equal(batch["x"], want["x"])
        assert np.ma.allequal(batch["weight"], want["weight"])
        assert batch["blob"].to_list() == want["blob"].to_list()


def test_epochs_follow_each_other_and_lengths_are_known(path: Path) -> None:
    ds = opened(path)
    loader = ds.pipeline().map(lambda sample: sample).batch(64, drop_last=True)
    assert len(loader) == ROWS // 64
    assert len(ds.pipeline().batch(64)) == -(-ROWS // 64)
    assert len(ds.pipeline().batch(64, drop_last=True).unbatch()) == ROWS // 64 * 64
    epochs = [numbers(loader) for _ in range(2)]
    assert epochs[0] != epochs[1]
    for epoch, found in enumerate(epochs):
        ds.set_epoch(epoch)
        assert found == ds.order.row_ids().tolist()[: ROWS // 64 * 64]
    with pytest.raises(TypeError, match="length is not known"):
        len(ds.pipeline().filter(lambda sample: True))


def test_operators_on_columns_leave_the_others_alone(path: Path) -> None:
    ds = opened(path)
    pipeline = (
        ds.pipeline().map(lambda x, i: (x + 1, -i), columns=["x", "i"]).map(str.upper, columns=["name"])
    )
    for sample, row in zip(pipeline, ds.order.row_ids().tolist(), strict=True):
        assert sample["x"].tolist() == [row + 1] * 4
        assert (int(sample["i"]), sample["name"]) == (-row, f"N{row}")
    with pytest.raises(ValueError, match="no column 'y'"):
        ds.pipeline().map(abs, columns=["y"])
    ds.set_epoch(0)
    with pytest.raises(TransformError, match="tuple of 2"):
        list(ds.pipeline().map(lambda x, i: x, columns=["x", "i"]))


def test_random_operators_give_a_sample_the_same_on_any_number_of_threads_and_ranks(path: Path) -> None:
    def noise(sample: Any, rng: np.random.Generator) -> dict[str, Any]:
        return {"i": sample["i"], "noise": rng.random(), "whole": int(rng.integers(1 << 40))}

    def more(noise: float, rng: np.random.Generator) -> float:
        return noise + rng.random()

    def of(ds: UniRecordDataset, threads: Any, epoch: int) -> dict[int, Any]:
        ds.set_epoch(epoch)
        pipeline = ds.pipeline().map(noise, random=True, threads=threads)
        pipeline = pipeline.map(more, columns=["noise"], random=True)
        return {number(sample): (sample["noise"], sample["whole"]) for sample in pipeline}

    whole = of(opened(path), "auto", 3)
    assert len(set(whole.values())) == ROWS
    assert of(opened(path), 4, 3) == whole
    assert {**of(opened(path, 0, 2), 1, 3), **of(opened(path, 1, 2), 3, 3)} == whole
    assert of(UniRecordDataset(path, seed=9), 2, 3) == whole  # in another order
    assert not set(of(opened(path), 1, 4).values()) & set(whole.values())
    other_seed = of(UniRecordDataset(path, seed=10), 2, 3)
    assert not set(other_seed.values()) & set(whole.values())


def test_errors_name_the_operator_the_row_and_its_part(path: Path) -> None:
    ds = opened(path)

    def fail(sample: dict[str, Any]) -> dict[str, Any]:
        if number(sample) == 123:
            raise ZeroDivisionError("here")
        return sample

    place = ds.order.row_ids().tolist().index(123)
    for threads in (1, 4, "auto"):
        ds.set_epoch(0)
        found = []
        results = ds.pipeline().map(later, threads=2).map(fail, threads=threads)
        message = r"map\(.*fail.*\) failed on row 123 \(row \d+ of .*urec\)"
        with pytest.raises(TransformError, match=message) as caught:
            found.extend(map(number, results))
        assert found == ds.order.row_ids().tolist()[:place]  # all that came before it
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert (caught.value.row, caught.value.path) == (123, ds.locate(123)[0])
    ds.set_epoch(0)
    with pytest.raises(TransformError, match="batch of 64 samples that begins with row"):
        list(ds.pipeline().batch(64).map_batch(lambda batch: 1 // 0))
    ds.set_epoch(0)
    with pytest.raises(TransformError, match=r"filter\(.*failed on row \d+ .*truth value"):
        list(ds.pipeline().filter(lambda x: x > 0, columns=["x"]))  # four answers for one sample


@pytest.mark.parametrize("error", [StopIteration, KeyError, SystemExit, KeyboardInterrupt])
def test_no_error_of_an_operator_ends_the_epoch_without_a_word(
    path: Path, error: type[BaseException]
) -> None:
    def fail(sample: Any) -> Any:
        raise error

    expected = TransformError if issubclass(error, Exception) else error
    with pytest.raises(expected):
        list(opened(path).pipeline().map(fail))


def test_samples_can_be_left_out_by_name(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def keep(sample: Any) -> Any:
        if number(sample) % 100 == 7:
            raise SkipSample("no use")
        return sample

    found = numbers(opened(path).pipeline().map(keep, threads=2).batch(8))
    assert found == [row for row in opened(path).order.row_ids().tolist() if row % 100 != 7]
    for row in (7, 107, 207, 307):
        assert f"row {row} (" in caplog.text
    assert "no use" in caplog.text


def test_corrupt_rows_are_left_out_or_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Writer(tmp_path / "a.urec", {"i": "int64", "blob": "bytes"}) as writer:
        for i in range(100):
            writer.write({"i": i, "blob": bytes([i]) * 5000})
    data = bytearray((tmp_path / "a.urec").read_bytes())
    data[data.index(bytes([77]) * 5000) + 20] ^= 1
    (tmp_path / "a.urec").write_bytes(data)
    with pytest.raises(CorruptionError):
        list(UniRecordDataset(tmp_path / "a.urec").pipeline().map(lambda s: s))
    ds = UniRecordDataset(tmp_path / "a.urec", on_corrupt="skip")
    pipeline = ds.pipeline().map(lambda s: s).batch(9)
    assert numbers(pipeline) == [i for i in range(100) if i != 77]
    assert "row 77" in caplog.text
    loader = ds.pipeline().map(lambda s: s)
    results = iter(loader)
    for _ in range(77):
        next(results)
    again = UniRecordDataset(tmp_path / "a.urec", on_corrupt="skip").pipeline().map(lambda s: s)
    again.load_state_dict(loader.state_dict())
    assert numbers(again) == list(range(78, 100))


def test_what_cannot_be_is_refused_when_it_is_asked_for(path: Path) -> None:
    pipeline = opened(path).pipeline()
    for wrong, error in (
        (lambda: pipeline.map(3), TypeError),
        (lambda: pipeline.map(abs, threads=0), ValueError),
        (lambda: pipeline.map(abs, threads=2, processes=2), ValueError),
        (lambda: pipeline.map(abs, columns="x"), ValueError),
        (lambda: pipeline.map(abs, random=1), TypeError),
        (lambda: pipeline.map(Twice()), ValueError),
        (lambda: pipeline.map(None), TypeError),
        (lambda: pipeline.filter(None), TypeError),
        (lambda: pipeline.flat_map(None), TypeError),
        (lambda: pipeline.batch(8).map_batch(None), TypeError),
        (lambda: pipeline.map(abs, vectorised=True), ValueError),
        (lambda: pipeline.map_batch(abs), ValueError),
        (lambda: pipeline.unbatch(), ValueError),
        (lambda: pipeline.batch(0), ValueError),
        (lambda: pipeline.batch(8).map(abs), ValueError),
        (lambda: pipeline.batch(8).batch(8), ValueError),
        (lambda: pipeline.filter("nothing < 3"), unirecord.QueryError),
        (lambda: pipeline.prefetch(0), ValueError),
        (lambda: pipeline.apply(lambda p: None), TypeError),
        (lambda: opened(path).pipeline(cpus=0), ValueError),
        (lambda: opened(path).pipeline(memory="much"), ValueError),
    ):
        with pytest.raises(error):
            wrong()


def test_more_may_be_wanted_ahead_than_the_core_reads(path: Path) -> None:
    ds = opened(path)
    assert numbers(ds.pipeline().batch(1).prefetch(100_000)) == ds.order.row_ids().tolist()


def test_a_pipeline_stays_as_it_is(path: Path) -> None:
    ds = opened(path)
    pipeline = ds.pipeline().map(lambda sample: {**sample, "i": 1})
    other = pipeline.filter(lambda sample: False)
    assert numbers(pipeline) == [1] * ROWS
    assert numbers(other) == []
    assert numbers(pipeline.apply(lambda p: p.batch(50))) == [1] * ROWS
