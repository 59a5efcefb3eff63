"""Commands about the program itself: profiles, completion, versions, local nodes, benchmarks."""
