"""Unit: dimensions and conversion of the common units of measure."""

from collections.abc import Iterable

__all__ = ["convert", "dimension", "measure", "units"]

# dimension -> unit stem -> factor to the base unit
_UNITS: dict[str, dict[str, float]] = {
    "time": {
        "ms": 1e-3,
        "millisecond": 1e-3,
        "s": 1,
        "sec": 1,
        "second": 1,
        "min": 60,
        "mins": 60,
        "minut": 60,
        "minute": 60,
        "h": 3600,
        "hr": 3600,
        "hour": 3600,
        "std": 3600,
        "stund": 3600,
        "heur": 3600,
        "hora": 3600,
        "day": 86400,
        "d": 86400,
        "tag": 86400,
        "jour": 86400,
        "día": 86400,
        "dia": 86400,
        "week": 604800,
        "woch": 604800,
        "semain": 604800,
        "semana": 604800,
        "小时": 3600,
        "時間": 3600,
        "分钟": 60,
        "天": 86400,
        "日間": 86400,
    },
    "length": {
        "mm": 1e-3,
        "cm": 1e-2,
        "m": 1,
        "meter": 1,
        "metre": 1,
        "metr": 1,
        "km": 1e3,
        "kilometer": 1e3,
        "kilometr": 1e3,
        "mi": 1609.344,
        "mile": 1609.344,
        "mil": 1609.344,
        "ft": 0.3048,
        "feet": 0.3048,
        "foot": 0.3048,
        "inch": 0.0254,
        "yd": 0.9144,
    },
    "mass": {
        "mg": 1e-6,
        "g": 1e-3,
        "gram": 1e-3,
        "kg": 1,
        "kilogram": 1,
        "lb": 0.45359237,
        "pound": 0.45359237,
        "oz": 0.028349523,
        "ton": 1e3,
    },
    "speed": {
        "m/s": 1,
        "km/h": 1 / 3.6,
        "kmh": 1 / 3.6,
        "kph": 1 / 3.6,
        "mph": 0.44704,
        "kt": 0.514444,
        "knot": 0.514444,
    },
    "data": {
        "b": 1,
        "byte": 1,
        "kb": 1e3,
        "kilobyt": 1e3,
        "mb": 1e6,
        "megabyt": 1e6,
        "gb": 1e9,
        "gigabyt": 1e9,
        "tb": 1e12,
        "terabyt": 1e12,
        "kib": 1024,
        "mib": 1024**2,
        "gib": 1024**3,
        "tib": 1024**4,
    },
    "pressure": {"pa": 1, "hpa": 100, "kpa": 1e3, "mbar": 100, "bar": 1e5},
}


_DIMENSION = {unit: (name, factor) for name, table in _UNITS.items() for unit, factor in table.items()}


#: Words that name what is measured, or a unit that no factor converts.
_NAMED = {
    word: name
    for name, words in {
        "temperature": "c °c f °f degr celsius fahrenheit temp temperatur temperature temperatura température grad "
        "degré grado grau graus 度 气温 温度 気温",
        "speed": "speed velocity geschwindigkeit vitess velocidad velocidade",
        "mass": "weight mass gewicht poids peso",
        "length": "distance height length width depth höhe breite länge taille altura",
        "time": "duration dauer durée duración duração",
    }.items()
    for word in words.split()
}


def measure(words: Iterable[str]) -> str:
    """What the words measure: a dimension of units, `temperature`, or empty when they do not tell."""
    return next((found for word in words if (found := dimension(word) or _NAMED.get(word, ""))), "")


def dimension(unit: str) -> str:
    """`time`, `length`, ... of a unit stem; empty when it is no known unit."""
    return _DIMENSION[unit][0] if unit in _DIMENSION else ""


def units(name: str) -> tuple[str, ...]:
    """Unit stems of a dimension."""
    return tuple(_UNITS.get(name, ()))


def convert(value: float, unit: str, target: str) -> float | None:
    """`value` in another unit of the same dimension; None when they do not convert."""
    if unit == target:
        return value
    if unit in ("°c", "°f", "c", "f") and target in ("°c", "°f", "c", "f"):
        return value * 9 / 5 + 32 if unit.endswith("c") else (value - 32) * 5 / 9
    if unit not in _DIMENSION or target not in _DIMENSION or _DIMENSION[unit][0] != _DIMENSION[target][0]:
        return None
    return value * _DIMENSION[unit][1] / _DIMENSION[target][1]
