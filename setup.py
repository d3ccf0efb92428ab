"""Adds the C modules to the build, for the stable ABI of Python 3.10 on; all else stands in pyproject.toml.

Free-threaded Python has no stable ABI: there, they are for the one Python that builds them.
"""

import runpy
import sysconfig

from setuptools import setup

free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

setup(
    cffi_modules=runpy.run_path("unirecord/_build.py")["modules"](),
    options={} if free_threaded else {"bdist_wheel": {"py_limited_api": "cp310"}},
)
