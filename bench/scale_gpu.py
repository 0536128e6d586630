"""Images that a GPU encodes per second, for docs/scale.md.

Time depends on a network's shape and not on its weights, so the weights are random:
EfficientNet-B0, of which EfficientNet-Lite0 is a simpler variant, and ViT-H/14, the paper's
encoder. Pixels (224 x 224, one byte each) are in host memory and are sent in batches; vectors come
back. Reading and decoding files is not included: bench/scale_out.py measures that.

    python bench/scale_gpu.py --out results/scale_out/gpu.md
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring.page import Page
from measuring.timing import device_name, wait
from scale_out import mean_interval

SIDE = 224


def efficientnet(side: int) -> Any:  # noqa: ANN401 - a network of an optional package
    """Return EfficientNet-B0."""
    from transformers import EfficientNetConfig, EfficientNetModel

    shape: dict[str, Any] = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280}
    return EfficientNetModel(EfficientNetConfig(image_size=side, **shape))


def vit_huge(side: int) -> Any:  # noqa: ANN401
    """Return the vision tower of OpenCLIP ViT-H/14."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    shape: dict[str, Any] = {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "patch_size": 14,
    }
    return CLIPVisionModel(CLIPVisionConfig(image_size=side, hidden_act="gelu", **shape))


NETWORKS: dict[str, Callable[[int], Any]] = {"EfficientNet-B0": efficientnet, "ViT-H/14": vit_huge}


@torch.inference_mode()
def rates(network: Any, dtype: torch.dtype, args: argparse.Namespace) -> list[float]:  # noqa: ANN401
    """Return the images per second of each repeat, after a warm-up."""
    device = torch.device(args.device)
    network = network.eval().to(device, dtype)
    pixels = torch.randint(0, 256, (args.batch, args.side, args.side, 3), dtype=torch.uint8)
    pixels = pixels.pin_memory() if device.type == "cuda" else pixels
    rates_of_repeats = []
    for _ in range(1 + args.repeats):
        wait(device)
        began = time.perf_counter()
        for _ in range(args.batches):
            inputs = pixels.to(device, non_blocking=True).permute(0, 3, 1, 2).to(dtype)
            network(pixel_values=(inputs - 127) / 128).pooler_output.float().cpu()
        rates_of_repeats.append(args.batch * args.batches / (time.perf_counter() - began))
    return rates_of_repeats[1:]


def main() -> None:
    """Measure every network in both precisions, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--side", type=int, default=SIDE, help="pixels of an image")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--batches", type=int, default=8, help="in each repeat")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    page = Page(
        args.out, "Images encoded a second by a GPU", f"{device_name(torch.device(args.device))}."
    )
    page.text(
        f"Batches of {args.batch} images of {args.side} x {args.side}, {args.batches} in each of"
        f" {args.repeats} repeats; means with their 95 % intervals."
    )
    page.table(["network", *args.dtypes])
    for name in args.networks:
        made = [
            rates(NETWORKS[name](args.side), getattr(torch, each), args) for each in args.dtypes
        ]
        page.row(name, *map(mean_interval, made))


if __name__ == "__main__":
    main()
