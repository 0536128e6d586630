import numpy as np
import pytest
from torch import Tensor

from unitail import ProtoHead, TailClassifier
from unitail.errors import UserError
from unitail.framework.episode import Support
from unitail.framework.validity import ValidityReport
from unitail.tasks.arrays import ArrayTask
from unitail.validity_study.study import ValidityStudy, Verdict, study_validity


def test_each_way_to_fail_has_its_verdict(study: ValidityStudy) -> None:
    verdicts = {name: list(study.verdicts(name).values()) for name in study.reports}
    assert verdicts == {
        "prototypes": [Verdict.VALID, Verdict.VALID],
        "constant": [Verdict.GUESSES, Verdict.GUESSES],
        "forgetful": [Verdict.RISES, Verdict.RISES],
        "narrow": [Verdict.VALID, Verdict.CANNOT],
    }
    assert [study.reports[name].valid for name in ("forgetful", "narrow")] == [False, False]


def test_all_learners_answer_the_same_episodes(study: ValidityStudy) -> None:
    ours, theirs = (study.outcomes(name)["easy"] for name in ("prototypes", "narrow"))
    assert isinstance(ours, ValidityReport)
    assert isinstance(theirs, ValidityReport)
    np.testing.assert_array_equal(ours.curve.risks, theirs.curve.risks)


def test_rows_are_plain_and_complete(study: ValidityStudy) -> None:
    rows = study.rows()
    assert len(rows) == 8
    assert rows[0] | {"risk": 0, "half_width": 0, "bayes_risk": 0} == {
        **{"learner": "prototypes", "group": "narrow", "task": "easy", "width": 2, "ways": 2},
        **{"verdict": "valid", "shots": [1, 5, 20], "risk": 0, "half_width": 0, "bayes_risk": 0},
        **{"rises": [], "largest_rise_not_excluded": rows[0]["largest_rise_not_excluded"]},
    }
    assert "another width" in rows[-1]["reason"]


def test_an_unknown_bayes_risk_is_no_proof_of_validity() -> None:
    features = np.concatenate([np.zeros((12, 2)), np.ones((12, 2))])
    indices = np.repeat([0, 1], 12)
    task = ArrayTask(features=features, class_indices=indices, name="points")
    study = study_validity({"prototypes": ProtoHead()}, [task], draws=4)
    assert study.verdicts("prototypes") == {"points": Verdict.NO_RISE}
    (outcome,) = study.reports["prototypes"].outcomes
    assert isinstance(outcome, ValidityReport)
    assert outcome.curve.shots == (1, 2, 5)  # 12 rows, 4 of them queries


def test_a_classifier_takes_part_as_what_it_answers_after_a_fit() -> None:
    indices = np.repeat([0, 1], 20)
    features = np.random.default_rng(0).normal(size=(40, 3)) + indices[:, None]
    features[:, 0] = 1e-3 * indices  # too little to learn from, enough to tell who is who
    task = ArrayTask(features=features, class_indices=indices, name="blobs")
    classifier = TailClassifier(scale="none")
    study = study_validity({"unitail": classifier}, [task], shots=(1, 2), draws=2, queries=3)
    seen: list[tuple[Support, Tensor]] = []

    class Recorder(ProtoHead):
        def infer(self, support: Support, query_features: Tensor) -> Tensor:
            seen.append((support, query_features))
            return super().infer(support, query_features)

    study_validity({"recorder": Recorder()}, [task], shots=(1, 2), draws=2, queries=3)
    (outcome,) = study.reports["unitail"].outcomes
    assert isinstance(outcome, ValidityReport)
    assert 0 < outcome.curve.risks.mean() < 0.5
    for risks, (support, queries) in zip(outcome.curve.risks, seen, strict=True):
        for number, risk in enumerate(risks):
            classifier.fit(support.features[number].numpy(), support.class_indices[number].numpy())
            truth = (queries[number, :, 0] > 5e-4).long().numpy()
            answers = classifier.predict(queries[number].numpy())
            assert risk == pytest.approx(np.mean(answers != truth))


def test_wrong_studies_are_refused() -> None:
    task = ArrayTask(features=np.eye(6), class_indices=[0, 0, 0, 1, 1, 1], name="tiny")
    with pytest.raises(UserError, match="a study needs learners and tasks"):
        study_validity({}, [task])
    with pytest.raises(UserError, match=r"two tasks have the same name.*tiny"):
        study_validity({"a": ProtoHead()}, [task, task])
    with pytest.raises(UserError, match="'tiny' has too few rows for a curve"):
        study_validity({"a": ProtoHead()}, [task], shots=(5, 10))
    with pytest.raises(UserError, match="a rise needs several sizes"):
        study_validity({"a": ProtoHead()}, [task], shots=(1,))
