"""Importing this module turns tracing on: `import evalspan.auto`, before you make model clients.

It is `evalspan.init()` with everything left to the environment and the defaults.
"""

from evalspan._setup import init

__all__: list[str] = []

init()
