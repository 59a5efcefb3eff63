"""Plugin of pytest: the fixture `rota_scheduler`, and the marker `rota_now`.

pytest loads this module in each of its runs, so that it imports nothing else of rota.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # For speed: most runs of pytest have no test of a job.
    from rota.testing.scheduler import VirtualScheduler

MARKER = "rota_now(instant): where the time of rota_scheduler begins, such as 2027-03-27T00:00:00Z"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def rota_scheduler(request: pytest.FixtureRequest) -> "VirtualScheduler":
    """A scheduler on virtual time, without jobs, whose time begins where `rota_now` says."""
    from rota.client.extras import named_extras

    with named_extras():
        from rota.testing.scheduler import START, VirtualScheduler

    marker = request.node.get_closest_marker("rota_now")
    if marker is None:
        return VirtualScheduler(START)
    if len(marker.args) != 1 or marker.kwargs:
        raise pytest.UsageError("rota_now takes one instant: rota_now('2027-03-27T00:00:00Z')")
    return VirtualScheduler(marker.args[0])
