"""Find or download the folder of a pretrained model, and check that it is safe to load.

Only numbers are trusted. Pickled weights are refused, and so is a configuration that names
attention code on the hub, which transformers would download and run.
"""

from pathlib import Path
from typing import Any

from unitail.configuration import parse_json
from unitail.errors import UnknownEncoder, optional
from unitail.files import sha256_of

PROBE_SECONDS = 3.0
"""Time for the hub to answer before the network counts as unavailable."""
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
SHARDS = "model-*-of-*.safetensors"
SETTINGS = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)
"""All files that are read besides the weights; nothing else is downloaded."""


def locate(name: str) -> Path:
    """Return the folder of a model, downloading it only if it is not on this disk.

    A model that was downloaded before is used without checking the hub for a newer version. A hub
    id may end in `@REVISION`. Without network a model that is not on the disk fails immediately.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or name.startswith("."):
        raise cannot_load(name, "no such folder")
    hub = optional("huggingface_hub", extra="encoders")
    repository, _, revision = name.partition("@")
    wanted = {"revision": revision or None, "allow_patterns": [*WEIGHTS, *SETTINGS, SHARDS]}
    try:
        cached = Path(hub.snapshot_download(repository, local_files_only=True, **wanted))
    except Exception:  # not cached, or not an id; the hub's errors have no common base class
        cached = None
    if cached is not None and has_weights(cached):
        return cached
    _probe(hub, name)
    try:
        return Path(hub.snapshot_download(repository, **wanted))
    except Exception as error:
        raise cannot_load(name, first_line(error)) from error


def check_folder(folder: Path, name: str) -> None:
    """Raise an error for a folder without safetensors, or with code on the hub to download."""
    config = read_settings(folder, "config.json")
    if not isinstance(config, dict):
        raise cannot_load(name, "no config.json")
    if not has_weights(folder):
        pickles = sorted(
            path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth"}
        )
        raise UnknownEncoder(
            f"model {name!r} has no safetensors weights",
            got=", ".join(pickles[:3]) or "no weights",
            allowed="model.safetensors; pickled weights are never loaded",
            remedy="Name a copy or a revision (ID@REVISION) of the model that has safetensors.",
        )
    if _names_code(config):
        raise cannot_load(name, "a config.json that asks for attention code from the hub")


def has_weights(folder: Path) -> bool:
    """Return whether a folder holds a model with safetensors weights."""
    return (folder / "config.json").exists() and any((folder / file).exists() for file in WEIGHTS)


def read_settings(folder: Path, file: str) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a JSON file in a model's folder; None if the file does not exist."""
    path = folder / file
    try:
        return parse_json(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, ValueError) as error:
        raise cannot_load(str(folder), f"{file}: {error}") from error


def hashes(folder: Path) -> list[str]:
    """Return the names and hashes of all files that affect a model's output."""
    files = [folder / file for file in (*WEIGHTS, *SETTINGS)] + sorted(folder.glob(SHARDS))
    return [
        part
        for path in files
        if path.is_file()
        for part in (path.relative_to(folder).as_posix(), sha256_of(path))
    ]


def cannot_load(name: str, got: str) -> UnknownEncoder:
    """Return the error for a model that cannot be loaded."""
    return UnknownEncoder(
        f"model {name!r} cannot be loaded",
        got=got,
        allowed="the folder or hub id of a transformers model with safetensors and preprocessing",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _probe(hub: Any, name: str) -> None:  # noqa: ANN401 - the module huggingface_hub
    """Raise an error if the hub cannot be reached, instead of retrying without network."""
    try:
        hub.utils.get_session().head(hub.constants.ENDPOINT, timeout=PROBE_SECONDS)
    except Exception as error:  # whatever the hub's HTTP library raises
        raise UnknownEncoder(
            f"model {name!r} is neither a folder nor downloaded, and the hub cannot be reached",
            got=first_line(error),
            allowed="the folder of a transformers model, one in the hub's cache, or a network",
        ) from error


def _names_code(value: object, *, code: bool = False) -> bool:
    """Return whether a key `..._implementation`, at any depth, names a repository on the hub."""
    if isinstance(value, dict):
        return any(
            _names_code(part, code=code or str(key).endswith("_implementation"))
            for key, part in value.items()
        )
    return code and isinstance(value, str) and "/" in value
