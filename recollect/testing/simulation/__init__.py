"""A whole small world on one seeded loop: processes, a store, clocks, models and callers, and much that goes wrong.

    python -m recollect.testing.simulation --seeds 1000
    python -m recollect.testing.simulation --seed 17 --trace

Several memories share one store, as processes do. Their calls to it are slow, refused, or done without an answer;
processes are killed and started again, clocks differ and jump, models and embedders fail, invent or never answer.
Meanwhile callers store, change, forget and search, and what must hold is written down on `paper.py`. The same seed
gives the same run to the last step.
"""
