import pytest
import torch

from unitail.errors import UserError
from unitail.framework.checks import check_log_probabilities

PROBABILITIES = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [[0.5, 0.25, 0.25], [1, 0, 0]]])
ANSWERS = PROBABILITIES.double().log()


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (ANSWERS[:, :1], r"the answers of it have the wrong shape: got \(2, 1, 3\)"),
        (torch.nan * ANSWERS, "the log-probabilities of it are not numbers: got 12 NaN of 12"),
        (PROBABILITIES, "the answers of it are not log-probabilities"),
    ],
)
def test_what_is_no_answer_is_refused(answers: torch.Tensor, message: str) -> None:
    check_log_probabilities(ANSWERS, (2, 2, 3), "it")
    with pytest.raises(UserError, match=message):
        check_log_probabilities(answers, (2, 2, 3), "it")
