"""Every path that a model names goes through here: what is opened lies in the workspace, or nothing is opened."""

from agent.paths.refusal import PathRefused, WorkspaceGone
from agent.paths.workspace import Workspace

__all__ = ["PathRefused", "Workspace", "WorkspaceGone"]
