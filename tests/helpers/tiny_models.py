"""Tiny models with random weights, saved as the hub's are: safetensors, config, preprocessing."""

from pathlib import Path
from typing import Protocol

import torch
import transformers


class Saved(Protocol):
    """What prepares the inputs of a model."""

    def save_pretrained(self, folder: Path) -> object:
        """Write its settings."""


WORDS = ("the", "cat", "dog", "sat", "ran", "on", "a", "mat", "far", "away", "and", "slept")


def save_tiny_clip(folder: Path, *, projection: int = 12) -> Path:
    """Save a whole CLIP, both towers; its image embeddings are `projection` wide."""
    tower = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={
            **tower,
            "num_hidden_layers": 1,
            "vocab_size": 20,
            "bos_token_id": 0,
            "eos_token_id": 1,
        },
        vision_config={**tower, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8},
        projection_dim=projection,
    )
    processor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    return _save(transformers.CLIPModel(config), processor, folder)


def save_tiny_resnet(folder: Path, *, width: int = 16) -> Path:
    """Save a ResNet with a head of two classes; its pooled output is `width` wide."""
    config = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, width],
        depths=[1, 1],
        layer_type="basic",
        num_labels=2,
    )
    processor = transformers.ConvNextImageProcessorPil(size={"shortest_edge": 32}, crop_pct=1.0)
    return _save(transformers.ResNetForImageClassification(config), processor, folder)


def save_tiny_vit(folder: Path, *, width: int = 16) -> Path:
    """Save a vision transformer without its pooling layer, as classifiers on the hub are."""
    config = transformers.ViTConfig(**_vit(width))
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    return _save(transformers.ViTModel(config, add_pooling_layer=False), processor, folder)


def save_tiny_mae(folder: Path, *, width: int = 16) -> Path:
    """Save a masked autoencoder, which hides random parts of an image at each call."""
    config = transformers.ViTMAEConfig(**_vit(width))
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    return _save(transformers.ViTMAEModel(config), processor, folder)


def save_tiny_bert(folder: Path, *, width: int = 16, max_tokens: int = 24) -> Path:
    """Save a BERT and a word tokenizer that knows `WORDS`; it reads `max_tokens` tokens at most."""
    tokenizer = _tokenizer(max_tokens)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=max_tokens,
    )
    return _save(transformers.BertModel(config), tokenizer, folder)


def save_tiny_distilbert(folder: Path, *, width: int = 16, max_tokens: int = 24) -> Path:
    """Save a DistilBERT; otherwise as `save_tiny_bert`."""
    tokenizer = _tokenizer(max_tokens)
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=width,
        hidden_dim=32,
        n_layers=2,
        n_heads=2,
        max_position_embeddings=max_tokens,
    )
    return _save(transformers.DistilBertModel(config), tokenizer, folder)


def save_tiny_wav2vec2(folder: Path, *, width: int = 16) -> Path:
    """Save a wav2vec2 for sound at 16 kHz, with a token for every 320 samples as the real one."""
    config = transformers.Wav2Vec2Config(
        hidden_size=width,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        conv_dim=[8] * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
    )
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16_000)
    return _save(transformers.Wav2Vec2Model(config), extractor, folder)


def _vit(width: int) -> dict[str, int]:
    return {
        "hidden_size": width,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }


def _tokenizer(max_tokens: int) -> transformers.PreTrainedTokenizerBase:
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    vocabulary = {word: number for number, word in enumerate(special + WORDS)}
    return transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=max_tokens)


def _save(model: transformers.PreTrainedModel, processor: Saved, folder: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # large weights, so that different inputs have visibly different vectors
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
