"""Random numbers apart from a world's own, so that additions to plans do not change known seeds."""

from random import Random


def chance_apart(chance: Random) -> Random:
    """Return another stream that follows from the state of *chance*, which stays as it is."""
    twin = Random()
    twin.setstate(chance.getstate())
    return Random(twin.getrandbits(64))
