"""Tests of the gateway. A package, so that tests import each other as `tests.…`."""
