"""Queries: which rows meet a condition on the scalar columns, found in the index without reading the data."""

from __future__ import annotations

from .explain import Explanation
from .query import Query, compile_query

__all__ = ["Explanation", "Query", "compile_query"]
