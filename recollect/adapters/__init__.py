"""One file per framework that plugs in. Each needs its framework, and all see the same memory."""
