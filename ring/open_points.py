"""Open points of the circle, and the search for the next one clockwise.

Indexes of points continue beyond the first turn: of n points, index n + 3 is point 3 in the second
turn. So the indexes that the search for a shard tries only grow.

When most nodes are full, the search would pass thousands of closed points; runs of closed points
are therefore skipped at once, by path halving (Tarjan and van Leeuwen, 1984).
"""

from rota.ring.points import Circle


class OpenPoints:
    """The points of *circle*, all open at first."""

    def __init__(self, circle: Circle) -> None:
        self._circle = circle
        self._next = list(range(len(circle.owners) + 1))
        """For each point, the point itself if it is open, else a later one; the last item is the
        end."""
        self._points_of: dict[int, list[int]] = {}
        for point, owner in enumerate(circle.owners):
            self._points_of.setdefault(owner, []).append(point)

    def close(self, owner: int) -> None:
        """Close the points of an owner."""
        for point in self._points_of.pop(owner, ()):
            self._next[point] = point + 1

    def owners(self) -> list[int]:
        """Return the owners of open points, ascending."""
        return sorted(self._points_of)

    def owner_of(self, index: int) -> int:
        """Return the owner of the point at an index."""
        return self._circle.owners[index % len(self._circle.owners)]

    def first_from(self, index: int) -> int:
        """Return the first index of an open point from *index* on.

        If no point is open, the result is more than a turn later.
        """
        point_count = len(self._circle.owners)
        turns, point = divmod(index, point_count)
        found = self._open_point(point)
        if found == point_count:
            turns, found = turns + 1, self._open_point(0)
        return turns * point_count + found

    def _open_point(self, point: int) -> int:
        following = self._next
        while following[point] != point:
            following[point] = point = following[following[point]]
        return point
