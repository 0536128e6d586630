import pytest

from unitail.configuration import from_table, to_table
from unitail.errors import InvalidConfig
from unitail.learners.registry import preset
from unitail.nn.episode_model import Visibility
from unitail.tail.config import PRESETS, TailConfig
from unitail.tail.model import Tail


def test_the_papers_preset_is_the_papers_table() -> None:
    config = preset("paper")
    assert (config.projected_dim, config.label_dim, config.hidden_dim) == (1280, 256, 1536)
    assert (config.layers, config.heads, config.mlp_dim) == (16, 16, 3072)
    assert config.dictionary_size == 100
    assert config.token_dim == config.hidden_dim, "the paper has no input layer"
    assert config.visibility is Visibility.JOINT, "all queries stand in one sequence"
    assert preset("paper-large") == TailConfig(dictionary_size=256)


@pytest.mark.parametrize("name", ["small", "tiny"])
def test_our_presets_isolate_queries(name: str) -> None:
    assert preset(name).visibility is Visibility.ISOLATED


@pytest.mark.parametrize(("name", "millions"), [("tiny", 0.23), ("small", 17.5)])
def test_small_presets_have_the_size_they_are_known_by(name: str, millions: float) -> None:
    weights = sum(parameter.numel() for parameter in Tail(preset(name)).parameters())
    assert weights / 1e6 == pytest.approx(millions, rel=0.03)


@pytest.mark.parametrize("name", PRESETS)
def test_a_config_survives_the_way_to_a_table_and_back(name: str) -> None:
    config = preset(name, visibility=Visibility.JOINT)
    assert from_table(TailConfig, to_table(config), "model") == config


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidConfig, match=r"unknown preset: got huge; allowed: paper, .*tiny"):
        preset("huge")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("heads", 5, "hidden_dim is out of range: got 96; allowed: a multiple of the 5 heads"),
        ("layers", 0, "layers is out of range: got 0; allowed: 1 or more"),
        ("dictionary_size", 1, "dictionary_size is out of range: got 1; allowed: 2 or more"),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: int, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        preset("tiny", **{field: value})


def test_plain_words_name_the_ways_to_choose_from() -> None:
    assert preset("tiny", visibility="joint").visibility is Visibility.JOINT
    with pytest.raises(InvalidConfig, match="visibility is unknown: got both; allowed: isolated"):
        preset("tiny", visibility="both")


@pytest.mark.parametrize("changes", [{"layers": "3"}, {"layers": 2.5}, {"dropout": 0.1}])
def test_changes_to_a_preset_are_checked(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig, match=r"preset tiny.*(wrong type|unknown key)|unknown key"):
        preset("tiny", **changes)
