"""What is worked out once for each object."""

from __future__ import annotations

from workbench.model.by_identity import by_identity


def test_works_out_once_for_each_object_however_equal_they_are() -> None:
    asked: list[list[int]] = []

    @by_identity(at_most=8)
    def total(numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(numbers)

    one, equal = [1, 2], [1, 2]

    assert [total(one), total(equal), total(one)] == [3, 3, 3]
    assert [id(each) for each in asked] == [id(one), id(equal)]


def test_never_takes_one_object_for_another_that_had_its_place_in_memory() -> None:
    @by_identity(at_most=4)
    def copied(numbers: list[int]) -> list[int]:
        return [*numbers]

    # Each list is gone before the next is made, which would mostly get its id.
    assert [copied([number]) for number in range(1_000)] == [[number] for number in range(1_000)]


def test_keeps_no_more_than_it_may() -> None:
    asked = []

    @by_identity(at_most=2)
    def first(text: list[str]) -> str:
        asked.append(text[0])
        return text[0]

    texts = [["a"], ["b"], ["c"]]
    for each in (*texts, texts[2], texts[0]):
        first(each)

    assert asked == ["a", "b", "c", "a"]
