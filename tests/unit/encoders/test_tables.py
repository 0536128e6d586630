import io
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unitail.encoders.tables import MAX_DEVIATIONS, MAX_WEIGHT, TableEncoder, weight
from unitail.errors import InvalidInput

CSV = """age,income,colour,member,joined,id,code,empty,same
30,100.5,red,True,2020-01-05,k1,7,,x
41,,blue,False,2020-02-01,k2,a,,x
,230,,True,2021-07-30,k3,7,,x
25,80,red,False,2019-11-11,k4,,,x
60,120,green,True,2020-01-05,k5,a,,x
33,95,red,True,2020-03-05,k6,7,,x
47,300,blue,False,2022-01-01,k7,7,,x
52,110,red,True,2018-05-05,k8,a,,x
38,105,blue,False,2020-06-06,k9,7,,x
"""


@pytest.fixture(scope="module")
def support() -> pd.DataFrame:
    return pd.read_csv(io.StringIO(CSV))


@pytest.fixture(scope="module")
def encoder(support: pd.DataFrame) -> TableEncoder:
    return TableEncoder().fit(support)


def frames(rows: int = 6) -> st.SearchStrategy[pd.DataFrame]:
    """Make small tables of a column of numbers and two of categories, with missing values."""
    numbers = st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0])
    words = st.none() | st.sampled_from(["a", "b", "c", "missing"])
    flags = st.none() | st.booleans()
    return st.builds(
        lambda number, word, flag: pd.DataFrame(
            {"number": number, "word": word, "flag": flag, "sure": range(rows)}
        ),
        *(st.lists(values, min_size=rows, max_size=rows) for values in (numbers, words, flags)),
    )


def test_a_csv_of_everything(support: pd.DataFrame, encoder: TableEncoder) -> None:
    vectors = encoder.transform(support)
    widths = {column.name: column.width for column in encoder.columns}
    assert widths == {"age": 2, "income": 2, "colour": 4, "member": 2, "joined": 1, "code": 3}
    assert vectors.shape == (len(support), encoder.width) == (9, 14)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert encoder.dropped == {
        "id": "nearly as many values as rows",
        "empty": "no values",
        "same": "only one value",
    }


def test_it_does_what_scikit_learn_does(support: pd.DataFrame, encoder: TableEncoder) -> None:
    vectors = encoder.transform(support)
    numbers = make_pipeline(StandardScaler(), SimpleImputer(strategy="median"))
    expected = numbers.fit_transform(support[["age", "income"]])
    np.testing.assert_allclose(vectors[:, [0, 2]], expected, atol=1e-6)
    colours = OneHotEncoder(sparse_output=False).fit_transform(support[["colour"]])
    shares = np.array([3, 4, 1, 1]) / 9  # blue, red, green, missing
    expected_weight = 1 / np.sqrt(1 - np.square(shares).sum())
    np.testing.assert_allclose(
        np.unique(vectors[:, 4:8], axis=0), np.unique(expected_weight * colours, axis=0), atol=1e-6
    )


def test_missing_values_have_a_coordinate_of_their_own(encoder: TableEncoder) -> None:
    age = encoder.transform(pd.read_csv(io.StringIO(CSV)))[:, 1]
    assert age[2] > 0
    assert not np.delete(age, 2).any()


def test_what_the_support_never_lacks_is_the_median(encoder: TableEncoder) -> None:
    frame = TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0, 6.0]}))
    lacking, median = frame.transform(pd.DataFrame({"x": [None, 2.0]}))
    assert frame.width == 1
    np.testing.assert_array_equal(lacking, median)


def test_unknown_categories_are_zeros(support: pd.DataFrame, encoder: TableEncoder) -> None:
    query = support.head(2).assign(colour=["violet", "red"], member=[None, True])
    vectors = encoder.transform(query)
    assert not vectors[0, 4:10].any(), "`member` is never missing in the support"
    assert vectors[1, 4:10].any()


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(np.random.default_rng(0).normal(size=200)),
        pd.Series(["a", "b"] * 100),
        pd.Series(["a"] * 150 + ["b"] * 50),
        pd.Series([True, False, False, False] * 50),
        pd.Series([*"abcdefghij"] * 20),
        pd.Series(pd.date_range("2020-01-01", periods=200)),
    ],
)
def test_every_column_weighs_the_same_in_distances(column: pd.Series) -> None:
    vectors = TableEncoder().fit(column.to_frame("x")).transform(column.to_frame("x"))
    squares = np.square(vectors[:, None] - vectors).sum(axis=2)
    assert squares.mean() == pytest.approx(2, rel=1e-4)


def test_truth_values_and_zeros_and_ones_are_as_far_apart() -> None:
    column = np.array([True, False, False])
    one, other = (
        TableEncoder().fit(frame).transform(frame)
        for frame in (pd.DataFrame({"x": column}), pd.DataFrame({"x": column.astype(int)}))
    )
    distances = [np.linalg.norm(vectors[0] - vectors[1]) for vectors in (one, other)]
    assert distances[0] == pytest.approx(distances[1], rel=1e-6)


def test_the_missing_coordinate_is_as_far_apart_as_two_categories() -> None:
    frame = pd.DataFrame({"x": [5.0, 5.0, None]})
    vectors = TableEncoder().fit(frame).transform(frame)
    assert np.linalg.norm(vectors[0] - vectors[2]) == pytest.approx(np.sqrt(2) * weight([2, 1]))


def test_rare_exceptions_do_not_outvote_everything() -> None:
    assert weight([1000, 1]) == MAX_WEIGHT
    frame = pd.DataFrame({"x": [0.0] * 999 + [1.0]})
    assert np.abs(TableEncoder().fit(frame).transform(frame)).max() == MAX_DEVIATIONS


def test_many_categories_are_kept_if_they_come_again() -> None:
    names = [f"n{number:03}" for number in range(150)]
    frame = pd.DataFrame({"x": names * 3 + names[30:]})
    encoder = TableEncoder().fit(frame)
    assert encoder.width == 100
    assert not encoder.transform(pd.DataFrame({"x": ["n000"]})).any(), "one of the rarest"
    assert encoder.transform(pd.DataFrame({"x": ["n050"]})).any()


def test_a_few_different_values_are_categories() -> None:
    frame = pd.DataFrame({"x": [*"abcdefgh"]})
    assert TableEncoder().fit(frame).width == 8
    frame = pd.DataFrame({"x": [*"abcdefghi"], "y": range(9)})
    assert list(TableEncoder().fit(frame).dropped) == ["x"]


@settings(max_examples=30, deadline=None)
@given(frame=frames(), order=st.permutations(range(6)))
def test_the_order_of_rows_does_not_matter(frame: pd.DataFrame, order: list[int]) -> None:
    encoder, shuffled = TableEncoder().fit(frame), TableEncoder().fit(frame.iloc[order])
    vectors = encoder.transform(frame)
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(encoder.transform(frame.iloc[order]), vectors[order])
    assert shuffled.columns == encoder.columns
    one_by_one = [encoder.transform(frame.iloc[[row]])[0] for row in range(6)]
    np.testing.assert_array_equal(np.stack(one_by_one), vectors)


def test_sums_are_rounded_alike_in_any_order_of_rows() -> None:
    generator = np.random.default_rng(0)
    words = np.repeat([*"abcdefghijklmnop"], range(3, 19))
    frame = pd.DataFrame({"number": generator.normal(size=len(words)), "word": words})
    expected = TableEncoder().fit(frame).columns
    for seed in range(20):
        assert TableEncoder().fit(frame.sample(frac=1, random_state=seed)).columns == expected


@settings(max_examples=20, deadline=None)
@given(frame=frames(), order=st.permutations(["number", "word", "flag", "sure", "more"]))
def test_the_order_of_columns_and_others_beside_them_do_not_matter(
    frame: pd.DataFrame, order: list[str]
) -> None:
    encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(
        encoder.transform(frame.assign(more="text")[order]), encoder.transform(frame)
    )


@settings(max_examples=30, deadline=None)
@given(frame=frames(), query=frames())
def test_json_restores_every_bit(frame: pd.DataFrame, query: pd.DataFrame) -> None:
    encoder = TableEncoder().fit(frame)
    restored = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    assert restored.columns == encoder.columns
    assert (restored.dropped, restored.width) == (encoder.dropped, encoder.width)
    expected = encoder.transform(query)
    np.testing.assert_array_equal(restored.transform(query), expected)


def test_types_may_differ_between_support_and_queries(
    support: pd.DataFrame, encoder: TableEncoder
) -> None:
    vectors = encoder.transform(support)
    for other in (
        support.convert_dtypes(),
        support.convert_dtypes(dtype_backend="pyarrow"),
        support.astype(object),
        support.astype({"colour": "category", "member": object, "age": "float32"}),
        support.assign(joined=pd.to_datetime(support["joined"])),
    ):
        np.testing.assert_array_equal(encoder.transform(other), vectors)
        np.testing.assert_array_equal(TableEncoder().fit(other).transform(support), vectors)
    texts = support.assign(age=support["age"].astype(str))
    np.testing.assert_array_equal(encoder.transform(texts), vectors)


def test_extreme_numbers_do_no_harm() -> None:
    frame = pd.DataFrame({"x": [1e300, -np.inf, 1e99, -1e99, 0.0], "y": [0, 5e-324, 0, 0, 0]})
    encoder = TableEncoder().fit(frame)
    assert encoder.dropped == {"y": "only one value"}
    assert np.isfinite(encoder.transform(frame)).all()


def test_a_column_that_is_gone_is_named(support: pd.DataFrame, encoder: TableEncoder) -> None:
    with pytest.raises(InvalidInput, match="got no 'age', 'code'; allowed: all of 'age', 'income'"):
        encoder.transform(support.drop(columns=["age", "code", "id"]))


def test_a_column_of_another_kind_is_named(support: pd.DataFrame, encoder: TableEncoder) -> None:
    with pytest.raises(InvalidInput, match=r"column 'age' holds no numbers, .*got 'old'"):
        encoder.transform(support.assign(age="old"))
    with pytest.raises(InvalidInput, match=r"column 'joined' holds no dates, .*got 3"):
        encoder.transform(support.assign(joined=3))
    some = support.assign(age=["old", *support["age"][1:]])
    lacking = support.assign(age=[None, *support["age"][1:]])
    np.testing.assert_array_equal(encoder.transform(some), encoder.transform(lacking))


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame({"a": [1, 1], "b": [None] * 2})]
)
def test_tables_that_say_nothing_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(InvalidInput, match="no column that distinguishes its rows"):
        TableEncoder().fit(frame)


def test_other_misuse_is_refused(support: pd.DataFrame) -> None:
    with pytest.raises(
        InvalidInput, match=r"not a table: got ndarray; allowed: a pandas\.DataFrame"
    ):
        TableEncoder().fit(np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match=r"columns share a name: got '1'"):
        TableEncoder().fit(pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]))
    with pytest.raises(NotFittedError, match="call `fit` first"):
        TableEncoder().transform(support)
