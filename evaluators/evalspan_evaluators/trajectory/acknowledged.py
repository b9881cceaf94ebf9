"""Acknowledged: when a tool failed for good, does the answer say so?"""

import re
from dataclasses import dataclass
from typing import ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.names import listing
from evalspan_evaluators.trajectory.outcome import call_failed, failure_text

__all__ = ["ErrorAcknowledged", "admission"]

#: Words by which an answer admits that something did not work; by language, each a regular expression.
_ADMISSIONS = (
    # English
    (
        r"errors?\b|fail(?:ed|s|ure|ing)?\b|unable\b|could ?n[o']?t\b|could not\b|can ?n[o']t\b|cannot\b|can[’']t\b"
        r"|couldn[’']t\b|wasn[’']t able\b|was not able\b|not able to\b|not found\b|no results?\b|no data\b"
        r"|unavailable\b"
        r"|not available\b|issue\b|problems?\b|timed? ?out\b|denied\b|rejected\b|declined\b|invalid\b|unsuccessful"
        r"|did ?n[o']t work\b|didn[’']t work\b|went wrong\b|trouble\b|unfortunately\b|apologi[sz]e|sorry\b"
        r"|doesn[’']t exist|does not exist|not possible\b|impossible\b|exceeded\b|insufficient\b"
        r"|not permitted|not allowed|missing\b"
    ),
    # German
    (
        r"fehler|fehlgeschlagen|gescheitert|konnte[nt]? (?:\w+ ){0,6}nicht|kann (?:\w+ ){0,6}nicht|nicht gefunden"
        r"|nicht verfügbar|nicht möglich|leider|keine (?:ergebnisse|daten)|problem|ungültig|abgelehnt"
    ),
    # French
    (
        r"erreur|échou|échec|impossible|n[’']a pas pu|n[’']ai pas pu|ne peu[tx] pas|introuvable"
        r"|indisponible|malheureusement"
        r"|désolé|aucun (?:résultat|donnée)|problème|refusé|non trouvé"
    ),
    # Spanish, Portuguese, Italian
    (
        r"fall[óo]|fracas|no (?:se )?pud[eoi]|no puedo|no se encontr|no encontr|no disponible|lamentablemente"
        r"|desafortunadamente|lo siento|sin resultados|problema|rechazad|erro\b|falh"
        r"|não (?:foi possível|consegui|pude|encontr)"
        r"|infelizmente|indisponível|desculpe|errore|fallit|non (?:è stato possibile|sono riuscit|posso|trovat)"
        r"|purtroppo|mi dispiace|non disponibile"
    ),
    # Japanese, Chinese, Korean, Russian
    (
        r"エラー|失敗|できません|できなかった|見つかりません|申し訳|残念|利用できない"
        r"|错误|失败|无法|未找到|没有找到|抱歉|不可用|遗憾"
        r"|오류|실패|할 수 없|찾을 수 없|죄송|ошибк|не удалось|невозможно|не найден|недоступ|к сожалению|извините"
    ),
)
_ADMITS = re.compile("|".join(f"(?:{words})" for words in _ADMISSIONS), re.IGNORECASE)
#: "no errors", "without problems": the words are there and say the opposite.
_DENIES = re.compile(
    r"\b(?:no|without|any|zero|free of|ohne|keine|sans|aucune?|sin|ningún|sem|nenhum|senza)\s+(?:\w+\s+)?"
    r"(?:errors?|issues?|problems?|trouble|fehler|probleme?|erreurs?|problèmes?|errores|problemas?|erros?"
    r"|errori|problemi)\b",
    re.IGNORECASE,
)
_LONGEST_ANSWER = 50_000


def admission(text: str) -> tuple[int, int] | None:
    """Offsets of the first words by which the text admits a failure; None when there are none."""
    text = text[:_LONGEST_ANSWER]
    denied = [match.span() for match in _DENIES.finditer(text)]
    for match in _ADMITS.finditer(text):
        if not any(start <= match.start() < end for start, end in denied):
            return match.span()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAcknowledged(MetricBase):
    """1.0 when the answer admits a failure that no later call made good, else 0.0.

    Told by word lists in eleven languages; it sees that a failure is admitted, not that the right one is.
    Not applicable when nothing failed for good.
    """

    name: ClassVar[str] = "error_acknowledged"
    requires: ClassVar[tuple[str, ...]] = ("tools", "output")
    default_threshold: ClassVar[float | None] = 1.0

    def evaluate(self, case: Case) -> Score:
        """Look for an admission when the last call of a tool failed."""
        last = {call.name: call for call in case.tools or ()}
        failed = [call for call in last.values() if call_failed(call)]
        if not failed:
            return self.skip("no tool failed for good")
        found = admission(case.output or "")
        names = listing(call.name for call in failed)
        evidence = tuple(
            Evidence(
                verdict="match" if found else "mismatch",
                claim=(case.output or "")[found[0] : found[1]] if found else "",
                start=found[0] if found else None,
                end=found[1] if found else None,
                value=short(failure_text(call), 200),
                source="tool_result",
                tool=call.name,
                span_id=call.span_id,
                code=None if found else "ERROR_NOT_ACKNOWLEDGED",
            )
            for call in failed[:10]
        )
        if found:
            return self.score(1.0, f"the answer admits that {names} failed", evidence=evidence)
        return self.score(0.0, f"{names} failed and the answer does not say so", evidence=evidence)
