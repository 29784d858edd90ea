"""Write docs/troubleshooting.md."""

from __future__ import annotations

from tests.troubleshooting.page import PAGE, rendered, run_cases

PAGE.write_text(rendered(run_cases()), encoding="utf-8")
