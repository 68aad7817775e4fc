"""What every test shares: one thread, and no deadline for Hypothesis on a busy machine."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("bytenmt", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("bytenmt")
