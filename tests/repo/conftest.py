# SPDX-License-Identifier: Apache-2.0
"""Makes `generate`, which writes the reference, importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
