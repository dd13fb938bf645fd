"""What views know of their base however they were made, and what the short forms of recording must not lose."""

from __future__ import annotations

import pytest

import ferro


def lost(t: ferro.Tensor) -> str:
    """What backward() says of a tensor without a history."""
    with pytest.raises(RuntimeError) as error:
        t.sum().backward()
    return str(error.value)


def test_a_view_that_is_given_other_memory_is_a_view_no_more() -> None:
    x = ferro.arange(4.0)
    v = x[1:]
    v.set_(ferro.ones(2))
    assert not v._is_view()
    w = v[:1]
    assert w._base is v
    w.zero_()
    assert v.tolist() == [0.0, 1.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_view_of_a_view_remembers_the_whole_way_from_the_base() -> None:
    x = ferro.arange(12.0).requires_grad_()
    y = x * 1
    v = y.view(3, 4).t().unsqueeze(0).transpose(1, 2).squeeze(0)[1:].chunk(2, 1)[1]
    assert v._base is y
    y.mul_(ferro.arange(12.0))
    (v * v).sum().backward()
    expected = ferro.zeros(12)
    expected[[6, 7, 10, 11]] = 2 * ferro.tensor([6.0, 7.0, 10.0, 11.0]) ** 3
    assert x.grad.tolist() == expected.tolist()


def test_a_later_change_of_a_views_own_shape_leaves_the_views_of_it_alone() -> None:
    x = ferro.arange(6.0).requires_grad_()
    y = x * 1
    v = y.view(2, 3)
    row = v[0]
    v.t_()
    y.mul_(2)
    assert row.tolist() == [0.0, 2.0, 4.0]
    row.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0, 0.0, 0.0, 0.0]


def test_pieces_made_under_no_grad_may_not_be_changed_with_grad_on() -> None:
    y = ferro.ones(4, requires_grad=True) * 1
    with ferro.no_grad():
        piece = y.split(2)[0]
    with pytest.raises(RuntimeError, match=r"A view was created in no_grad mode .*made under no_grad at"):
        piece.add_(1)
    with pytest.raises(RuntimeError, match=r"one of several views returned by 'split'"):
        y.split(2)[0].add_(1)


def test_views_and_pieces_say_where_their_history_was_lost() -> None:
    x = ferro.ones(2, 2, requires_grad=True)
    y = (x * 2).detach()
    for t in (y.view(4), y.t()[0], y.chunk(2)[1], y.unbind()[0]):
        assert "detach()" in lost(t)
    with ferro.no_grad():
        several = [x.view(4), x.chunk(2)[1], *x.max(0), ferro.cat((x, x)), ferro.stack((ferro.ones(2, 2), x))]
    for t in several:
        assert "no_grad" in lost(t.float() if t.dtype is ferro.int64 else t)


def test_blocks_without_grad_are_told_apart_by_their_lines() -> None:
    x = ferro.ones(2, requires_grad=True)
    first, second = [], []
    for _ in range(2):
        with ferro.no_grad():
            first.append(x * 2)  # the block above,
        with ferro.no_grad():
            second.append(x * 2)  # and this one
    places = [lost(t).split(" in ")[0] for t in (*first, *second)]
    assert places[0] == places[1] != places[2] == places[3]


def test_a_strided_tensor_is_expanded_without_a_copy_and_its_columns_can_be_written() -> None:
    x = ferro.zeros(3, 2)
    wide = x[:, 1:].expand(2, 3, 4)
    assert wide.stride() == (0, 2, 0)
    wide[0, :, 2].add_(1)
    assert x.tolist() == [[0.0, 1.0]] * 3
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        wide.add_(1)
    assert x[:, :1].expand(3, 0).shape == (3, 0)
    assert x[::2].t().expand(2, 2, 2).stride() == (0, 1, 4)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        x[:, :1].expand(2, 4)


def test_joined_tensors_are_promoted_and_each_gets_its_share() -> None:
    x = ferro.ones(2, requires_grad=True)
    y = ferro.ones(3, dtype=ferro.float64, requires_grad=True)
    z = ferro.cat([x, ferro.arange(2), y * 2])
    assert z.dtype is ferro.float64
    (z * ferro.arange(7.0)).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]
    assert x.grad.dtype is ferro.float32
    assert y.grad.tolist() == [8.0, 10.0, 12.0]
    with pytest.raises(TypeError, match=r"cat\(\): .*argument 'tensors\[1\]' must be Tensor"):
        ferro.cat([x, 1])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        ferro.stack([x, y.float()])


def test_a_bound_of_a_slice_may_be_changed_before_backward() -> None:
    x = ferro.arange(4.0).requires_grad_()
    start = ferro.tensor(2)
    y = x[start:]
    start.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_the_smallest_of_several_in_a_square_matrix_gets_the_gradient_of_its_row_or_column() -> None:
    a = [[3.0, 1.0], [2.0, 5.0]]
    for dim, keepdim, expected in ((0, False, [[0.0, 4.0], [6.0, 0.0]]), (1, True, [[0.0, 4.0], [6.0, 0.0]])):
        x = ferro.tensor(a, requires_grad=True)
        values = x.min(dim, keepdim).values
        weights = ferro.tensor([6.0, 4.0]) if dim == 0 else ferro.tensor([[4.0], [6.0]])
        (values * weights).sum().backward()
        assert x.grad.tolist() == expected
