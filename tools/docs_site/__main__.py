"""Write the documentation as a site: ``python -m tools.docs_site build/site``."""

import argparse
import shutil
from pathlib import Path

from tools.docs_site.site import BrokenLinks, Site


def main() -> None:
    """Replace the folder by the site, or tell which links are broken."""
    parser = argparse.ArgumentParser(description="Write the documentation as a site.")
    parser.add_argument("folder", type=Path, help="the folder to write; it is replaced")
    folder: Path = parser.parse_args().folder
    try:
        files = list(Site(Path(__file__).resolve().parents[2]).files())
    except BrokenLinks as error:
        raise SystemExit(f"links that lead nowhere:\n{error}") from None
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    size = sum(len(content) for _, content in files)
    print(f"{folder}/index.html: {len(files)} files, {size / 1e6:.1f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
