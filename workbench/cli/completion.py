"""`workbench completion SHELL`: what a shell needs to complete our commands and options."""

from __future__ import annotations

import click

from workbench.cli.streams import write_text


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for a shell.

    \b
    bash: workbench completion bash > ~/.local/share/bash-completion/completions/workbench
    zsh:  workbench completion zsh > a folder of $fpath, as _workbench
    fish: workbench completion fish > ~/.config/fish/completions/workbench.fish
    """
    from click.shell_completion import get_completion_class

    from workbench.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None  # click knows all shells of the choice above
    completer = kind(cli, {}, "workbench", "_WORKBENCH_COMPLETE")
    # `source_template % source_vars()` is what `source()` gives, without asking which bash is installed here: the
    # script may be for another machine.
    write_text(completer.source_template % completer.source_vars())
    return 0
