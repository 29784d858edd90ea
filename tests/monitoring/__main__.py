"""Write the files of deploy/monitoring that are made of others."""

from tests.monitoring import MANIFEST, manifest

MANIFEST.write_text(manifest())
