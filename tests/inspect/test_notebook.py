"""What a notebook shows of datasets, samples, batches and schemas, in which nothing of the data can be markup."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pytest
from hostile_markup import HOSTILE, NAME, SCHEMA, Parsed, row

import unirecord
from unirecord import MissingError, UniRecordDataset, Writer, describe, show


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notebook") / "data"
    with Writer(path, SCHEMA, index=["label"], max_part_bytes=20_000) as writer:
        for i in range(40):
            writer.write(row(i))
    return path


def parsed(html: Any) -> Parsed:
    """A piece of a page, which has no script, and asks for nothing."""
    assert isinstance(html, str)
    found = Parsed(html.encode())
    assert not {"script", "iframe", "link", "form"} & {tag for tag, _ in found.tags}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert not [c for c in html if not c.isprintable() and c != "\n"]
    return found


def test_everything_is_shown_and_nothing_in_the_data_is_markup(path: Path) -> None:
    with UniRecordDataset(path, shuffle=True, seed=1) as ds:
        batch = next(iter(ds.batches(16)))
        shown = {
            "dataset": ds._repr_html_(),
            "head": ds.head(3)._repr_html_(),  # type: ignore[attr-defined]
            "batch": show(batch)._repr_html_(),
            "sample": show(ds[0]).html,
            "schema": ds.schema._repr_html_(),
            "description": show(describe(path)).html,
        }
        assert show(ds).html == shown["dataset"]
    for name, html in shown.items():
        found = parsed(html)
        assert NAME in found.text, name
        pictures = [tag for tag, _ in found.tags if tag == "img"]
        assert bool(pictures) == (name not in ("schema", "description")), name
        assert len(html) < 400_000
    assert HOSTILE[:20] in parsed(shown["head"]).text
    assert "batch of 16" in parsed(shown["batch"]).text
    assert "and 8 more" in parsed(shown["batch"]).text
    assert "svg" in dict(parsed(shown["dataset"]).tags)


def test_looking_moves_no_position(path: Path) -> None:
    with UniRecordDataset(path, shuffle=True, seed=1, columns=["label"]) as ds:
        pass_ = iter(ds.batches(8))
        next(pass_)
        before = ds.state_dict()
        ds.head()
        ds.sample(3)
        ds._repr_html_()
        assert ds.state_dict() == before
        assert len([*pass_]) == 4


def test_head_and_sample_are_samples_of_the_epoch(path: Path) -> None:
    with UniRecordDataset(path, 1, 2, shuffle=True, columns=["label", "wave"]) as ds:
        assert [s["label"] for s in ds.head(4)] == [ds[i]["label"] for i in range(4)]
        assert len(ds.head(1000)) == len(ds) == 20
        drawn = ds.sample(7, seed=3)
        assert [s["label"] for s in drawn] == [s["label"] for s in ds.sample(7, seed=3)]
        assert sorted(s["label"] for s in ds.sample(50)) == sorted(s["label"] for s in ds)
        assert ds.head(0) == []
        for wrong in (-1, 1.5):
            with pytest.raises((ValueError, TypeError)):
                ds.head(wrong)  # type: ignore[arg-type]


def test_a_transform_shows_what_it_returns_and_mixtures_and_no_rows_are_shown(path: Path) -> None:
    with UniRecordDataset(path, transform=lambda sample: f"<b>{sample['label']}") as ds:
        assert "<b>0" in parsed(ds.head(1)._repr_html_()).text  # type: ignore[attr-defined]
        assert "svg" in dict(parsed(ds._repr_html_()).tags)
    with UniRecordDataset(path, columns=["label"]) as ds:
        none = ds.view(where="label > 99")
        parsed(none._repr_html_())
        parsed(
            unirecord.mix({"a": ds, "b": ds.view(where="label == 1")}, weights={"a": 1, "b": 1})._repr_html_()
        )
        assert none.sample() == none.head() == []
    assert ds._repr_html_() is None  # closed: the text stays
    assert "UniRecordDataset" in repr(ds)


def test_nulls_of_a_batch_are_shown_as_nulls(path: Path) -> None:
    with UniRecordDataset(path, columns=["score", "image"]) as ds:
        texts = parsed(show(next(iter(ds.batches(5)))).html).texts
    assert texts.count("null") == 3  # scores 0 and 4, picture 3


def test_a_plot_has_bars_of_the_selected_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, Any]] = []
    ax = SimpleNamespace(
        bar=lambda x, heights, **_: calls.append((x, heights)),
        set_xlabel=lambda text: None,
        set_ylabel=lambda text: None,
    )
    with UniRecordDataset(path, where="label >= 3") as ds:
        for column in ("label", "name", "image", "score"):
            assert unirecord.plot(ds, column, ax=ax) is ax
        assert [int(np.sum(heights)) for _, heights in calls[:2]] == [16, 16]
        assert all("$" not in str(x) for x in calls[1][0])
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(MissingError, match="pip install matplotlib"):
            unirecord.plot(ds, "label")


def test_completion_offers_public_names_alone(path: Path) -> None:
    with UniRecordDataset(path) as ds:
        offered = {name for name in dir(ds) if not name.startswith("__")}
        assert not [name for name in offered if name.startswith("_")]
        assert {"head", "sample", "order", "batches", "schema"} <= offered
    names = {name for name in dir(unirecord) if not name.startswith("__")}
    assert names == {n for n in unirecord.__all__ if n != "__version__"} | set(unirecord._MODULES)


def test_what_is_printed_says_what_it_is(path: Path) -> None:
    with UniRecordDataset(path, columns=["label", "score"]) as ds:
        assert repr(ds.batches(8)) == f"BatchLoader(batches of 8 of {ds!r})"
        made = ds.pipeline().map(dict).batch(4)
        assert repr(made) == "Pipeline(read label, score → map(dict) → batch(4))"


def test_completion_can_look_at_every_property() -> None:
    """Jedi, by which notebooks complete names, offers nothing at all for an object with a property of such a type."""
    for name in unirecord.__all__:
        public = getattr(unirecord, name)
        properties = {
            found: get_type_hints(value.fget).get("return")
            for found in (dir(public) if isinstance(public, type) else ())
            if isinstance(value := inspect.getattr_static(public, found), property) and resolvable(value.fget)
        }
        asked = {found: hint for found, hint in properties.items() if re.search(r"typing\.\w+\[", repr(hint))}
        assert not asked, name


def resolvable(function: Any) -> bool:
    try:
        get_type_hints(function)
    except NameError:  # a name for type checkers alone, which Jedi leaves alone too
        return False
    return True


class Bar:
    """What tqdm does that a bar needs; ``drawn`` has what was seen."""

    def __init__(self, **options: Any) -> None:
        self.options, self.n, self.total, self.closed = options, 0, None, False
        self.drawn: list[tuple[int, int | None]] = []

    def update(self, more: int) -> None:
        self.n += more
        self.drawn.append((self.n, self.total))

    def close(self) -> None:
        self.closed = True


def test_a_bar_of_tqdm_shows_how_far_a_call_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Bar] = []
    tqdm = SimpleNamespace(tqdm=lambda **options: made.append(Bar(**options)) or made[-1])
    monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm)
    with unirecord.progress_bar("verifying", "B") as progress:
        report = unirecord.verify(path, progress=progress)
    [bar] = made
    assert (bar.options["desc"], bar.options["unit"]) == ("verifying", "B")
    told = [done for done, _ in bar.drawn]
    assert 0 < told[-1] <= report.bytes
    assert told == sorted(told)
    assert {total for _, total in bar.drawn} == {report.bytes}
    assert bar.closed
    progress(3, 0)
    assert bar.drawn[-1] == (3, None)


def test_without_tqdm_a_bar_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        unirecord.progress_bar()
