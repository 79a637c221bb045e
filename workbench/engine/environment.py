"""The variables with which models are asked for a target, and which of them are secrets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, urlsplit

from workbench.agents.worker import dotenv
from workbench.agents.worker.confidential import is_plain
from workbench.agents.worker.confidential import names_secret as may_name_secret
from workbench.model.target import Target
from workbench.model.text import add_secrets, names_secret

_SHORTEST = 6  # characters of a secret: shorter ones stand in other words by chance
_SHORTEST_WORD = 12  # of letters alone, or of digits alone
_SHORTEST_KEY = 16  # of what nothing but its looks tells to be one
_SECRETS = ("TOKEN", "SECRET", "PASSWORD")  # ends of names that leave no doubt
_NO_SECRETS = ("FILE", "PATH", "DIR", "FOLDER", "CREDENTIALS")  # ends of names that hold the place of a secret


def environment_of(target: Target) -> Mapping[str, str]:
    """The variables that models are asked with: ours, and those of the target's `.env` that ours do not set."""
    files = [] if target.env_file is None else [str(target.env_file)]
    return dotenv.effective(files, os.environ)


def add_secrets_of(targets: Iterable[Target]) -> None:
    """Mask the secrets in our environment and in the targets' `.env` files wherever they would be shown or stored."""
    add_secrets(_secrets_in(os.environ))
    for file in {target.env_file for target in targets if target.env_file is not None}:
        given = dotenv.effective([str(file)], {})
        add_secrets(_secrets_in(given))
        add_secrets(value for value in given.values() if _looks_like_key(value))


def _secrets_in(variables: Mapping[str, str]) -> Iterator[str]:
    """The values of variables whose names say that they are secrets, and passwords in addresses."""
    for name, value in variables.items():
        if _is_secret(name, value):
            yield value
        if "@" in value and (password := _password_in(value)):
            yield password


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name holds a secret that no text or argument has by chance.

    `PRIMARY_KEY=customer_id` is none: where the value reads like words, the name must leave no doubt.
    """
    if not may_name_secret(name) or name.upper().endswith(_NO_SECRETS) or value.startswith(("/", "./", "~/")):
        return False
    signs = "".join(value.split())
    if signs.isalpha() or signs.isdecimal():  # words, of which texts are full
        return len(signs) >= _SHORTEST_WORD
    is_named = names_secret(name) or name.upper().endswith(_SECRETS)
    return len(value) >= _SHORTEST and (is_named or not is_plain(value))


def _looks_like_key(value: str) -> bool:
    """Whether a value is one long word of letters and digits that is no name, number, path or address."""
    return (
        len(value) >= _SHORTEST_KEY
        and not any(sign.isspace() or sign == "/" for sign in value)
        and not is_plain(value)
        and any(sign.isalpha() for sign in value)
        and any(sign.isdigit() for sign in value)
    )


def _password_in(address: str) -> str | None:
    try:
        password = urlsplit(address).password
    except ValueError:
        return None
    return unquote(password) if password is not None and len(password) >= _SHORTEST else None
