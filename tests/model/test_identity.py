"""Hashing of job keys."""

from __future__ import annotations

import copy
import pickle
from itertools import product

from workbench.model.identity import CaseKey, JobKey


def test_different_job_keys_have_different_hashes() -> None:
    keys = {
        JobKey(case=CaseKey(target="t", eval_set=eval_set, eval_id=eval_id, occurrence=occurrence), repeat=repeat)
        for eval_set, eval_id, occurrence, repeat in product("ab", "cd", range(20), range(20))
    }

    assert len({hash(key) for key in keys}) == len(keys)


def test_a_copied_job_key_computes_its_own_hash() -> None:
    key = JobKey(case=CaseKey(target="t", eval_set="s", eval_id="c"), repeat=1)

    assert copy.deepcopy(key) == key and pickle.loads(pickle.dumps(key)) == key
    assert str(hash(key)).encode() not in pickle.dumps(key, protocol=0)  # other processes hash texts differently
