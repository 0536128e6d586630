"""One seed, many named and independent streams; no global random state."""

import hashlib
import operator

import torch


def stream(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the random stream that `seed` and `names` identify.

    The same seed and names always give the same stream, and streams of different names are
    independent, so adding a consumer of randomness never shifts the numbers of another.
    """
    key = tuple(part if isinstance(part, str) else operator.index(part) for part in (seed, *names))
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(digest, "big") >> 1)  # torch seeds are signed 64 bit
    return generator


def random_injections(
    count: int, domain: int, codomain: int, generator: torch.Generator
) -> torch.Tensor:
    """Draw `count` uniform injections [domain] -> [codomain] as rows of images: (count, domain).

    The first `domain` entries of a uniform permutation of the codomain are a uniform injection.
    """
    keys = torch.rand(count, codomain, generator=generator, device=generator.device)
    return keys.argsort(dim=1)[:, :domain]
