import pytest

from steelyard.curriculum import TaskOrder


def test_every_pass_holds_every_task_once_in_a_new_order():
    order = TaskOrder(7, seed=3)
    passes = [[order.draw(7 * p + i) for i in range(7)] for p in range(4)]
    assert all(sorted(p) == list(range(7)) for p in passes)
    assert len({tuple(p) for p in passes}) > 1


def test_a_draw_depends_on_seed_and_number_only():
    assert [TaskOrder(9, 1).draw(n) for n in (20, 3, 11)] == [
        TaskOrder(9, 1).draw(n) for n in (20, 3, 11)
    ]
    first, second = TaskOrder(9, 1), TaskOrder(9, 2)
    assert [first.draw(n) for n in range(9)] != [second.draw(n) for n in range(9)]


def test_no_tasks_is_an_error():
    with pytest.raises(ValueError, match="no task"):
        TaskOrder(0, 0)
