"""Classify sounds from three examples of each kind: `TailClassifier` on waveforms.

Run with `python examples/audio.py`; needs `pip install 'unitail[encoders]'`.
"""

import numpy as np

from unitail import TailClassifier

RATE = 16_000
KINDS = ("tone", "siren", "noise", "clicks")


def make(kind: str, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Return one second of a sound with some noise: samples and sample rate."""
    time = np.arange(RATE) / RATE
    pitch = generator.uniform(200, 800)
    if kind == "tone":
        sound = np.sin(2 * np.pi * pitch * time)
    elif kind == "siren":
        sound = np.sin(2 * np.pi * pitch * time + 40 * np.sin(2 * np.pi * 3 * time))
    elif kind == "noise":
        sound = generator.normal(size=RATE)
    else:
        sound = (time * generator.uniform(6, 12) % 1 < 0.01) * generator.normal(size=RATE)
    loudness = generator.uniform(0.1, 0.5)
    return (loudness * sound + 0.005 * generator.normal(size=RATE)).astype(np.float32), RATE


def main() -> None:
    """Fit on three sounds of each kind, and predict ten of each."""
    generator = np.random.default_rng(0)
    labels = [kind for kind in KINDS for _ in range(3)]
    sounds = [make(kind, generator) for kind in labels]
    classifier = TailClassifier(encoder="auto").fit(sounds, labels)
    truth = [kind for kind in KINDS for _ in range(10)]
    queries = [make(kind, generator) for kind in truth]
    probabilities = classifier.predict_proba(queries)
    for kind in KINDS:
        row = probabilities[truth.index(kind)]
        print(f"{kind}: answered {classifier.classes_[row.argmax()]} ({row.max():.0%})")
    accuracy = (classifier.predict(queries) == truth).mean()
    print(f"accuracy: {accuracy:.2f} on {len(truth)} sounds")


if __name__ == "__main__":
    main()
