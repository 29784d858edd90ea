"""Write docs/troubleshooting.md. With --print, print the page, and the code and the text of each case, as JSON."""

from __future__ import annotations

import json
import sys

from tests.troubleshooting.page import PAGE, rendered, run_cases

sections = list(run_cases())
if "--print" in sys.argv:
    rows = {row.case.name: (row.code, row.text) for _, printed in sections for row in printed}
    json.dump({"page": rendered(sections), "rows": rows}, sys.stdout)
else:
    PAGE.write_text(rendered(sections), encoding="utf-8")
