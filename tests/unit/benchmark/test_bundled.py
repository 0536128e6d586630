import numpy as np

from unitail.benchmark.bundled import bundled_bank, bundled_names


def test_each_is_a_bank_with_a_fingerprint_of_its_own() -> None:
    banks = [bundled_bank(name) for name in bundled_names()]
    assert [bank.full_name for bank in banks] == [
        *("scikit-learn/digits", "scikit-learn/wine", "scikit-learn/breast_cancer")
    ]
    assert len({bank.fingerprint for bank in banks}) == 3
    wine = banks[1]
    assert wine.class_sizes.tolist() == [59, 71, 48]
    assert np.allclose(wine.features.mean(axis=0), 0, atol=1e-5)
