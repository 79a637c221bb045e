"""What the script understands and says, one `Language` for each way of writing."""

import re
from typing import NamedTuple


class Language(NamedTuple):
    """One way of writing.

    `told_by` tells that a text is written so (the first language whose pattern is found is taken). `abilities`, `roll`
    and `prime` tell what the user wants; `sides`, `count` and `all_rolls` what of. The first group of `sides` and of
    `count` is the number.
    """

    told_by: str
    abilities: str
    roll: str
    sides: str
    count: str
    prime: str
    all_rolls: str
    counts: dict[str, int]
    and_: str
    joiner: str
    replies: dict[str, str]


ENGLISH = Language(
    told_by="",
    abilities=r"what can you do|who are you",
    roll=r"\b(?:re)?roll\b",
    sides=r"(\d+)[- ]sided|(\d+) sides",
    count=r"\broll (two|three|\d+) |\b(twice)\b",
    prime=r"\bprimes?\b",
    all_rolls=r"\bthem\b|\ball\b|\brolls\b",
    counts={"two": 2, "twice": 2, "three": 3},
    and_=" and ",
    joiner=" ",
    replies={
        "abilities": "I answer from a script, no model is asked. I roll dice and have numbers checked for primes.",
        "rolled": "I rolled {numbers}.",
        "prime": "{number} is prime.",
        "not_prime": "{number} is not prime.",
        "too_large": "I could not check that: the number is too large.",
        "no_rolls": "Nothing has been rolled yet.",
        "no_rule": "I answer from a script and have no rule for this.",
    },
)

JAPANESE = Language(
    told_by=r"[\u3041-\u30ff]",
    abilities=r"何ができ|誰ですか",
    roll=r"振っ|振り",
    sides=r"(\d+)\s*面",
    count=r"([二三2-9])\s*[個回]",
    prime=r"素数",
    all_rolls=r"それら|全部|どれ",
    counts={"二": 2, "三": 3},
    and_="と",
    joiner="",
    replies={
        "abilities": "私は台本から答えます。サイコロを振り、素数かどうかを調べます。",
        "rolled": "{numbers}が出ました。",
        "prime": "{number}は素数です。",
        "not_prime": "{number}は素数ではありません。",
        "too_large": "調べられません。数が大きすぎます。",
        "no_rolls": "まだ何も振っていません。",
        "no_rule": "私は台本から答えますが、これに合う規則がありません。",
    },
)

CHINESE = Language(
    told_by=r"[\u4e00-\u9fff]",
    abilities=r"你能做什么|你是谁",
    roll=r"掷",
    sides=r"(\d+)\s*面",
    count=r"([两三2-9])\s*[次个颗]",
    prime=r"质数|素数",
    all_rolls=r"它们|这些|哪些",
    counts={"两": 2, "三": 3},
    and_=" 和 ",
    joiner="",
    replies={
        "abilities": "我按脚本回答，不询问模型。我可以掷骰子，并让人检查数字是否为质数。",
        "rolled": "我掷出了 {numbers}。",
        "prime": "{number} 是质数。",
        "not_prime": "{number} 不是质数。",
        "too_large": "无法检查：这个数字太大。",
        "no_rolls": "还没有掷过骰子。",
        "no_rule": "我按脚本回答，没有对应这句话的规则。",
    },
)

PORTUGUESE = Language(
    told_by=r"\b(?:role|dados?|primos?|você)\b",
    abilities=r"o que você (?:pode|sabe) fazer|quem é você",
    roll=r"\brole\b",
    sides=r"(\d+) (?:lados|faces)",
    count=r"\brole (dois|três|\d+) |\b(duas) vezes\b",
    prime=r"\bprimos?\b",
    all_rolls=r"\bquais\b|\btodos\b|\beles\b",
    counts={"dois": 2, "duas": 2, "três": 3},
    and_=" e ",
    joiner=" ",
    replies={
        "abilities": "Respondo a partir de um roteiro, sem modelo. Rolo dados e mando verificar números primos.",
        "rolled": "Saiu {numbers}.",
        "prime": "{number} é primo.",
        "not_prime": "{number} não é primo.",
        "too_large": "Não foi possível verificar: o número é grande demais.",
        "no_rolls": "Nenhum dado foi rolado ainda.",
        "no_rule": "Respondo a partir de um roteiro e não tenho regra para isso.",
    },
)

LANGUAGES = (JAPANESE, CHINESE, PORTUGUESE, ENGLISH)


def language_of(text):
    """The language a text is written in. English, which is told by nothing, comes last."""
    return next(language for language in LANGUAGES if re.search(language.told_by, text, re.IGNORECASE))
