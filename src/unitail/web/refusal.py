"""Why a request was refused: one sentence in the form of all our errors, and a status of HTTP."""

from collections.abc import Mapping

from unitail.errors import UserError


class Refusal(UserError):
    """A request that is answered by a 4xx or 503 and one sentence."""

    remedy = "Correct the request and send it again."

    def __init__(
        self,
        status: int,
        wrong: str,
        *,
        got: object,
        allowed: str,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(wrong, got=got, allowed=allowed, remedy=remedy)
        self.status = status
        self.headers = dict(headers or {})

    @property
    def content(self) -> dict[str, str]:
        """What the body of the answer says."""
        return {"error": str(self)}
