"""A package that adds an executor, as another project would publish it."""

from pathlib import Path

MODULE = '''
from rota.executor.testing.scripted_executor import ScriptedExecutor
from rota.executor.warden.hosted_executors import Row


class Echo(ScriptedExecutor):
    """Ends attempts as scripted."""

    def __init__(self, directory, *, ended, now, **_):
        super().__init__(ended=ended, now=now)


ROW = Row("rota_echo:Echo", folder="echo")
'''
METADATA = "Metadata-Version: 2.1\nName: rota-echo\nVersion: 1\n"


def add_executor(folder: Path, *entries: str) -> None:
    """Write an installed package into *folder*, with entry points such as ``name = module:row``."""
    (folder / "rota_echo.py").write_text(MODULE)
    facts = folder / "rota_echo-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(METADATA)
    (facts / "entry_points.txt").write_text("\n".join(("[rota.executors]", *entries)))
