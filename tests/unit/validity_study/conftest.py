import pytest
import torch
from torch import Tensor

from unitail.baselines.proto_head import ProtoHead
from unitail.errors import WrongWidth
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.tasks.synthetic.gaussian import GaussianTask
from unitail.validity_study.declared import DeclaredTask
from unitail.validity_study.study import ValidityStudy, study_validity


class Constant:
    """Always the first class."""

    paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        scores = torch.zeros(*query_features.shape[:2], support.ways)
        scores[..., 0] = 1
        return scores.log_softmax(dim=-1)


class Forgetful:
    """Prototypes that answer at random once there are many examples."""

    paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        if support.num_support > 6 * support.ways:
            return Constant().infer(support, query_features)
        return ProtoHead().infer(support, query_features)


class Narrow:
    """Refuses all but one width."""

    paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        if query_features.shape[-1] != 2:
            raise WrongWidth("another width", got="3", allowed="2")
        return ProtoHead().infer(support, query_features)


def gaussian(width: int, distance: float, name: str) -> GaussianTask:
    means = torch.zeros(2, width)
    means[1, 0] = distance
    return GaussianTask(means=means, scale=torch.ones(width), name=name)


@pytest.fixture(scope="package")
def study() -> ValidityStudy:
    tasks = [
        DeclaredTask(task=gaussian(2, 3.0, "easy"), group="narrow"),
        DeclaredTask(task=gaussian(3, 3.0, "wide"), group="wide"),
    ]
    learners = {
        "prototypes": ProtoHead(),
        "constant": Constant(),
        "forgetful": Forgetful(),
        "narrow": Narrow(),
    }
    return study_validity(learners, tasks, shots=(1, 5, 20), draws=40, queries=20)
