from unitail.encoder_names import ALIASES, DEFAULTS, encoder_name
from unitail.encoders.registry import ENCODERS


def test_all_names_lead_to_encoders_that_are_there() -> None:
    assert set(ALIASES.values()) <= set(ENCODERS)
    assert not set(ALIASES) & set(ENCODERS)
    assert encoder_name("efflite0") == "efficientnet-lite0"
    assert encoder_name("minilm") == "minilm"


def test_defaults_are_encoders_of_their_modality() -> None:
    assert {modality: ENCODERS[name].modality for modality, name in DEFAULTS.items()} == {
        modality: modality for modality in ("image", "text", "audio")
    }
