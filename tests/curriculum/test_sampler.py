import pytest

from steelyard.curriculum import TaskOrder

KINDS = ["or", "not", "idx"] * 3


def test_every_pass_holds_every_task_once_in_a_new_order():
    order = TaskOrder(["k"] * 7, seed=3)
    passes = [[order.draw(7 * p + i) for i in range(7)] for p in range(4)]
    assert all(sorted(p) == list(range(7)) for p in passes)
    assert len({tuple(p) for p in passes}) > 1


def test_a_draw_depends_on_seed_and_number_only():
    assert [TaskOrder(KINDS, 1).draw(n) for n in (20, 3, 11)] == [
        TaskOrder(KINDS, 1).draw(n) for n in (20, 3, 11)
    ]
    first, second = TaskOrder(KINDS, 1), TaskOrder(KINDS, 2)
    assert [first.draw(n) for n in range(9)] != [second.draw(n) for n in range(9)]


def test_no_tasks_is_an_error():
    with pytest.raises(ValueError, match="no task"):
        TaskOrder([], 0)


def test_the_kinds_take_turns():
    order = TaskOrder(KINDS, 0)
    drawn = [KINDS[order.draw(n)] for n in range(18)]
    assert all(len(set(drawn[i : i + 3])) == 3 for i in range(0, 18, 3))


def test_a_kind_with_more_tasks_goes_on_when_the_others_are_through():
    kinds = ["a", "b", "b", "b"]
    order = TaskOrder(kinds, 0)
    drawn = [order.draw(n) for n in range(4)]
    assert sorted(drawn) == [0, 1, 2, 3]
    assert {kinds[i] for i in drawn[:2]} == {"a", "b"}
