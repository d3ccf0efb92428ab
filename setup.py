"""Adds the C module to the build, for the stable ABI of Python 3.10 on; all else stands in pyproject.toml."""

from setuptools import setup

setup(cffi_modules=["unirecord/_build.py:ffibuilder"], options={"bdist_wheel": {"py_limited_api": "cp310"}})
