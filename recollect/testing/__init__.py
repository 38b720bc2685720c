"""For authors of backends and of programs: the conformance suite for stores, and fakes that keep real promises."""
