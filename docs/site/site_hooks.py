"""What mkdocs does for the site: files beside docs/ that pages link to are pages, and nothing comes from a network."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((\.\./[^)#\s]+)\)")
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".md": ""}


WORKER = "worker_from_disk.js"
FROM_A_NETWORK = "https://unpkg.com/iframe-worker/shim"  # what the theme's search asks for in pages on a disk


def anchor(title: str, separator: str) -> str:
    """The anchor of a title, as the hosts of repositories make it, so that one link is right in both."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def _outside(page: str, link: str) -> str | None:
    """The path from the project's root of what a page of docs/ links to, where that is not in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for every file outside docs/ that a page links to."""
    for page in list(files.documentation_pages()):
        for link in LINK.findall(page.content_string):
            path = _outside(page.src_uri, link)
            if path is None or files.get_file_from_path(f"files/{path}.md"):
                continue
            text = (ROOT / path).read_text("utf-8")
            language = LANGUAGES[Path(path).suffix]
            content = text if path.endswith(".md") else f"# {path}\n\n````{language}\n{text}\n````\n"
            files.append(File.generated(config, f"files/{path}.md", content=content))
    script = Path(__file__).with_name(WORKER).read_text("utf-8")
    files.append(File.generated(config, f"assets/{WORKER}", content=script))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads such links to those pages."""

    def to_page(found: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, found[1])
        if path is None:
            return found[0]
        return f"]({posixpath.relpath(f'files/{path}.md', posixpath.dirname(page.file.src_uri) or '.')})"

    return LINK.sub(to_page, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Takes that script of the search from the site itself."""
    own = posixpath.relpath(f"assets/{WORKER}", posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace(FROM_A_NETWORK, own)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for the page that says that there is no such page."""
    return output_content.replace(FROM_A_NETWORK, f"assets/{WORKER}")
