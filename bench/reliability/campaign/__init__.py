"""What the campaigns of bench/reliability import: forks under limits, shards, inputs, pages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for bench/measuring
