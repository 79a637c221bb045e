"""What the agent understands and says: the script, one `Language` for each way of writing."""

import re
from typing import NamedTuple


class Language(NamedTuple):
    """One way of writing.

    `told_by` tells that a text is written so (the first language whose pattern is found is taken). `roll`, `prime` and
    `abilities` tell what a clause wants; `sides`, `count` and `all_rolls` what it wants it of.
    """

    told_by: str
    separator: str
    joiner: str
    abilities: str
    roll: str
    sides: str
    count: str
    prime: str
    all_rolls: str
    counts: dict[str, int]
    and_: str
    replies: dict[str, str]


ENGLISH = Language(
    told_by="",
    separator=r"\s*(?:,?\b(?:and )?then\b|,?\band\b(?= (?:roll|check|tell))|;)\s*",
    joiner=" ",
    abilities=r"what can you do|who are you",
    roll=r"\b(?:re)?roll\b",
    sides=r"(\d+)[- ]sided|\bwith (\d+) sides",
    count=r"\broll (\w+) |\b(twice)\b",
    prime=r"\bprimes?\b",
    all_rolls=r"\bthem\b|\ball\b|\brolls\b",
    counts={"two": 2, "twice": 2, "three": 3},
    and_=" and ",
    replies={
        "abilities": "I can roll dice of different sizes and check whether numbers are prime.",
        "rolled": "I rolled {numbers}.",
        "prime": "{number} is prime.",
        "not_prime": "{number} is not prime.",
        "too_large": "I could not check that: I look at numbers up to {largest:,}.",
        "no_rolls": "Nothing has been rolled yet.",
        "no_rule": "I answer from a script and have no rule for this.",
    },
)

SIMPLIFIED_CHINESE = Language(
    told_by=r"[\u4e00-\u9fff]",
    separator=r"\s*(?:[,，;；]?然后|[,，;；]|并(?=检查))\s*",
    joiner="",
    abilities=r"你能做什么|你是谁",
    roll=r"掷",
    sides=r"(\d+)\s*面",
    count=r"(\w)\s*[次个颗]",
    prime=r"质数|素数",
    all_rolls=r"它们|这些|哪些",
    counts={"两": 2, "三": 3},
    and_=" 和 ",
    replies={
        "abilities": "我可以掷不同大小的骰子并检查数字是否为质数。",
        "rolled": "我掷出了 {numbers}。",
        "prime": "{number} 是质数。",
        "not_prime": "{number} 不是质数。",
        "too_large": "无法检查：我只检查不超过 {largest:,} 的数字。",
        "no_rolls": "还没有掷过骰子。",
        "no_rule": "我按脚本回答，没有对应这句话的规则。",
    },
)

TRADITIONAL_CHINESE = Language(
    told_by=r"[擲個質檢數後麼誰顆兩這們]",
    separator=r"\s*(?:[,，;；]?然後|[,，;；]|並(?=檢查))\s*",
    joiner="",
    abilities=r"你能做什麼|你是誰",
    roll=r"擲",
    sides=r"(\d+)\s*面",
    count=r"(\w)\s*[次個顆]",
    prime=r"質數",
    all_rolls=r"它們|這些|哪些",
    counts={"兩": 2, "三": 3},
    and_=" 和 ",
    replies={
        "abilities": "我可以擲不同大小的骰子並檢查數字是否為質數。",
        "rolled": "我擲出了 {numbers}。",
        "prime": "{number} 是質數。",
        "not_prime": "{number} 不是質數。",
        "too_large": "無法檢查：我只檢查不超過 {largest:,} 的數字。",
        "no_rolls": "還沒有擲過骰子。",
        "no_rule": "我依腳本回答，沒有對應這句話的規則。",
    },
)

PORTUGUESE = Language(
    told_by=r"\b(?:role|dados?|primos?|você)\b",
    separator=r"\s*(?:,?\be\b(?= (?:depois|verifique|diga))|;)\s*",
    joiner=" ",
    abilities=r"o que você (?:pode|sabe) fazer|quem é você",
    roll=r"\brole\b",
    sides=r"(\d+) (?:lados|faces)",
    count=r"\brole (\w+) |\b(duas) vezes\b",
    prime=r"\bprimos?\b",
    all_rolls=r"\bquais\b|\btodos\b",
    counts={"dois": 2, "duas": 2, "três": 3},
    and_=" e ",
    replies={
        "abilities": "Posso rolar dados de vários tamanhos e verificar se um número é primo.",
        "rolled": "Saiu {numbers}.",
        "prime": "{number} é primo.",
        "not_prime": "{number} não é primo.",
        "too_large": "Não foi possível: verifico números até {largest:,}.",
        "no_rolls": "Nenhum dado foi rolado ainda.",
        "no_rule": "Respondo a partir de um roteiro e não tenho regra para isso.",
    },
)

LANGUAGES = (TRADITIONAL_CHINESE, SIMPLIFIED_CHINESE, PORTUGUESE, ENGLISH)


def language_of(text):
    """The language a text is written in. English, which is told by nothing, comes last."""
    return next(language for language in LANGUAGES if re.search(language.told_by, text, re.IGNORECASE))
