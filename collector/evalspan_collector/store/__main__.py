"""`python -m evalspan_collector.store FOLDER`: the embedded store process without the rest of the command line."""

import argparse
import sys
from pathlib import Path

from evalspan.errors import EvalspanError
from evalspan_collector.store.front import serve
from evalspan_collector.store.opening import prepare_engine


def main() -> int:
    """Serves a folder until SIGTERM; prints the port once it does."""
    parser = argparse.ArgumentParser(prog="evalspan_collector.store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--token-file", type=Path, required=True)
    given = parser.parse_args()
    try:
        serve(
            given.folder,
            port=given.port,
            token_file=given.token_file,
            prepare=prepare_engine,
            ready=lambda front: print(front.port, flush=True),  # noqa: T201  # the caller reads it
        )
    except EvalspanError as error:
        print(error, file=sys.stderr)  # noqa: T201  # a command line
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
