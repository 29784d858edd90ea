"""Write the files of deploy/monitoring that are made of others."""

from tests.monitoring import DASHBOARD, MANIFEST, manifest
from tests.monitoring.dashboard import dashboard

MANIFEST.write_text(manifest())
DASHBOARD.write_text(dashboard())
