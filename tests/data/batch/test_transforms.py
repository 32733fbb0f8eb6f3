import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rlfast.data import Batch  # noqa: E402

NAN = float("nan")


class TestEquality:
    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (1, [1]),
            (torch.tensor([1.0, 2.0]), np.array([1, 2], "f4")),
            (["a", None], ["a", None]),
            (np.array(["a"]), ["a"]),
            ([np.zeros(2), np.zeros(3)], [np.zeros(2), np.zeros(3)]),
            ({"x": {"y": 1}}, Batch(x=Batch(y=1))),
            (None, None),
            ("text", "text"),
        ],
    )
    def test_equal(self, a, b):
        assert Batch(f=a) == Batch(f=b)
        assert Batch(f=b) == Batch(f=a)

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (1, 2),
            (1, 1.0),
            ([1, 2], np.array([1, 2], "i4")),
            ([1, 0], [True, False]),
            (np.zeros((2, 2)), np.zeros(4)),
            (np.zeros((0, 2)), np.zeros((0, 3))),
            (["a", 1], ["a", 1.0]),
            ([np.zeros(2), np.zeros(3)], [np.zeros(2), np.ones(3)]),
            ({}, None),
            ({"x": 1}, {"y": 1}),
            (None, 0),
            ([NAN], [NAN]),
        ],
    )
    def test_different(self, a, b):
        assert Batch(f=a) != Batch(f=b)
        assert Batch(f=b) != Batch(f=a)

    def test_order_and_kind(self):
        assert Batch(a=1, b=2) == Batch(b=2, a=1)
        assert Batch() == Batch()
        assert Batch(a=1) != {"a": 1}
        assert Batch(a=1) != Batch(a=1, b=1)

    def test_batches_are_keys_by_what_they_are(self):
        a, b = Batch(a=1), Batch(a=1)
        assert a == b
        assert len({a, b}) == 2
        a.a = 5
        assert a in {a, b}


def test_a_function_of_all_values():
    batch = Batch(a=[1, 2], b=Batch(c=[3.0, 4.0], d=Batch()), s=["x", "y"])
    new = batch.apply_values_transform(lambda value: value[::-1])
    assert new == Batch(a=[2, 1], b=Batch(c=[4.0, 3.0], d=Batch()), s=["y", "x"])
    assert batch.a.tolist() == [1, 2]
    inner = batch.b
    assert batch.apply_values_transform(lambda value: value[:1], inplace=True) is None
    assert batch == Batch(a=[1], b=Batch(c=[3.0], d=Batch()), s=["x"])
    assert inner is batch.b
    assert Batch(a=[1]).apply_values_transform(lambda _: {"n": [1]}).a.n.tolist() == [1]
    assert Batch(a=[1]).apply_values_transform(lambda _: None).a is None


MISSING = Batch(
    a=[1, None, NAN],
    b=Batch(c=[1.0, NAN, 2.0], i=[1, 2, 3]),
    t=torch.tensor([1.0, NAN, 3.0]),
    d=np.array(["2020-01-01", "NaT", "2020-01-01"], "M8[D]").astype(object),
    o=[object(), "x", np.float64("nan")],
    f=[True, False, True],
    single=None,
)


def test_where_values_are_missing():
    null = MISSING.isnull()
    assert null.a.tolist() == [False, True, True]
    assert null.b.c.tolist() == [False, True, False]
    assert null.b.i.tolist() == null.f.tolist() == [False] * 3
    assert null.t.tolist() == [False, True, False]
    assert null.o.tolist() == [False, False, True]
    assert null.single
    assert null.single.dtype == bool


@pytest.mark.parametrize("key", ["a", "b", "t", "o", "single"])
def test_whether_a_value_is_missing(key):
    assert Batch({key: MISSING[key], "z": 1}).hasnull()


def test_times_that_are_none():
    batch = Batch(a=1)
    batch.__dict__["t"] = np.array(["2020-01-01", "NaT"], "M8[D]")
    assert batch.isnull().t.tolist() == [False, True]


def test_nothing_is_missing():
    assert not Batch(a=[1, 2], b=Batch(c=["x", 0.0]), d=Batch()).hasnull()
    assert not Batch().hasnull()
    assert Batch().isnull() == Batch()


def test_rows_in_which_nothing_is_missing():
    batch = Batch(a=[None, 2, 3, 4], b=Batch(c=[4, 5, NAN, 7]), m=np.arange(8).reshape(4, 2), e=Batch())
    assert batch.dropnull() == Batch(a=[2, 4], b=Batch(c=[5.0, 7.0]), m=[[2, 3], [6, 7]], e=Batch())
    assert len(batch) == 4
    assert Batch().dropnull() == Batch()
    assert len(Batch(a=[None]).dropnull()) == 0


class TestSetArrayAtKey:
    def test_a_whole_field(self):
        batch = Batch(a=[1, 2, 3])
        batch.set_array_at_key(np.array([4, 5, 6]), "b")
        assert batch.b.tolist() == [4, 5, 6]
        with pytest.raises(ValueError, match="2 rows for a Batch of 3"):
            batch.set_array_at_key(np.array([4, 5]), "b")

    @pytest.mark.parametrize("index", [[0, 2], np.array([True, False, True]), slice(0, 3, 2)])
    def test_some_rows_of_a_new_field(self, index):
        batch = Batch(a=[1, 2, 3])
        batch.set_array_at_key(np.array([0.5, 1.5]), "b", index)
        assert np.isnan(batch.b[1])
        assert batch.b[[0, 2]].tolist() == [0.5, 1.5]
        batch.set_array_at_key(np.array([4, 5]), "c", index, default_value=7)
        assert batch.c.tolist() == [4, 7, 5]
        assert batch.c.dtype == np.int64

    def test_some_rows_of_a_field(self):
        batch = Batch(a=[1, 2, 3])
        batch.set_array_at_key(np.array([9]), "a", [1])
        assert batch.a.tolist() == [1, 9, 3]

    def test_what_cannot_be_set(self):
        batch = Batch(a=[1, 2, 3], n=Batch(a=[1, 2, 3]))
        with pytest.raises(TypeError, match="cannot be None among int64"):
            batch.set_array_at_key(np.array([4, 5]), "b", [0, 1])
        assert "b" not in batch
        with pytest.raises(ValueError, match="'n' is a Batch"):
            batch.set_array_at_key(np.array([4, 5]), "n", [0, 1])


def test_empty_batches_become_none():
    batch = Batch(a=Batch(), b=Batch(c=Batch(), d=1))
    batch.replace_empty_batches_by_none()
    assert batch.a is None
    assert batch.b.c is None
    assert batch.b.d == 1


def test_two_axes_at_least():
    batch = Batch(a=1, b=[1, 2], c=np.zeros((2, 2, 2)), n=Batch(t=torch.ones(3)), e=Batch()).to_at_least_2d()
    assert [value.shape for value in (batch.a, batch.b, batch.c, batch.n.t)] == [(1, 1), (1, 2), (2, 2, 2), (1, 3)]
    assert isinstance(batch.n.t, torch.Tensor)


@pytest.mark.parametrize("name", ["to_numpy", "to_torch"])
def test_conversions_are_in_place_and_give_the_batch(name):
    batch = Batch(a=np.zeros(2), b=torch.zeros(2))
    kind = np.ndarray if name == "to_numpy" else torch.Tensor
    assert getattr(batch, name)() is batch
    assert isinstance(batch.a, kind)
    assert isinstance(batch.b, kind)
    batch = Batch(a=np.zeros(2), b=torch.zeros(2))
    assert getattr(batch, name + "_")() is None
    assert isinstance(batch.a, kind)
    assert isinstance(batch.b, kind)


def test_it_says_how_it_is_called():
    assert str(inspect.signature(Batch)) == "(batch_dict=None, copy=False, **kwargs)"
