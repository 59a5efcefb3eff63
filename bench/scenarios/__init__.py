"""All scenarios by name, in the order of a report."""

from bench.scenarios import chains, failures, fans, starts, stores, throughput, timers

SCENARIOS = {
    scenario.name: scenario
    for module in (throughput, starts, timers, chains, fans, failures, stores)
    for scenario in module.SCENARIOS
}
