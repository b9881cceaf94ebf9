"""Write the expected runs anew: `PYTHONPATH=tests python tests/golden/refresh.py [NAME...]`; read the difference before committing it."""

import sys

from golden.captures import FOLDER, capture, captures, snapshot


def main(names: list[str]) -> None:
    """Write one JSON file per capture and drop those of captures that are gone."""
    known = captures()
    for name in names or known:
        (FOLDER / "expected" / f"{name}.json").write_text(snapshot(capture(name).runs()), encoding="utf-8")
    for file in (FOLDER / "expected").glob("*.json"):
        if file.stem not in known:
            file.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
