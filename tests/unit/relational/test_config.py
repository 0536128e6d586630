import pytest

from unitail.configuration import from_table, to_table
from unitail.errors import InvalidConfig
from unitail.nn.episode_model import Visibility
from unitail.relational.config import PRESETS, RelationalConfig
from unitail.relational.model import Relational


def test_the_default_is_small() -> None:
    weights = sum(weight.numel() for weight in Relational(PRESETS["default"]).parameters())
    assert weights < 1_000_000


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_a_table(name: str) -> None:
    config = PRESETS[name]
    assert from_table(RelationalConfig, to_table(config), "model") == config


def test_fields_of_older_versions_are_read_if_they_say_what_is_still_so() -> None:
    older = {**to_table(PRESETS["tiny"]), "features_as": "relations", "projected_dim": 256}
    assert from_table(RelationalConfig, older, "model") == PRESETS["tiny"]
    older["features_as"] = "both"
    message = "model.features_as is no longer supported: got 'both'; allowed: 'relations', or none"
    with pytest.raises(InvalidConfig, match=message):
        from_table(RelationalConfig, older, "model")


def test_plain_words_will_do() -> None:
    assert RelationalConfig(visibility="joint").visibility is Visibility.JOINT  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["channels", "layers", "heads", "value_dim", "mlp_dim"])
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is out of range: got 0; allowed: 1 or more"):
        RelationalConfig(**{name: 0})


def test_fewer_than_no_joint_layers_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="joint_layers is out of range: got -1; allowed: 0 or"):
        RelationalConfig(joint_layers=-1)


def test_a_causal_order_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="unknown: got causal; allowed: isolated, joint"):
        RelationalConfig(visibility=Visibility.CAUSAL)


@pytest.mark.parametrize("fields", [{"coordinate_limit": 0.0}, {"angles_from_origin": False}])
def test_a_limit_of_coordinates_is_positive_and_needs_the_origin(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidConfig, match="coordinate_limit is out of range: got"):
        RelationalConfig(**{"coordinate_limit": 2.5, **fields})  # type: ignore[arg-type]
