"""Where memories are kept: one file per backend, all with the same promises (`contract.py`)."""
