"""Adds the C modules and the long description to the build; all else stands in pyproject.toml.

The C modules are for the stable ABI of Python 3.11 on. Free-threaded Python has no stable ABI: there, they are for the
one Python that builds them.
"""

import re
import runpy
import sysconfig
import tomllib
from pathlib import Path

from setuptools import setup

free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def long_description() -> str:
    """README.md as it is shown on a package index, where a link to a file of the repository needs its whole address."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = f"{project['urls']['Homepage']}/blob/main/"
    text = Path("README.md").read_text(encoding="utf-8")
    # A picture is to be its bytes, and not the page that shows it.
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{files.replace('/blob/', '/raw/')}", text)
    return re.sub(r"((?<!!)\[[^\]!]*\]\()(?![a-z]+:|#)", rf"\1{files}", text)


setup(
    cffi_modules=runpy.run_path("unirecord/_build.py")["modules"](),
    long_description=long_description(),
    long_description_content_type="text/markdown",
    options={} if free_threaded else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
