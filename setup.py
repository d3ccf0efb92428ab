"""Adds the C modules to the build, for the stable ABI of Python 3.10 on; all else stands in pyproject.toml."""

import runpy

from setuptools import setup

setup(
    cffi_modules=runpy.run_path("unirecord/_build.py")["modules"](),
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
