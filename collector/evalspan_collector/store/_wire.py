"""Wire: the requests and answers of ClickHouse's HTTP interface, as bytes."""

import gzip
import re
import sys
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

import lz4.frame as _lz4  # type: ignore[import-untyped]  # ships no stubs

__all__ = [
    "Headers",
    "InsertParts",
    "TooLargeError",
    "WireError",
    "compress",
    "decompress",
    "http_status",
    "native_header",
    "read_body",
    "split_insert",
    "strip_format",
]

lz4: Any = _lz4  # typed at our edge


class Headers(Protocol):
    """Headers of a request, looked up without regard to case."""

    def get(self, name: str, /) -> str | None:
        """The header's value, None when it was not sent."""
        ...


#: Status ClickHouse gives an error of this number; every other one is 500.
_STATUS: Final = {
    62: 400, 36: 400, 43: 400, 47: 404, 46: 404, 60: 404, 81: 404, 115: 404, 457: 400,
    159: 408, 241: 500, 497: 403, 516: 403, 164: 403, 48: 501,
}  # fmt: skip
_CHUNK: Final = 1 << 20

_NAME: Final = rb"(?:`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_][A-Za-z0-9_]*)"
_INSERT: Final = re.compile(
    rb"\s*(INSERT\s+INTO\s+(?:TABLE\s+)?" + _NAME + rb"(?:\s*\.\s*" + _NAME + rb")?"
    rb"\s*(?:\((?:`(?:[^`\\]|\\.)*`|[^()`])*\))?(?:\s*SETTINGS\s(?:'(?:[^'\\]|\\.)*'|[^'])*?)?)"
    rb"\s*\bFORMAT\s+([A-Za-z0-9_]+)[ \t]*(?:;[ \t]*)?(?:\r?\n|$|[ \t])",
    re.IGNORECASE,
)
_FORMAT: Final = re.compile(rb"\s+FORMAT\s+([A-Za-z0-9_]+)\s*;?\s*\Z", re.IGNORECASE)


class WireError(Exception):
    """A request that cannot be read; `status` is its HTTP status, `code` ClickHouse's number."""

    def __init__(self, message: str, *, status: int = 400, code: int = 36) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class TooLargeError(WireError):
    """A body above the limit, before or after decompression."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit} bytes: send smaller blocks", status=413, code=307)


def http_status(code: int) -> int:
    """HTTP status of a ClickHouse error number."""
    return _STATUS.get(code, 500)


def read_body(stream: BinaryIO, headers: Headers, limit: int) -> bytes:
    """Reads a request body, chunked or with a length.

    Raises:
        TooLargeError: It is larger than `limit`.
        WireError: The framing is broken.
    """
    if "chunked" in (headers.get("Transfer-Encoding") or "").lower():
        return _read_chunked(stream, limit)
    text = headers.get("Content-Length") or "0"
    if not text.isdigit():
        raise WireError(f"Content-Length {text!r} is not a number")
    length = int(text)
    if length > limit:
        raise TooLargeError(limit)
    body = stream.read(length)
    if len(body) != length:
        raise WireError(f"the body ended after {len(body)} of {length} bytes")
    return body


def _read_chunked(stream: BinaryIO, limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    while True:
        line = stream.readline(66).split(b";")[0].strip()
        try:
            size = int(line, 16)
        except ValueError:
            raise WireError(f"chunk size {line!r} is not a hexadecimal number") from None
        if size < 0:
            raise WireError(f"chunk size {line!r} is negative")
        total += size
        if total > limit:
            raise TooLargeError(limit)
        chunk = stream.read(size)
        if len(chunk) != size:
            raise WireError(f"a chunk ended after {len(chunk)} of {size} bytes")
        end = stream.readline(66)
        if size == 0:
            while end not in (b"\r\n", b"\n", b""):  # trailers
                end = stream.readline(8192)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        parts.append(chunk)


def decompress(data: bytes, encoding: str, limit: int) -> bytes:
    """Decompresses a body whose size is capped while it grows, so a bomb costs no memory.

    Raises:
        TooLargeError: It inflates above `limit`.
        WireError: Unknown encoding or damaged data.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return data
    try:
        return _inflate(data, encoding, limit)
    except (EOFError, RuntimeError, zlib.error, zstd.ZstdError) as error:
        raise WireError(f"the {encoding} body is damaged: {error}", code=271) from error


def _decoder(encoding: str) -> Any:
    if encoding == "lz4":
        return lz4.LZ4FrameDecompressor()
    if encoding == "zstd":
        return zstd.ZstdDecompressor()
    if encoding == "gzip":
        return _Zlib(31)
    if encoding == "deflate":
        return _Zlib(15)
    raise WireError(f"Content-Encoding {encoding!r} is not one of lz4, zstd, gzip, deflate", status=415, code=48)


class _Zlib:
    """zlib behind the interface of the lz4 and zstd decoders."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max(max_length, 0))

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


def _inflate(data: bytes, encoding: str, limit: int) -> bytes:
    # Bodies may be several frames in a row: the client compresses each block on its own.
    parts: list[bytes] = []
    total = 0
    rest = data
    while rest:
        decoder = _decoder(encoding)
        feed = rest
        while not decoder.eof:
            part = cast("bytes", decoder.decompress(feed, _CHUNK * 4))
            total += len(part)
            if total > limit:
                raise TooLargeError(limit)
            if part:
                parts.append(part)
            elif not decoder.eof and decoder.needs_input:
                raise WireError(f"the {encoding} body ends too early", code=271)
            feed = b""
        rest = cast("bytes", decoder.unused_data) or b""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def compress(data: bytes, accepted: str) -> tuple[bytes, str | None]:
    """Compresses an answer with the first encoding the client accepts that we know."""
    for name in (part.split(";")[0].strip().lower() for part in accepted.split(",")):
        if name == "lz4":
            return cast("bytes", lz4.compress(data)), name
        if name == "zstd":
            return zstd.compress(data, 1), name
        if name == "gzip":
            return gzip.compress(data, 1), name
        if name == "deflate":
            return zlib.compress(data, 1), name
    return data, None


@dataclass(frozen=True, slots=True)
class InsertParts:
    """An INSERT taken apart: the statement without FORMAT, the format, and where its data begins."""

    statement: str
    fmt: str
    data_start: int


def split_insert(request: bytes) -> InsertParts | None:
    """Takes `INSERT INTO t (...) FORMAT X` + data apart; None for any other statement.

    `INSERT ... VALUES` and `INSERT ... SELECT` are plain statements and give None.
    """
    found = _INSERT.match(request[:262_144])
    if found is None:
        return None
    return InsertParts(found.group(1).decode(), found.group(2).decode(), found.end())


def strip_format(statement: bytes) -> tuple[bytes, str | None]:
    """A statement without its trailing FORMAT clause, and the format's name."""
    found = _FORMAT.search(statement)
    if found is None:
        return statement, None
    return statement[: found.start()], found.group(1).decode()


def native_header(columns: list[tuple[str, str]]) -> bytes:
    """A Native block without rows: names and types only, what a server sends for an empty result."""
    out = bytearray()
    _leb128(len(columns), out)
    _leb128(0, out)
    for name, kind in columns:
        for text in (name, kind):
            raw = text.encode()
            _leb128(len(raw), out)
            out += raw
    return bytes(out)


def _leb128(value: int, out: bytearray) -> None:
    while True:
        byte = value & 0x7F
        value >>= 7
        if not value:
            out.append(byte)
            return
        out.append(byte | 0x80)
