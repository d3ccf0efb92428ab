"""Queries: which rows meet a condition on the scalar columns, found in the index without reading the data."""

from __future__ import annotations

from .query import Explanation, Query, compile_query

__all__ = ["Explanation", "Query", "compile_query"]
