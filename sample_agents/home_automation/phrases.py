"""What the agent understands and says: the script, one `Language` for each way of writing.

To teach it another language, add a `Language` to `LANGUAGES`; nothing else has to change.
"""

import re
from typing import NamedTuple


class Language(NamedTuple):
    """One way of writing.

    `told_by` tells that a text is written so (the first language whose pattern is found is taken). `separator` stands
    between two wishes, `joiner` between two sentences of an answer. `intents` are tried in order. `rooms` are as users
    write them, `places` as the answers say "in that room".
    """

    told_by: str
    separator: str
    joiner: str
    intents: dict[str, str]
    rooms: dict[str, str]
    places: dict[str, str]
    kinds: dict[str, str]
    statuses: dict[str, str]
    replies: dict[str, str]


ENGLISH = Language(
    told_by="",
    separator=r"\s*(?:,?\band(?: then)?\b|;)\s*",
    joiner=" ",
    intents={
        "capabilities": r"what can you do",
        "recall": r"what.*\b(?:command|ask)",
        "get_status": r"\b(?:status|state) of\b|^is device_\d+ (?:on|off)",
        "set_temperature": r"\b(?:set|make)\b.*?(?P<degrees>\S+) degrees",
        "get_temperature": r"\bhow (?:warm|cold)\b|what.* temperature",
        "ON": r"\b(?:turn|switch)(?: the)?(?: \w+)* on\b",
        "OFF": r"\b(?:turn|switch)(?: the)?(?: \w+)* off\b",
    },
    rooms={"Bedroom": "bedroom", "Living Room": "living room", "Kitchen": "kitchen", "Garage": "garage"},
    places={
        "Bedroom": "in the bedroom",
        "Living Room": "in the living room",
        "Kitchen": "in the kitchen",
        "Garage": "in the garage",
    },
    kinds={"light": "light", "fan": "fan", "heater": "heater", "*": "everything"},
    statuses={"ON": "on", "OFF": "off"},
    replies={
        "set_status": "I have set the {device_id} status to {status}.",
        "get_status": "The status of {device_id} is {status}.",
        "set_temperature": "I have set the temperature {place} to {temperature} °C.",
        "get_temperature": "It is {temperature} °C {place}.",
        "recall": "You asked me: {command}",
        "no_command": "You have not asked me for anything yet.",
        "capabilities": "I switch devices, tell you their status, and read or set the temperature of a room.",
        "unknown_device": "I could not do that: there is no {device_id} in this home.",
        "wrong_room": "I could not do that: {device_id} is not {place}.",
        "unreachable": "{device_id} does not answer, so I left it as it was.",
        "no_thermostat": "I could not do that: there is no thermostat {place}.",
        "out_of_range": "I could not do that: the thermostat takes {coldest} to {warmest} °C, not {temperature} °C.",
        "nothing_there": "I found nothing like that {place}.",
        "no_rule": "I answer from a script and have no rule for this.",
    },
)

SIMPLIFIED_CHINESE = Language(
    told_by=r"[\u4e00-\u9fff]",
    separator=r"\s*(?:[,，;；]?(?:然后|并且|再)|[,，;；])\s*",
    joiner="",
    intents={
        "capabilities": r"你能做什么|你会做什么",
        "recall": r"刚才.*(?:什么|命令)",
        "get_status": r"状态|开着吗|关着吗",
        "set_temperature": r"(?:设为|调到|设置为)\s*(?P<degrees>[^\s度]+)\s*度",
        "get_temperature": r"几度|多少度|温度是",
        "ON": r"打开|开启",
        "OFF": r"关闭|关掉|关上",
    },
    rooms={"Bedroom": "卧室", "Living Room": "客厅", "Kitchen": "厨房", "Garage": "车库"},
    places={"Bedroom": "卧室", "Living Room": "客厅", "Kitchen": "厨房", "Garage": "车库"},
    kinds={"light": "灯", "fan": "风扇", "heater": "暖气", "*": "所有设备"},
    statuses={"ON": "打开", "OFF": "关闭"},
    replies={
        "set_status": "我已将 {device_id} 状态设置为{status}。",
        "get_status": "{device_id} 的状态是{status}。",
        "set_temperature": "我已将{place}的温度设置为 {temperature} 度。",
        "get_temperature": "{place}现在是 {temperature} 度。",
        "recall": "您刚才说的是：{command}",
        "no_command": "您还没有让我做任何事。",
        "capabilities": "我可以开关设备、查询设备状态，还可以读取或设置房间的温度。",
        "unknown_device": "无法完成：家里没有 {device_id}。",
        "wrong_room": "无法完成：{device_id} 不在{place}。",
        "unreachable": "{device_id} 没有响应，我没有改变它的状态。",
        "no_thermostat": "无法完成：{place}没有温控器。",
        "out_of_range": "无法完成：温控器只能设为 {coldest} 到 {warmest} 度，不能设为 {temperature} 度。",
        "nothing_there": "我在{place}没有找到这样的设备。",
        "no_rule": "我按脚本回答，没有对应这句话的规则。",
    },
)

TRADITIONAL_CHINESE = Language(
    told_by=r"[關開臥廳廚溫設備嗎將狀態燈風車庫點個說這會麼]",
    separator=r"\s*(?:[,，;；]?(?:然後|並且|再)|[,，;；])\s*",
    joiner="",
    intents={
        "capabilities": r"你能做什麼|你會做什麼",
        "recall": r"剛才.*(?:什麼|指令)",
        "get_status": r"狀態|開著嗎|關著嗎",
        "set_temperature": r"(?:設為|調到|設定為)\s*(?P<degrees>[^\s度]+)\s*度",
        "get_temperature": r"幾度|多少度|溫度是",
        "ON": r"打開|開啟",
        "OFF": r"關閉|關掉|關上",
    },
    rooms={"Bedroom": "臥室", "Living Room": "客廳", "Kitchen": "廚房", "Garage": "車庫"},
    places={"Bedroom": "臥室", "Living Room": "客廳", "Kitchen": "廚房", "Garage": "車庫"},
    kinds={"light": "燈", "fan": "風扇", "heater": "暖氣", "*": "所有裝置"},
    statuses={"ON": "開啟", "OFF": "關閉"},
    replies={
        "set_status": "我已將 {device_id} 狀態設為{status}。",
        "get_status": "{device_id} 的狀態是{status}。",
        "set_temperature": "我已將{place}的溫度設為 {temperature} 度。",
        "get_temperature": "{place}現在是 {temperature} 度。",
        "recall": "您剛才說的是：{command}",
        "no_command": "您還沒有請我做任何事。",
        "capabilities": "我可以開關裝置、查詢裝置狀態，也可以讀取或設定房間的溫度。",
        "unknown_device": "無法完成：家裡沒有 {device_id}。",
        "wrong_room": "無法完成：{device_id} 不在{place}。",
        "unreachable": "{device_id} 沒有回應，我沒有改變它的狀態。",
        "no_thermostat": "無法完成：{place}沒有溫控器。",
        "out_of_range": "無法完成：溫控器只能設為 {coldest} 到 {warmest} 度，不能設為 {temperature} 度。",
        "nothing_there": "我在{place}找不到這樣的裝置。",
        "no_rule": "我依腳本回答，沒有對應這句話的規則。",
    },
)

PORTUGUESE = Language(
    told_by=r"\b(?:des)?lig(?:ue|ar)\b|\bqual\b|\bquantos\b|\bo que\b|\btemperatura\b|\best[áa]\b",
    separator=r"\s*(?:,?\be(?: depois)?\b|;)\s*",
    joiner=" ",
    intents={
        "capabilities": r"o que (?:você )?(?:pode|sabe) fazer",
        "recall": r"o que .*\bpedi\b",
        "get_status": r"\bestado d[oa]\b|está (?:desligad|ligad)[oa]",
        "set_temperature": r"temperatura.* (?:para|em) (?P<degrees>\S+) graus",
        "get_temperature": r"quantos graus|qual .*temperatura",
        "ON": r"\blig(?:ue|ar)\b",
        "OFF": r"\bdeslig(?:ue|ar)\b",
    },
    rooms={"Bedroom": "quarto", "Living Room": "sala", "Kitchen": "cozinha", "Garage": "garagem"},
    places={"Bedroom": "no quarto", "Living Room": "na sala", "Kitchen": "na cozinha", "Garage": "na garagem"},
    kinds={"light": "luz", "fan": "ventilador", "heater": "aquecedor", "*": "tudo"},
    statuses={"ON": "ligado", "OFF": "desligado"},
    replies={
        "set_status": "Mudei o estado do {device_id} para {status}.",
        "get_status": "O estado do {device_id} é {status}.",
        "set_temperature": "Ajustei a temperatura {place} para {temperature} °C.",
        "get_temperature": "Agora faz {temperature} °C {place}.",
        "recall": "Você me pediu: {command}",
        "no_command": "Você ainda não me pediu nada.",
        "capabilities": "Ligo e desligo aparelhos, digo o estado deles e leio ou ajusto a temperatura de um cômodo.",
        "unknown_device": "Não foi possível: não há {device_id} nesta casa.",
        "wrong_room": "Não foi possível: o {device_id} não fica {place}.",
        "unreachable": "O {device_id} não responde; deixei-o como estava.",
        "no_thermostat": "Não foi possível: não há termostato {place}.",
        "out_of_range": "Não foi possível: o termostato aceita de {coldest} a {warmest} °C, não {temperature} °C.",
        "nothing_there": "Não encontrei nada assim {place}.",
        "no_rule": "Respondo a partir de um roteiro e não tenho regra para isso.",
    },
)

LANGUAGES = (TRADITIONAL_CHINESE, SIMPLIFIED_CHINESE, PORTUGUESE, ENGLISH)


def language_of(text):
    """The language a text is written in. English, which is told by nothing, comes last."""
    return next(language for language in LANGUAGES if re.search(language.told_by, text, re.IGNORECASE))
