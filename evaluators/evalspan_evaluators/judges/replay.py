"""Replay judge: recorded replies instead of a model, and the recorder that makes them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspan.errors import InputError, JudgeError
from evalspan_evaluators.judge import Judge, JudgeReply, JudgeRequest
from evalspan_evaluators.judges.reply import parsed
from evalspan_evaluators.score import JudgeUsage

__all__ = ["RecordingJudge", "ReplayJudge", "question_key"]


def question_key(request: JudgeRequest) -> str:
    """Sixteen hex digits of everything that decides the answer: instructions, data, schema, model."""
    text = json.dumps(
        [request.instructions, dict(request.data), dict(request.schema), request.model], sort_keys=True, default=str
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ReplayJudge:
    """Answers each question with the reply recorded for it; makes no call.

    Args:
        replies: Reply texts by `question_key`, or by purpose (such as `correctness/score`) for any question of it.
        model: Name shown as the judge's model.
    """

    def __init__(self, replies: Mapping[str, str], *, model: str = "replay") -> None:
        self._replies = dict(replies)
        self._model = model

    @classmethod
    def read(cls, path: Path) -> "ReplayJudge":
        """The judge of a file `RecordingJudge` wrote.

        Raises:
            InputError: A line is no recording.
        """
        replies: dict[str, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                replies[row["key"]] = row["reply"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}:{number}: {line[:80]!r} is no recorded judge reply") from error
        return cls(replies)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The recorded reply.

        Raises:
            JudgeError: Nothing is recorded for the question, or the reply does not meet the schema.
        """
        key = question_key(request)
        text = self._replies.get(key, self._replies.get(request.purpose))
        if text is None:
            raise JudgeError(f"no reply is recorded for {request.purpose!r} (key {key}): record it first")
        usage = JudgeUsage(model=self._model, calls=0)
        try:
            verdict: Mapping[str, Any] = parsed(text, request.schema)
        except JudgeError as error:
            raise JudgeError(f"judge {self._model!r} ({request.purpose}): {error}", usage=usage) from error
        return JudgeReply(verdict=verdict, usage=usage)


class RecordingJudge:
    """Asks another judge and appends each usable reply to a JSONL file.

    Args:
        judge: The judge that is really asked.
        path: The file; made when it does not exist.
    """

    def __init__(self, judge: Judge, path: Path) -> None:
        self._judge = judge
        self._path = path

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask and record."""
        reply = await self._judge.ask(request)
        row = {"key": question_key(request), "purpose": request.purpose, "reply": json.dumps(dict(reply.verdict))}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return reply
