"""Hashing of job keys."""

from __future__ import annotations

from itertools import product

from workbench.model.identity import CaseKey, JobKey


def test_different_job_keys_have_different_hashes() -> None:
    keys = {
        JobKey(case=CaseKey(target="t", eval_set=eval_set, eval_id=eval_id, occurrence=occurrence), repeat=repeat)
        for eval_set, eval_id, occurrence, repeat in product("ab", "cd", range(20), range(20))
    }

    assert len({hash(key) for key in keys}) == len(keys)
