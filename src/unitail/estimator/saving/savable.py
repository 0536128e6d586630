"""What lets a fitted classifier be saved and loaded."""

import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from unitail.encoders.encoder import Encoder
from unitail.errors import InvalidConfig
from unitail.estimator.held_out import SavedScores
from unitail.estimator.saving.folder import (
    SavedClassifier,
    check_parameters,
    load_classifier,
    load_errors,
    plain_parameters,
    save_classifier,
)
from unitail.estimator.scaling import Scale, from_plain, plain, scale_after
from unitail.inputs.encode import EncoderChoice
from unitail.inputs.input_encoder import (
    AUTO,
    InputEncoder,
    ItemEncoder,
    describe_encoder,
    restore_encoder,
)


class SavableEstimator(BaseEstimator):  # type: ignore[misc]
    """What lets `TailClassifier` be saved and loaded."""

    encoder: EncoderChoice
    _inputs: InputEncoder | None

    def save(self, path: Path | str, *, calibrate: bool = True) -> Path:
        """Write the fitted classifier to a folder, without pickle.

        The folder holds all rows, and the model unless it is the shipped one, which is referred to
        by hash, as is the encoder; a card, README.md, says what it is. Labels may be strings,
        numbers and booleans.

        Parameters
        ----------
        path : Path or str
            A new or empty folder, or one with a classifier to replace.
        calibrate : bool, default=True
            Whether to save what `predict_set` needs, too. If it was not called yet, that takes some
            seconds for 1,000 rows, now rather than after every load.

        Returns
        -------
        Path
            The folder.

        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = SavedClassifier(
            rows=self._fitted.rows,
            classes=self.classes_,
            seed=self._fitted.settings.seed,
            parameters=plain_parameters(self._learned_with),
            feature_names=None if names is None else list(names),
            model=self._fitted.settings.model,
            inputs=describe_encoder(self._inputs),
            scale=plain(self._fitted.settings.scale),
            pool=self._fitted.pool,
            saved_scores=self._saved_scores() if calibrate else None,
            expected=getattr(self, "_expected", None),
        )
        return save_classifier(saved, Path(path))

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        device: str | None = None,
        encoder: Encoder[Any] | None = None,
        visibility: str | None = None,
        class_shares: str | ArrayLike | None = None,
    ) -> Self:
        """Read a classifier that `save` wrote.

        Parameters
        ----------
        path : Path or str
            The folder.
        device : str, default=None
            In place of the one that it was fitted on.
        encoder : Encoder, default=None
            One of your own, which cannot be made again by its name.
        visibility : str, default=None
            In place of the one that it was fitted with.
        class_shares : "balanced" or array-like, default=None
            In place of those that it was fitted with.

        Returns
        -------
        TailClassifier
            It answers as the saved one did.

        """
        saved = load_classifier(Path(path))
        asked = {
            "device": device,
            "encoder": encoder,
            "visibility": visibility,
            "class_shares": class_shares,
        }
        changes = {name: value for name, value in asked.items() if value is not None}
        check_parameters(Path(path), saved.parameters, cls._get_param_names())
        with load_errors(Path(path)):
            classifier = cls(saved.model, **{**saved.parameters, **changes})
            inputs = restore_encoder(saved.inputs, encoder, classifier.device)
            classifier.n_features_in_ = saved.rows.features.shape[1]
            if saved.feature_names is not None:
                classifier.feature_names_in_ = np.array(saved.feature_names, dtype=object)
            scale = from_plain(saved.scale)
            loaded: Self = classifier._learn(
                saved.rows, saved.classes, saved.seed, inputs, scale, saved.pool, saved.saved_scores
            )
            loaded._expected = saved.expected
        return loaded

    def with_encoder(self, encoder: InputEncoder | None) -> Self:
        """Return the same classifier for what this encoder makes vectors of; None is vectors.

        Its `scale` is then the one that a fit with the encoder, or on the vectors, comes to again.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other._inputs = encoder
        named = isinstance(encoder, ItemEncoder)
        other.encoder = None if encoder is None else encoder.name if named else AUTO
        scale = self._fitted.settings.scale
        other.scale = plain(Scale.AUTO if scale == scale_after(Scale.AUTO, encoder) else scale)
        other.parts = self._fitted.settings.parts if encoder is None else None
        changed = {"encoder": other.encoder, "scale": other.scale, "parts": other.parts}
        other._learned_with = {**self._learned_with, **changed}
        return other

    def _saved_scores(self) -> SavedScores | None:
        """Return what prediction sets are made with, if the model can make them."""
        fitted = self._fitted
        try:
            scores = fitted.held_out_scores
            return SavedScores.of(scores, fitted.rows, fitted.settings, fitted.pool)
        except InvalidConfig:  # a model that was never asked for one row at a time
            return None
