"""Settings of all tests.

No example of hypothesis has a time limit, since machines are busy. And each process that a test
starts reads compiled modules, also where the environment forbids Python to write them: to compile
those of rota takes half of the start of a node.
"""

import os
import sys

from hypothesis import settings

settings.register_profile("rota", deadline=None)
settings.load_profile("rota")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
