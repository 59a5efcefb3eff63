"""``python -m rota.executor.warden``: started by a node, not by people."""

import sys

from rota.executor.warden.program import main

if __name__ == "__main__":
    sys.exit(main())
