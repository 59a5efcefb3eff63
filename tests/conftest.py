"""Settings of all tests: no example of hypothesis has a time limit, since machines are busy."""

from hypothesis import settings

settings.register_profile("rota", deadline=None)
settings.load_profile("rota")
