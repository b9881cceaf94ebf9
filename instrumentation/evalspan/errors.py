"""The error tree: what can go wrong, each message naming the value and the next action.

EvalspanError
├── ConfigError          a file, flag or variable is wrong: exit code 2
├── InputError           a file, request or data set is wrong at a named place: exit code 2
│   └── DecodeError      bytes are not the OTLP they claim to be
├── MissingExtraError    a library of an extra is not installed: exit code 2
├── StoreError           the store answered with an error: exit code 3
│   ├── StoreUnreachableError
│   └── SchemaError      the store's schema is not the one this code knows
└── JudgeError           a judge gave no usable verdict: the score is an error, never a number
    ├── JudgeRefusedError
    └── BudgetError      a spending cap would be passed
"""

__all__ = [
    "BudgetError",
    "ConfigError",
    "DecodeError",
    "EvalspanError",
    "InputError",
    "JudgeError",
    "JudgeRefusedError",
    "MissingExtraError",
    "SchemaError",
    "StoreError",
    "StoreUnreachableError",
]


class EvalspanError(Exception):
    """Base of every error evalspan raises on purpose."""

    #: Exit code of the command line when this error ends it.
    exit_code = 2


class ConfigError(EvalspanError):
    """A configuration file, flag or variable cannot be used as it is."""


class InputError(EvalspanError):
    """Something handed in is wrong at a place the message names (file, line, field)."""


class DecodeError(InputError):
    """Bytes are not the OTLP message they claim to be."""


class MissingExtraError(EvalspanError):
    """A library that belongs to an extra is not installed; the message gives the install line."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library!r} is not installed: pip install 'evalspan[{extra}]'")


class StoreError(EvalspanError):
    """The store answered with an error."""

    exit_code = 3


class StoreUnreachableError(StoreError):
    """Nothing answers at the store's address."""


class SchemaError(StoreError):
    """The store's schema is newer than this code, or damaged."""


class JudgeError(EvalspanError):
    """A judge gave no usable verdict.

    Attributes:
        usage: What the calls used all the same (the evaluators' `JudgeUsage`); None when nothing was spent.
    """

    def __init__(self, message: str, *, usage: object = None) -> None:
        super().__init__(message)
        self.usage = usage


class JudgeRefusedError(JudgeError):
    """The model refused to judge."""


class BudgetError(JudgeError):
    """A spending cap of the rule or the day would be passed by this call."""
