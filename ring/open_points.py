"""Open seats of the circle, and the search for the next one clockwise.

A *seat* is a point of the circle with the number of turns: of n points, seat n + 3 is point 3, one
turn later. So the numbers of the seats that a shard tries only grow.

When most nodes are full, a shard would pass thousands of closed seats; runs of closed seats are
therefore skipped at once, by path halving (Tarjan and van Leeuwen, 1984).
"""

from rota.ring.points import Circle


class OpenSeats:
    """The seats of *circle*, all open at first."""

    def __init__(self, circle: Circle) -> None:
        self._circle = circle
        self._onward = list(range(len(circle.owners) + 1))
        """For each point itself if it is open, else a later point; the last item is the end."""
        self._points_of: dict[int, list[int]] = {}
        for point, owner in enumerate(circle.owners):
            self._points_of.setdefault(owner, []).append(point)

    def close(self, owner: int) -> None:
        """Close the seats of an owner."""
        for point in self._points_of.pop(owner, ()):
            self._onward[point] = point + 1

    def owners(self) -> list[int]:
        """Return the owners of open seats, ascending."""
        return sorted(self._points_of)

    def owner_of(self, seat: int) -> int:
        """Return the owner of a seat."""
        return self._circle.owners[seat % len(self._circle.owners)]

    def first_from(self, seat: int) -> int:
        """Return the first open seat at or after *seat*; without one, a seat at least a turn on."""
        point_count = len(self._circle.owners)
        turns, point = divmod(seat, point_count)
        found = self._open_point(point)
        if found == point_count:
            turns, found = turns + 1, self._open_point(0)
        return turns * point_count + found

    def _open_point(self, point: int) -> int:
        onward = self._onward
        while onward[point] != point:
            onward[point] = point = onward[onward[point]]
        return point
