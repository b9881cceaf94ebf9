"""Keys: API keys of projects, made, listed and revoked in the store, where every collector finds them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspan.errors import InputError
from evalspan_collector.run import iso_time
from evalspan_dashboard.commands.options import (
    Config,
    Data,
    Json,
    Project,
    StoreUrl,
    connect_clickhouse,
    limited,
    own_project,
    read_settings,
)
from evalspan_dashboard.output import console, errors, print_json, print_table

if TYPE_CHECKING:
    from evalspan_collector.store.keys import StoredKey

__all__ = ["keys_create", "keys_list", "keys_revoke", "register"]


KeyProject = Annotated[
    str | None,
    typer.Option(
        "--project",
        help="The project that what is sent with the key belongs to; required.",
        show_default="EVALSPAN_PROJECT_ONLY",
        callback=limited,
    ),
]


def _key_json(key: "StoredKey") -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "project": key.project,
        "name": key.name,
        "created_at": iso_time(key.created_ns),
        "last_used_at": None if key.last_used_ns is None else iso_time(key.last_used_ns),
        "revoked_at": None if key.revoked_ns is None else iso_time(key.revoked_ns),
    }


def keys_create(
    project: KeyProject = None,
    name: Annotated[str, typer.Option("--name", help="Who uses it, for the list.")] = "",
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Make an API key of a project and show it, once; what is sent with it belongs to the project.

    Collectors know it within a few seconds. Once there is any key, every request needs one.

    Example: evalspan keys create --project checkout --name ci
    """
    from evalspan_collector.store.keys import ApiKeys

    if project is None:
        raise InputError("a key belongs to a project: name it, for example --project checkout")
    made = ApiKeys(connect_clickhouse(read_settings(config=config, data=data, store_url=store_url)).client).create(
        project, name
    )
    if as_json:
        print_json({**_key_json(made.key), "key": made.secret})
        return
    console.print(made.secret)
    errors.print(
        f"key {made.key.key_id} of project {project!r}; it is not shown again. Send it with "
        'OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer KEY"; from now on senders without a key are refused'
    )


def keys_list(
    project: Project = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """List API keys, revoked ones too; the keys themselves are kept nowhere.

    Example: evalspan keys list --project checkout --json
    """
    from evalspan_collector.store.keys import ApiKeys

    store = connect_clickhouse(read_settings(config=config, data=data, store_url=store_url))
    rows = [_key_json(key) for key in ApiKeys(store.client).listed(project)]
    if as_json:
        for row in rows:
            print_json(row)
        return
    columns = ("key_id", "project", "name", "created_at", "last_used_at", "revoked_at")
    title = f"{len(rows)} keys" if rows else "No keys: make one with `evalspan keys create --project NAME`"
    print_table(title, columns, ([row[column] for column in columns] for row in rows))


def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, from `evalspan keys list`.")],
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Refuse an API key from now on; collectors follow within a few seconds.

    Example: evalspan keys revoke 9f86d081884c
    """
    from evalspan_collector.store.keys import ApiKeys

    store = connect_clickhouse(read_settings(config=config, data=data, store_url=store_url))
    revoked = ApiKeys(store.client).revoke(key_id, project=own_project())
    if as_json:
        print_json(_key_json(revoked))
        return
    console.print(f"key {revoked.key_id} of project {revoked.project!r} is revoked")


def register(app: typer.Typer) -> None:
    """Add these commands."""
    commands: dict[str, Callable[..., None]] = {"create": keys_create, "list": keys_list, "revoke": keys_revoke}
    group = typer.Typer(help="API keys of projects.", no_args_is_help=True)
    for name, command in commands.items():
        group.command(name)(command)
    app.add_typer(group, name="keys")
