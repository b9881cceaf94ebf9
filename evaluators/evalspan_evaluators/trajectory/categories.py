"""Categories: kinds of tools, so that an expectation can say `search` instead of one tool's name."""

from collections.abc import Mapping

__all__ = ["CATEGORIES", "category_members"]

#: EvalView 0.8's eight categories; a general shell such as `bash` serves several of them.
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "file_read": ("bash", "text_editor", "read_file", "read", "view", "cat", "view_file", "str_replace_editor"),
    "file_write": ("bash", "text_editor", "write_file", "write", "edit_file", "create_file", "str_replace_editor"),
    "file_list": ("bash", "list_directory", "list_dir", "ls", "find", "directory_tree", "analyze"),
    "search": (
        "bash",
        "grep",
        "ripgrep",
        "rg",
        "search",
        "search_files",
        "code_search",
        "find_in_files",
        "analyze",
    ),
    "shell": ("bash", "shell", "terminal", "execute", "run_command", "exec", "developer"),
    "web": ("web_search", "browse", "fetch_url", "http_request", "curl", "wget"),
    "git": ("bash", "git", "git_commit", "git_push", "git_pull", "git_status", "github"),
    "python": ("bash", "python", "python_repl", "execute_python", "ipython", "jupyter"),
}


def category_members(category: str, own: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Names of the category's tools: the known ones plus the user's own.

    Raises:
        ValueError: Nobody defines the category.
    """
    members = (*CATEGORIES.get(category, ()), *own.get(category, ()))
    if not members:
        known = ", ".join(sorted({*CATEGORIES, *own}))
        raise ValueError(f"tool category {category!r} is not defined: one of {known}, or define it in own_categories")
    return members
