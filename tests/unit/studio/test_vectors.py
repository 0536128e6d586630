import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.studios import open_studio, write_pictures
from unitail.studio import vectors


def test_a_vector_of_an_older_file_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pictures(tmp_path, 6)
    studio = open_studio(tmp_path)
    encode, calls = vectors.encode, []

    def late(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        """Change and remove files after they are read, before their vectors are there."""
        result = encode(*arguments, **options)
        calls.append(arguments)
        if len(calls) == 1:
            shutil.copy(tmp_path / "0001.png", tmp_path / "0000.png")
            (tmp_path / "0002.png").unlink()
            studio.check_files()
        return result

    monkeypatch.setattr(vectors, "encode", late)
    studio.vectors.encode_all()
    assert np.array_equal(*studio.vectors.at(np.array([0, 1])))
    assert 2 not in studio.vectors.encoded_places()
    assert studio.progress()["failures"] == {"2": "the file is gone"}
    studio.stop()
