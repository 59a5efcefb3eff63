"""``rota bench``: measurements of a running cluster."""

import click

from rota.client.cli.inputs.command_groups import Entry, LazyGroup, output_before
from rota.client.cli.inputs.options import examples


@click.group(
    cls=LazyGroup,
    entries={"slo": Entry("rota.client.cli.setup.bench_slo:slo", "Test a target for lateness.")},
    epilog=examples("rota bench slo --p99-lateness 25ms --rate 1000 --for 60s"),
)
@output_before
def bench() -> None:
    """Measure a running cluster."""
