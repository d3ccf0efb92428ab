"""Pages are made by templates alone: each is used, each escapes all text, and no module of Python makes HTML."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hostile_markup import HOSTILE, Parsed
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import nodes

import unirecord
from unirecord import MissingError, UniRecordDataset, Writer
from unirecord.cli.main import main
from unirecord.inspect import markup, reports
from unirecord.inspect.markup import render, shown, templates
from unirecord.inspect.notebook import schema_html
from unirecord.inspect.server import ViewServer

PACKAGE = Path(unirecord.__file__).parent
FOLDER = PACKAGE / "inspect" / "templates"
NAMES = sorted(path.name for path in FOLDER.iterdir())
PAGES = [name for name in NAMES if name.endswith(".html")]
# What a browser knows as an element, and the beginning of a document.
TAG = re.compile(
    r"<(!doctype|/?(a|article|body|br|button|caption|details|div|em|figure|form|g|h[1-6]|head|header|html|i|img|input"
    r"|label|li|line|link|main|meta|nav|ol|option|p|polyline|pre|rect|script|section|select|span|strong|style|summary"
    r"|svg|table|tbody|td|th|thead|title|tr|ul)(\s[^<>]*)?/?>)",
    re.IGNORECASE,
)


def parsed(name: str) -> nodes.Template:
    source: str = templates().loader.get_source(templates(), name)[0]
    tree: nodes.Template = templates().parse(source)
    return tree


def literals(tree: ast.AST) -> Iterator[str]:
    """All literal texts but docstrings, whole and as parts of f-strings."""
    said = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in said:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode("latin-1")


def test_every_template_is_used() -> None:
    modules = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    asked = {text for source in modules for text in literals(ast.parse(source)) if text in NAMES}
    kinds = (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)
    found: set[str] = set()
    while new := asked - found:
        found |= new
        asked |= {
            use.template.value
            for name in new
            for use in parsed(name).find_all(kinds)
            if isinstance(use.template, nodes.Const)
        }
    assert found == set(NAMES)


def test_every_macro_is_used() -> None:
    whole = "".join((FOLDER / name).read_text(encoding="utf-8") for name in PAGES)
    made = [macro.name for name in PAGES for macro in parsed(name).find_all(nodes.Macro)]
    assert len(made) > 10
    assert [name for name in made if not re.search(rf"(?<!macro )\b{name}\(", whole)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_template_escapes_all_text(name: str) -> None:
    """None is exempt, no part of one turns it off, nothing is declared safe, and every attribute stands in quotes."""
    assert templates().autoescape is True
    assert "safe" not in templates().filters
    tree = parsed(name)
    templates().get_template(name)  # compiles
    assert not [*tree.find_all((nodes.EvalContextModifier, nodes.MarkSafe, nodes.MarkSafeIfAutoescape))]
    source = (FOLDER / name).read_text(encoding="utf-8")
    assert not re.search(r"\s[\w-]+=\s*\{\{", source)
    assert not re.search(r"<script|javascript:|\son\w+\s*=|https?:|@import|url\(", source, re.IGNORECASE)


@pytest.mark.parametrize("wrong", ["{{ x | safe }}", "{{ y }}"], ids=["declared safe", "not given"])
def test_an_engine_that_would_let_something_through_refuses(wrong: str) -> None:
    with pytest.raises((jinja2.TemplateError,)):
        templates().from_string(wrong).render(x=HOSTILE)


@given(st.text(), st.text())
def test_any_text_is_text_and_any_attribute_an_attribute(text: str, value: str) -> None:
    macro = templates().from_string(
        '{% import "components.html" as c %}{{ c.cell(text) }}{{ c.pager(value, ((text, value, value),)) }}'
    )
    found = Parsed(shown(macro.render(text=text, value=value)).encode())
    assert found.tags[0] == ("nav", {"class": "pager", "aria-label": shown(value)})
    link = {"href": shown(value), **({"rel": shown(value)} if value else {})}
    assert found.tags[1:] == [("a", link)]
    assert "".join(found.texts).count(shown(text)) >= 1 + bool(text)


def test_no_module_makes_html() -> None:
    wrong = {
        str(path.relative_to(PACKAGE)): tags
        for path in PACKAGE.rglob("*.py")
        if (
            tags := [
                found[0]
                for text in literals(ast.parse(path.read_text(encoding="utf-8")))
                for found in TAG.finditer(text)
            ]
        )
    }
    assert wrong == {
        # by which it knows its own pages
        "inspect/reports.py": ["<!doctype", '<html lang="en" data-made-by="unirecord">'],
        # by which it knows the XML of CVAT
        "convert/sources/images.py": ["<meta>"],
    }


def test_the_engine_alone_knows_jinja() -> None:
    users = {path.name for path in PACKAGE.rglob("*.py") if "jinja2" in path.read_text(encoding="utf-8")}
    assert users == {"markup.py"}


def test_pages_have_one_beginning() -> None:
    page = render("notebook.html", said=[], text="", description=None, head=(), rows=(), left=())
    assert page.startswith("<div")
    whole = templates().get_template("layout.html").render(policy=markup.POLICY)
    assert whole.encode().startswith(reports._BEGINNING)


def test_the_style_sheet_touches_nothing_of_a_page_that_a_piece_stands_in() -> None:
    """What stands outside of all braces is a selector, and each of them names what is ours."""
    sheet, depth, outside = (
        re.sub(r"/\*.*?\*/", "", (FOLDER / "style.css").read_text(), flags=re.DOTALL),
        0,
        "",
    )
    for character in sheet:
        depth += {"{": 1, "}": -1}.get(character, 0)
        outside += character if not depth else ""
    assert depth == 0
    assert re.split(r"\s*\}\s*", outside.strip().strip("}").strip()) == [
        ".unirecord",
        'html[data-made-by="unirecord"]',
        "body.unirecord",
    ]


@pytest.fixture
def no_jinja(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in {"jinja2", *(name for name in sys.modules if name.startswith("jinja2."))}:
        monkeypatch.setitem(sys.modules, loaded, None)


def test_without_jinja_what_is_asked_for_says_what_to_install_and_notebooks_show_the_text(
    tmp_path: Path, no_jinja: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(tmp_path / "a", {"n": "int32"}) as writer:
        writer.write({"n": 1})
    path = str(tmp_path / "a")
    with UniRecordDataset(path) as ds:
        shown_by: list[Any] = [ds, ds.schema, ds.head(1)]
        assert [one._repr_html_() for one in shown_by] == [None, None, None]
        assert "n" in repr(ds.schema)
        for asked in (lambda: unirecord.show(ds), lambda: schema_html(ds.schema), lambda: ViewServer(path)):
            with pytest.raises(MissingError, match=r"pip install 'unirecord\[view\]'"):
                asked()
    main(["inspect", path])
    for command in (
        ["inspect", path, "--html", str(tmp_path / "p.html")],
        ["diff", path, path, "--html", str(tmp_path / "p.html")],
        ["report", str(tmp_path), str(tmp_path / "p.html")],
        ["view", path],
    ):
        capsys.readouterr()
        assert main(command) == 2, command
        assert "pip install 'unirecord[view]'" in capsys.readouterr().err, command
    assert not (tmp_path / "p.html").exists()
