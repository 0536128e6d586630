"""Settings for all tests."""

import torch
from hypothesis import settings

# Sizes drive the running time, not defects: a fixed, small number of examples and no deadline.
settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("default")
torch.set_num_threads(1)  # tiny tensors: threads cost more than they give
