"""Language: is the answer in the language it should be in?"""

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

from evalspan.errors import MissingExtraError
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.fenced import blocks
from evalspan_evaluators.score import Evidence, Score

__all__ = ["Detection", "Language", "detect_language"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONGEST = 4_000
#: Letters below which a language cannot be told; fewer do in scripts that few languages share.
_FEWEST_LETTERS = 12
_FEWEST_OTHER_LETTERS = 6
_FEWEST_SIGNS = 4
#: What is in no language: code, URLs, e-mails, ids, numbers.
_NO_LANGUAGE = re.compile(
    r"`[^`\n]{0,300}`|https?://\S{1,500}|\S{1,100}@\S{1,100}|[A-Za-z]{0,40}\d[A-Za-z0-9]{0,60}|[_#@/\\]\w{1,60}"
)
_SIGNS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
#: Languages a detector may answer; rarer ones of its model only steal texts of these.
_KNOWN = _words(
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn "
    "ko ky lb lo lt lv mk ml mn mr ms mt nb ne nl nn pa pl ps pt ro ru si sk sl so sq sr sv sw ta te tg th tl tr uk "
    "ur uz vi yo zh zu"
)
#: Languages so near each other that a detector mixes them up; one for another is no mismatch.
_NEAR = ({"bs", "hr", "sr"}, {"id", "ms"}, {"nb", "nn", "no", "da"}, {"gl", "pt"}, {"cs", "sk"})
_SAME = {"no": "nb", "zh-cn": "zh", "zh-tw": "zh", "iw": "he", "in": "id"}
#: Words that only one of two near languages uses.
_INDONESIAN = _words(
    "karena bisa bahwa uang mobil kantor pemerintah perusahaan polisi anda kualitas aktivitas universitas informasi "
    "ujar sejumlah warga desa kabupaten provinsi kecamatan rp usai pasca soal jakarta indonesia jumat senin rabu "
    "maret agustus sedangkan melakukan memiliki membuat bagaimana mengapa kamu ingin sangat dirinya sekadar "
    "berbagai internasional tim pertandingan bisnis keuangan layanan situs dokter rusak sepeda pesawat listrik "
    "kebijakan musik film kondisi tingkat sementara terkait meski menurutnya dibutuhkan butuh pun nya siswa "
    "mahasiswa gereja presiden wakil bupati gubernur lokasi sekitar tanggal dolar"
)
_MALAY = _words(
    "kerana boleh bahawa wang kereta pejabat hospital kerajaan syarikat ialah beliau iaitu manakala sahaja selepas "
    "daripada berkata katanya rm malaysia awak kaum pelajar ahad isnin jumaat khamis jabatan kementerian datuk seri "
    "negeri kualiti aktiviti universiti maklumat mahu cuba turut lebuh bandar polis kampung menerusi pelbagai "
    "antarabangsa lelaki doktor cadangan pasukan perlawanan perniagaan kewangan dijangka berjaya peringkat perkara "
    "membolehkan peluang cabaran pengguna khidmat perkhidmatan laman apabila hendaklah seseorang telefon sekiranya "
    "sebarang sesuatu mac ogos perdana dasar bagi muzik filem keadaan tahap tarikh setiausaha pengarah pengerusi "
    "persatuan sukan penduduk merupakan ringgit sen kuala lumpur melayu kanak cukai hartanah pembangunan kajian "
    "menyediakan mengikut memandangkan justeru malah kini disebabkan berlaku perlu pegawai tindakan"
)


@dataclass(frozen=True, slots=True)
class Detection:
    """A detected language: ISO 639-1 code, and the letters it was told from."""

    language: str
    letters: int


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        module: Any = import_module("py3langid.langid")
    except ImportError as error:
        raise MissingExtraError("py3langid", "server") from error
    identifier: Any = module.LanguageIdentifier.from_modelpath(module.MODEL_DIR / module.MODEL_FILE)
    labels = set(identifier.labels)
    identifier.set_languages([code for code in sorted(_KNOWN | {"no"}) if code in labels])
    return identifier


def detect_language(text: str) -> Detection | None:
    """The language of a text; None when there is too little of it to tell.

    Code, URLs, e-mails and ids are left out first. Measured on sentences of 45 languages; two words are too few for
    a reliable answer, one word certainly is.
    """
    plain = text[: _LONGEST * 4]
    for block in reversed(blocks(plain)):
        plain = plain[: block.start] + plain[block.end :]
    plain = " ".join(_NO_LANGUAGE.sub(" ", plain).split())[:_LONGEST]
    letters = sum(c.isalpha() for c in plain)
    signs = len(_SIGNS.findall(plain))
    latin = len(_LATIN.findall(plain))
    fewest = _FEWEST_LETTERS if latin * 2 > letters else _FEWEST_OTHER_LETTERS
    if letters < fewest and signs < _FEWEST_SIGNS:
        return None
    code = str(_identifier().classify(plain)[0])
    code = _SAME.get(code, code)
    if code in ("id", "ms"):
        code = _indonesian_or_malay(plain, code)
    return Detection(code, letters)


def _indonesian_or_malay(text: str, guess: str) -> str:
    words = re.findall(r"[a-z]+", text.lower())
    lean = sum(word in _INDONESIAN for word in words) - sum(word in _MALAY for word in words)
    return "id" if lean > 0 else "ms" if lean < 0 else guess


def _near(one: str, other: str) -> bool:
    return one == other or any(one in group and other in group for group in _NEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(MetricBase):
    """1.0 when the output is in the expected language, else 0.0.

    Not applicable where the output (or the input it is compared with) is too short to tell, or is all code, ids and
    numbers. Near languages, such as Bosnian, Croatian and Serbian, count as one.

    Attributes:
        expected: ISO 639-1 code; None takes the language of the input.
    """

    name: ClassVar[str] = "language"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    expected: str | None = None

    def evaluate(self, case: Case) -> Score:
        """Detect and compare."""
        if self.expected is not None:
            wanted = self.expected.lower().replace("_", "-")
            wanted = _SAME.get(wanted, wanted.split("-")[0])
        else:
            asked = detect_language(case.input or "")
            if asked is None:
                return self.skip("the input is too short to tell its language: set the parameter expected")
            wanted = asked.language
        found = detect_language(case.output or "")
        if found is None:
            return self.skip("the output is too short to tell its language")
        good = _near(found.language, wanted)
        evidence = Evidence(
            verdict="match" if good else "mismatch",
            claim="language of the output",
            value=found.language,
            expected=wanted,
            code=None if good else "LANGUAGE_MISMATCH",
        )
        reason = f"the output is in {found.language!r}" + ("" if good else f", expected {wanted!r}")
        return self.score(1.0 if good else 0.0, reason, evidence=(evidence,), label=found.language)
