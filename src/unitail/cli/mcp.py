"""Run `unitail mcp`."""

from collections.abc import Sequence

from unitail.errors import optional


def run(models: Sequence[str], *, save_changes: bool, device: str) -> None:
    """Load the classifiers and run the server; only protocol messages go to standard output."""
    optional("mcp.server.mcpserver", extra="mcp")
    from unitail.service.classifiers import load_classifiers
    from unitail.service.mcp_server import make_mcp_server

    classifiers = load_classifiers(models, device=device, save_changes=save_changes)
    make_mcp_server(classifiers).run()
