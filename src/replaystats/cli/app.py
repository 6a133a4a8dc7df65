"""The commands, put together. A command is loaded when it is used: ``replaystats --help`` waits for none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .._core.errors import Message
from .._core.version import __version__

# Of click, wherever typer has it from.
UsageError: Any = typer.BadParameter.__bases__[0]
# "module:function"
COMMANDS = {
    "check": "replaystats.cli.evaluate:check",
    "compare": "replaystats.cli.evaluate:compare",
    "diagnose": "replaystats.cli.evaluate:diagnose",
    "evaluate": "replaystats.cli.evaluate:evaluate",
    "regress": "replaystats.cli.regress:regress",
}


class LateCommand(TyperCommand):
    """A command of which only name and help are known until it is used.

    The help ends with the examples of the docstring, and with the EPILOG of the module if it has one.
    """

    def __init__(self, name: str, target: str) -> None:
        about, _, self.examples = (_docstring(target) or "").partition("Examples\n--------\n")
        super().__init__(name=name, help=_flowing(about))
        self.target = target

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Load the command and hand over to it."""
        from .console import ExitCode, refusing, together

        command = self.load()
        known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
        with refusing(ExitCode.USAGE):
            together(*(partial(_check_option, word.partition("=")[0], known) for word in _options_in(args)))
        with in_one_sentence(f"replaystats {info_name}"):
            return command.make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Import the module and return its command."""
        module_name, _, function = self.target.partition(":")
        module = import_module(module_name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        examples = f"Examples:\n\n{self.examples}\n\n" if self.examples else ""
        epilog = _flowing(examples + getattr(module, "EPILOG", "")) or None
        alone.command(self.name, help=self.help, epilog=epilog)(getattr(module, function))
        return get_command(alone)


class Commands(TyperGroup):
    """Our commands, and those that other packages bring, as the re-run of the paper does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        brought = {point.name: point.value for point in entry_points(group="replaystats.commands")}
        for name, target in {**COMMANDS, **brought}.items():
            self.commands[name] = LateCommand(name, target)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or refuse its name."""
        from .console import answer_programs

        answer_programs("--json" in args)
        with in_one_sentence("replaystats"):
            return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; code of the user that ends the program is no success."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):  # nobody reads any more, as behind `head`
                raise
            typer.echo(f"Error: Some code that the command ran called sys.exit({error.code!r}).", err=True)
            raise typer.Exit(2) from error
        finally:
            from .console import answer_programs

            answer_programs(False)  # the next command of this process may be without --json


@contextmanager
def in_one_sentence(command: str) -> Iterator[None]:
    """Refuse wrong words as the commands refuse wrong values."""
    try:
        yield
    except UsageError as error:
        from .console import ExitCode, refusing

        said, hint = error.format_message(), f"See {command} --help."
        option = max(getattr(getattr(error, "param", None), "opts", [""]), key=len)
        with refusing(ExitCode.USAGE):
            said = f"{said}{'' if said[-1] in '.?' else '.'} {hint}"
            raise ValueError(Message.of(said, option, hint)) from error


def _options_in(args: list[str]) -> list[str]:
    """Return the words that can only be options; behind ``--`` there are none."""
    before = args[: args.index("--")] if "--" in args else args
    return [word for word in before if word.startswith("--")]


def _check_option(word: str, known: set[str]) -> None:
    """Refuse an option that does not exist, with the one that is meant, also by its name in Python."""
    if word in known:
        return
    from .._core.errors import must_be
    from ..readers._columns import no_such_name
    from .console import option_of

    meant = option_of(word.removeprefix("--").replace("-", "_"))
    hint = f'Did you mean "{meant}"?'
    if meant not in known:
        hint = no_such_name("option", "", word, sorted(known), "See --help.").args[0].hint
    raise ValueError(must_be(word, "an option of this command", "an unknown name", hint))


def _docstring(target: str) -> str | None:
    """Return the docstring of ``module:function`` from its source, without importing anything."""
    module, _, function = target.partition(":")
    package, *inner = module.split(".")
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        source = Path(folder, *inner).with_suffix(".py")
        for node in ast.parse(source.read_text(encoding="utf-8")).body if source.exists() else []:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return ast.get_docstring(node)
    return None


def _flowing(text: str) -> str:
    """Join the lines of each paragraph: the terminal decides where they break."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"replaystats {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="replaystats",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Estimate on many random subsets, combine, and know what you got."""
