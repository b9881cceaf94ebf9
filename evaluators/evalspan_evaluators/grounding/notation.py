"""Notation: the words and signs that go with a number in text: scales, currencies, percents, number words."""

import re

__all__ = ["APPROXIMATE", "CURRENCIES", "MAGNITUDES", "NUMBER_WORDS", "PERCENTS", "SCALES"]

SCALES: dict[str, float] = {
    "k": 1e3,
    "thousand": 1e3,
    "thousands": 1e3,
    "tausend": 1e3,
    "tsd": 1e3,
    "mille": 1e3,
    "mil": 1e3,
    "十": 10.0,
    "百": 100.0,
    "千": 1e3,
    "m": 1e6,
    "mm": 1e6,
    "mn": 1e6,
    "mio": 1e6,
    "million": 1e6,
    "millions": 1e6,
    "millionen": 1e6,
    "millón": 1e6,
    "millones": 1e6,
    "milhão": 1e6,
    "milhões": 1e6,
    "万": 1e4,
    "萬": 1e4,
    "億": 1e8,
    "亿": 1e8,
    "兆": 1e12,
    "b": 1e9,
    "bn": 1e9,
    "billion": 1e9,
    "billions": 1e9,
    "mrd": 1e9,
    "milliarde": 1e9,
    "milliarden": 1e9,
    "milliard": 1e9,
    "milliards": 1e9,
    "bilhão": 1e9,
    "bilhões": 1e9,
    "mil millones": 1e9,
    "mil milhões": 1e9,
    "t": 1e12,
    "tn": 1e12,
    "trillion": 1e12,
    "trillions": 1e12,
    "billionen": 1e12,
    "billones": 1e12,
    "trilhão": 1e12,
    "trilhões": 1e12,
    "lakh": 1e5,
    "lakhs": 1e5,
    "crore": 1e7,
    "crores": 1e7,
    "dozen": 12.0,
}
#: Powers of ten of Chinese and Japanese behind a number, which multiply: `万亿`.
MAGNITUDES = re.compile("[十百千万萬億亿兆]+")
CURRENCIES: dict[str, str] = {
    "$": "USD",
    "us$": "USD",
    "usd": "USD",
    "dollar": "USD",
    "dollars": "USD",
    "€": "EUR",
    "eur": "EUR",
    "euro": "EUR",
    "euros": "EUR",
    "£": "GBP",
    "gbp": "GBP",
    "pound": "GBP",
    "pounds": "GBP",
    "¥": "JPY",
    "jpy": "JPY",
    "yen": "JPY",
    "円": "JPY",
    "元": "CNY",
    "cny": "CNY",
    "rmb": "CNY",
    "yuan": "CNY",
    "人民币": "CNY",
    "₹": "INR",
    "inr": "INR",
    "rs": "INR",
    "rupees": "INR",
    "₩": "KRW",
    "krw": "KRW",
    "r$": "BRL",
    "brl": "BRL",
    "reais": "BRL",
    "chf": "CHF",
    "cad": "CAD",
    "c$": "CAD",
    "aud": "AUD",
    "a$": "AUD",
    "mxn": "MXN",
    "sek": "SEK",
    "nok": "NOK",
    "dkk": "DKK",
    "pln": "PLN",
    "hk$": "HKD",
    "hkd": "HKD",
    "sgd": "SGD",
    "nzd": "NZD",
    "zar": "ZAR",
    "try": "TRY",
    "btc": "BTC",
    "eth": "ETH",
    "₿": "BTC",
    "pesos": "MXN",
    "ドル": "USD",
    "米ドル": "USD",
    "美元": "USD",
    "美金": "USD",
    "ユーロ": "EUR",
    "欧元": "EUR",
    "歐元": "EUR",
    "ポンド": "GBP",
    "英镑": "GBP",
    "日元": "JPY",
    "日圓": "JPY",
    "港元": "HKD",
    "港币": "HKD",
    "ウォン": "KRW",
    "ルピー": "INR",
}
PERCENTS = (
    r"%|percentage points?|percent\b|per cent\b|pct\b|prozent\b|pour ?cent\b|por ?ciento\b|por ?cento\b|パーセント|pp\b"
)
APPROXIMATE = frozenset(
    [
        "about",
        "approximately",
        "approx",
        "around",
        "roughly",
        "nearly",
        "almost",
        "over",
        "than",
        "under",
        "least",
        "to",
        "some",
        "circa",
        "ca",
        "etwa",
        "rund",
        "ungefähr",
        "fast",
        "über",
        "environ",
        "de",
        "unos",
        "unas",
        "aproximadamente",
        "casi",
        "cerca",
        "quase",
        "約",
        "约",
        "大约",
    ]
)
NUMBER_WORDS: dict[str, dict[str, int]] = {
    "en": {
        w: i
        for i, w in enumerate(
            [
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
                "eleven",
                "twelve",
                "thirteen",
                "fourteen",
                "fifteen",
                "sixteen",
                "seventeen",
                "eighteen",
                "nineteen",
                "twenty",
            ]
        )
    }
    | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100},
    "de": {
        w: i
        for i, w in enumerate(
            ["null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
        )
        if i != 1
    },
    "fr": {
        w: i
        for i, w in enumerate(
            ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze"]
        )
        if i != 1
    },
    "es": {
        w: i
        for i, w in enumerate(
            ["cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez", "once", "doce"]
        )
        if i != 1
    },
    "pt": {
        w: i
        for i, w in enumerate(
            ["zero", "um", "dois", "três", "quatro", "cinco", "seis", "sete", "oito", "nove", "dez", "onze", "doze"]
        )
        if i != 1
    },
}
