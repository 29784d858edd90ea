"""The tables of errors in docs/http.md are those of ``gateway/errors.py``."""

from __future__ import annotations

import pytest

from gateway.errors import Challenged, GatewayError, Refused, ToolFault
from tests.error_table import PAGE, classes, described, tables, with_tables

BASES = {GatewayError, Refused, Challenged, ToolFault}


def test_the_page_has_the_tables_that_make_config_would_write() -> None:
    page = PAGE.read_text()
    assert page == with_tables(page), "docs/http.md is stale: make config"


def test_every_error_says_where_it_is_raised_and_what_a_client_should_do() -> None:
    assert {error for error in classes() if described(error) is None} == BASES


def test_every_slug_is_in_a_table() -> None:
    shown = tables()
    slugs = {error.slug for error in classes()}
    assert len(slugs) > 40
    assert {slug for slug in slugs if f"| `{slug}` |" not in shown} == set()


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="has no <!-- make config"):
        with_tables("# HTTP\n")
