"""For authors of backends and of programs: the conformance suite of stores, and fakes that keep real promises."""
