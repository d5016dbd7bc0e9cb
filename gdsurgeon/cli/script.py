"""Scripts of edits: the syntax of their lines; the command of each line returns its edit instead of running it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from gdsurgeon.cli.command import common_options, is_given, usage_error
from gdsurgeon.cli.options import ConflictingOptions, Pairs
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.container.files import saved_model_at
from gdsurgeon.container.load import meta_of
from gdsurgeon.errors import GdsurgeonError, InputError, UsageError, printable, quoted
from gdsurgeon.text import Entry, first_lines, near_miss, nearest, shortened, suggestion
from gdsurgeon.wire import sniff
from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME, open_source

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit, Instruction


FEWEST = 3
"""Minimum lines of a file that is refused if no line begins with a command."""

TYPOGRAPHIC = "“”„‘’‚«»"
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
"""The name of a variable."""

_VARIABLE = rf"(?P<variable>\$(?:{NAME}|\(|\{{[^}}\n]*\}}?)?)"
_COMMENT = r"\#[^\n]*"
_FIRST = rf"(?:\\\r?\n)*{_COMMENT}"
_PIECES = (
    rf"(?P<space>(?:\\\r?\n)*[^\S\n](?:[^\S\n]|\\\r?\n)*(?:{_COMMENT})?)"
    r"|(?P<continues>\\\r?(?:\n|\Z))"
    rf"|(?P<blank>\\[^\S\n]+(?:\n(?:{_FIRST})?|\Z))"
    r"|'(?P<single>[^'\n]*)'"
    r'|"(?P<double>(?:\\.|[^"\\\n])*)"'
    r"|(?P<open>'[^\n]*"
    r'|"(?:\\.|[^"\\\n])*)'
    rf"|\\(?P<escaped>.)|{_VARIABLE}|(?P<bare>[^\s\\'\"$]+)"
)
_PIECE = re.compile(rf"(?P<comment>\A{_FIRST})|{_PIECES}", re.DOTALL)
"""A piece of a line. A comment stands at the beginning, or after a space; a # within a word is a part of the word."""
_LINE = re.compile(rf"(?:{_FIRST})?(?:{_PIECES})*(?:\n|\Z)", re.DOTALL)
"""A line with its continuation lines."""

_IN_QUOTES = re.compile(rf"(?P<continues>\\\r?\n)|\\(?P<escaped>[\"\\$`])|{_VARIABLE}|(?P<plain>[^\\$]+|\\)")
"""A piece of a text within double quotes."""


class Part(NamedTuple):
    """A part of a word.

    Attributes:
        text: the text, without quotes.
        kind: ``bare``, ``quoted`` (or after a backslash), or the ``value`` of a variable.
    """

    text: str
    kind: str


Word = list[Part]


class ScriptLine(NamedTuple):
    """A line of a script, with its continuation lines.

    Attributes:
        number: the number of the first line, from 1.
        text: the text of the line, without backslashes of continuation and comments.
        words: the words of the line, split as a shell does.
        error: the error in a faulty line, which has no words, or None.
    """

    number: int
    text: str = ""
    words: tuple[str, ...] = ()
    error: UsageError | None = None


# -- words -------------------------------------------------------------------------------------------------------


def read_script(text: str, variables: Mapping[str, str]) -> list[ScriptLine]:
    """Returns the non-empty lines of the script `text` with the values of `variables`.

    The syntax is a subset of that of a POSIX shell: ``#`` starts a comment, a backslash at the end of a line joins the
    next line, quotes keep words together, and ``$NAME`` and ``${NAME}`` are replaced by the value of a variable, except
    within single quotes. A value is never split into words; among the arguments of a step it is one argument. Pipes,
    redirections and other shell features are errors.
    """
    out: list[ScriptLine] = []
    number = 1
    for line in _LINE.finditer(text):
        pieces = [*_PIECE.finditer(line[0])]
        at = number
        try:
            words: list[Word] = []
            after = "space"
            for piece in pieces:
                kind = str(piece.lastgroup)
                at = number + (line[0].count("\n", 0, piece.start()) if kind == "blank" else 0)
                if kind not in ("space", "comment", "continues"):
                    if after == "space":
                        words.append([])
                    words[-1] += _parts(kind, piece[kind], variables, is_first=not words[-1])
                after = kind if kind != "continues" else after
            if words:
                check_is_edit(words)
                shown = {"space": " ", "comment": "", "continues": ""}
                written = "".join(shown.get(str(piece.lastgroup), piece[0]) for piece in pieces)
                plain = " ".join(re.sub(r"\\\r?\n", "", written).split())
                texts: list[str] = []
                for word in words:
                    text = "".join(part.text for part in word)
                    is_steps = texts[-1:] == ["--steps"] or text.startswith("--steps=")
                    texts.append(steps_text(word) if is_steps else text)
                out.append(ScriptLine(number, plain, tuple(texts)))
        except UsageError as wrong:
            out.append(ScriptLine(at, error=wrong))
        number += line[0].count("\n")
    return out


def _parts(kind: str, text: str, variables: Mapping[str, str], *, is_first: bool) -> Iterator[Part]:
    """Yields the parts of a word in a piece. Raises UsageError."""
    if kind == "open":
        line = f"the quote {text[0]} is not closed; within double quotes, a backslash at the end continues the line"
        raise UsageError(line, code="bad-script", value=text[0])
    if kind == "blank":
        line = "there is a space after the backslash: a backslash continues the line only as the last character"
        raise UsageError(line, code="bad-script", value="\\")
    if kind == "variable":
        yield _value(text, variables, "bare")
    elif kind == "double":
        for found in _IN_QUOTES.finditer(text):
            if found.lastgroup == "variable":
                yield _value(found[0], variables, "quoted")
            elif found.lastgroup != "continues":
                yield Part(found[found.lastgroup or 0], "quoted")
    else:
        if kind == "bare" and is_first and text[0] in TYPOGRAPHIC:
            raise UsageError(f"{text[0]} is a typographic quote: use ' or \"", code="bad-script", value=text[0])
        yield Part(text, "bare" if kind == "bare" else "quoted")


def _value(text: str, variables: Mapping[str, str], kind: str) -> Part:
    """Returns the value of the variable ``$NAME`` or ``${NAME}``; a single ``$`` is a part of `kind`."""
    if text == "$":
        return Part(text, kind)
    found = re.fullmatch(rf"\$(?:({NAME})|\{{({NAME})\}})", text)
    if found is None:
        line = "neither a command $(...) nor an expression ${...} is run: use a variable $VAR, and --var VAR=VALUE"
        raise UsageError(line, code="bad-script", value=text[:2])
    name = found[1] or found[2]
    if name not in variables:
        near = nearest(name, variables)
        line = f"the variable {quoted(name)} is not set.{suggestion(near)}".rstrip(".")
        raise UsageError(line, code="no-such-variable", name=name, near=near)
    return Part(variables[name], "value")


# -- shell features ----------------------------------------------------------------------------------------------

_JOINS = r"(;|&&|\|\||^\|&?$|\|(?=(?:\S*/)?gdsurgeon$))"
_FEATURES = (
    (_JOINS, "{} cannot be used in a script: write the next edit on a separate line, without 'gdsurgeon' and MODEL"),
    (r"^([0-9&]?>>?)", "{} cannot write a file: use -o OUT of apply"),
    (r"^([0-9&]?<)", "{} cannot read a file"),
    (r"^(~)/", "{} is not replaced: use $HOME"),
    (r"(`)", "a command in `...` is not run: use a variable $VAR, and set it with --var VAR=VALUE"),
)
"""Patterns of shell features in a word, and the errors."""

_QUOTED = "\0"
"""Replaces quoted text and values of variables."""


def check_is_edit(words: Sequence[Word]) -> None:
    """Raises UsageError if the `words` of a line use a shell feature or call gdsurgeon."""
    bare = ["".join(part.text if part.kind == "bare" else _QUOTED for part in word) for word in words]
    calls = 1 if bare[0].rpartition("/")[2] == "gdsurgeon" else 3 if bare[1:3] == ["-m", "gdsurgeon"] else 0
    if calls:
        edit = f": {quoted(f'{bare[calls]} ...')}" if bare[calls:] and _QUOTED not in bare[calls] else ""
        raise UsageError(f"a line is written without 'gdsurgeon' and without MODEL{edit}", code="model-in-a-script")
    assigns = re.match(rf"({NAME})=", bare[1] if bare[0] == "export" and bare[1:] else bare[0])
    if assigns is not None:
        line = f"a line cannot set a variable: use apply --var {assigns[1]}=VALUE, or the environment"
        raise UsageError(line, code="bad-script", value=assigns[0])
    for place, word in enumerate(bare):
        for pattern, message in _FEATURES:
            found = re.search(pattern, word)
            if found is None:
                continue
            if pattern == _JOINS and any(before.startswith("--steps") for before in bare[:place]):
                line = "put the value of --steps between quotes: --steps 'STEP | STEP'"
                raise UsageError(line, code="bad-script", option="--steps")
            raise UsageError(message.format(quoted(found[1])), code="bad-script", value=found[0].rstrip("/"))
    if bare[-1] == "&":
        raise UsageError("an edit cannot run in the background: leave out '&'", code="bad-script", value="&")


# -- steps -------------------------------------------------------------------------------------------------------

_VALUE = "\ud800"
"""Replaces a value; UTF-8 text cannot contain it."""

_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|['"].*|[()]|[\s,\[\]|=]+|[^\s,()\[\]|='"]+""", re.DOTALL)


def steps_text(word: Word) -> str:
    """Returns `word`, a text of steps, in which the value of a variable in parentheses is a single value.

    The value is quoted if the language of steps would split it. Outside parentheses, a value may contain steps.

    Raises:
        UsageError: a value contains both kinds of quotes, which the language of steps cannot represent.
    """
    values = iter([part.text for part in word if part.kind == "value"])
    out: list[str] = []
    depth = 0
    for token in _TOKEN.findall("".join(_VALUE if part.kind == "value" else part.text for part in word)):
        depth += (token == "(") - (token == ")")
        text = re.sub(_VALUE, lambda _: next(values), token)
        if _VALUE not in token or not depth:
            out.append(text)
        elif token[0] not in "'\"":
            out.append(text if _is_one_value(text) else _between_quotes(text))
        else:
            out.append(_between_quotes(text[1:-1]) if token[1:].endswith(token[0]) else text)
    return "".join(out)


def _is_one_value(text: str) -> bool:
    """Returns whether `text` is a single value in the language of steps: a number, a word, a list or a quoted text."""
    from gdsurgeon.steps.language import parse

    try:
        calls = parse(f"step({text})")
    except UsageError:
        return False
    arguments = calls[0].arguments
    return text == text.strip() and len(calls) == len(arguments) == 1 and not arguments[0].key


def _between_quotes(text: str) -> str:
    quote = next((quote for quote in "'\"" if quote not in text), "")
    if not quote:
        line = "contains both kinds of quotes, but a text in steps can contain only one kind"
        raise UsageError(f"{quoted(shortened(text, 40))} {line}", code="bad-script")
    return f"{quote}{text}{quote}"


# -- variables ---------------------------------------------------------------------------------------------------


class Variables(dict[str, str]):
    """The values of a script's variables.

    Args:
        given: the variables of --var; the other variables are those of the environment.

    Attributes:
        unused: the given variables that no line has used.

    Raises:
        UsageError: a variable has an invalid name, or is set twice.
    """

    def __init__(self, given: Pairs) -> None:
        super().__init__(os.environ)
        self.unused: list[str] = []
        for name, value in given:
            if re.fullmatch(NAME, name) is None:
                line = f"--var: {quoted(name)} is not the name of a variable: letters, digits and _, no digit first"
                raise UsageError(line, code="bad-name", option="--var", name=name)
            if name in self.unused:
                raise UsageError(f"--var sets {quoted(name)} twice", code="given-twice", option="--var", name=name)
            self[name] = value
            self.unused.append(name)

    def __getitem__(self, name: str) -> str:
        if name in self.unused:
            self.unused.remove(name)
        return super().__getitem__(name)

    def check_used(self, called: str, text: str) -> None:
        """Raises UsageError if the script `text`, whose name is `called`, does not use one of the given variables."""
        for name in self.unused:
            why = ": it is not replaced between single quotes, after a backslash and in comments"
            near = nearest(name, dict.fromkeys(_names_in(text)))
            more = why if near == name else f".{suggestion(near)}"
            line = f"--var {printable(name)}: {printable(called)} does not use ${printable(name)}{more}"
            raise UsageError(line.rstrip("."), code="unused-variable", name=name, near=near)


def _names_in(text: str) -> list[str]:
    """Returns the names in references to variables."""
    return re.findall(rf"\$\{{?({NAME})", text)


# -- files -------------------------------------------------------------------------------------------------------


def read_text(path: str, hint: str) -> str:
    """Returns the text of the script `path`; ``-`` is standard input.

    Raises:
        InputError: the file cannot be read, is not text, or is a model; the error has the hint `hint`.
    """
    name = printable(STANDARD_INPUT_NAME if path in STANDARD_INPUT else path)
    if path not in STANDARD_INPUT and os.path.isdir(path):
        raise InputError(f"{name} is not a script: it is a folder", hint=hint, code="is-a-folder", file=path)
    with closing(open_source(path)) as source:
        data = source.read(0, source.size)
    what = _other_than_text(data)
    if what:
        line, facts = f"{name} is not a script: it is {what}", {"file": path, "found": what}
        raise InputError(line, hint=hint, code="not-a-script", facts=facts)
    return data.decode("utf-8-sig")


def _other_than_text(data: bytes) -> str:
    """Returns the kind of file of `data` if it is not UTF-8 text or is a model as text; '' if it may be a script."""
    head = data[: sniff.HEAD]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text, but a script must be UTF-8"
    kind = sniff.kind_of_text(head)
    if kind:
        return f"a {kind} in text form"
    try:
        data.decode()
        if sniff.is_text(head):
            return ""
    except UnicodeDecodeError:
        pass  # a model or any other file
    if sniff.is_binary_graph(data):
        return "a GraphDef"
    foreign = sniff.foreign_format(head) or sniff.container_format(data)
    return foreign.what.removesuffix(", not a GraphDef").removesuffix(", not a model") if foreign else "not UTF-8 text"


def check_names_edits(name: str, lines: Sequence[ScriptLine], commands: Collection[str], hint: str) -> None:
    """Raises InputError if no line begins with one of `commands`, and less than half of the lines have a typo."""
    words = [line.words[0] for line in lines if line.words]
    if len(lines) < FEWEST or not words or not {*words}.isdisjoint(commands):
        return
    if 2 * sum(bool(near_miss(word, commands)) for word in words) < len(words):
        begins = quoted(shortened(words[0], 30))
        line = f"{printable(name)} is not a script: no line begins with a command (the first begins with {begins})"
        raise InputError(line, hint=hint, code="not-a-script", file=name)


ENDS = ("saved_model", "slim")
"""Forms of a result that later lines cannot edit."""

MOST_FAULTS = 20
"""Maximum number of further faulty lines that are printed."""

_OWN = ("require_change", "changes_values", "as_json")
"""The common options that a line may have."""

_LOOKING = ("only_check", "only_list")
"""Options with which a command makes no edit."""


class ScriptEdits:
    """Collects the edits of a script.

    Args:
        path: the path of the script; ``-`` for standard input.
        request: the request of the whole script; the files and forms of the lines are added to it.
        context: the click context of the command `apply`.
    """

    def __init__(self, path: str, request: Request, context: click.Context) -> None:
        self.name = STANDARD_INPUT_NAME if path in STANDARD_INPUT else path
        self._has_model = context.params["script"] is not None
        self._hint = "give MODEL first, then SCRIPT" if self._has_model else "--check expects a SCRIPT"
        self._path = path
        self._folder = os.getcwd() if path in STANDARD_INPUT else os.path.dirname(os.path.abspath(path))
        self._request = request
        self._context = context
        group = context.find_root().command
        assert isinstance(group, click.Group)
        self._group = group
        self._taken: list[tuple[Request, Sequence[Instruction]]] = []
        self._reads_input = "the script" if path in STANDARD_INPUT else ""
        self._is_ended = False
        if self._folder != os.getcwd() and request.model not in STANDARD_INPUT:  # found from any folder
            if saved_model_at(request.model) or meta_of(request.model).endswith(".meta"):
                request.model = os.path.abspath(request.model)
            if request.wanted.checkpoint:
                request.wanted = request.wanted._replace(checkpoint=os.path.abspath(request.wanted.checkpoint))

    def read(self, variables: Variables) -> list[Instruction]:
        """Returns the instructions of the script, with the values of `variables`.

        Raises:
            GdsurgeonError: lines have faults; the error is that of the first, the details are those of the others.
            InputError: the script cannot be read.
            UsageError: the script contains no edit.
        """
        text = read_text(self._path, self._hint)
        if self._path not in STANDARD_INPUT:
            self._request.others += (self._path,)
        lines = read_script(text, variables)
        check_names_edits(self.name, lines, self._group.list_commands(self._context), self._hint)
        out: list[Instruction] = []
        faults: list[GdsurgeonError] = []
        for line in lines:
            called = f"{self.name}:{line.number}"
            try:
                out += self._instructions(line, called, out)
            except GdsurgeonError as error:
                error.place_at(called)
                if any(name in variables for word in line.words for name in _names_in(word)):
                    hint = "single quotes keep $VAR as it is; double quotes replace $VAR by its value"
                    error.hint = error.hint or hint
                faults.append(error)
        terminal.command = "apply"
        try:
            variables.check_used(self.name, text)
        except UsageError as error:
            faults.append(error)
        if faults:
            others = first_lines([printable(error.message) for error in faults[1:]], MOST_FAULTS, "other lines")
            faults[0].details = (*faults[0].details, *others)
            raise faults[0]
        if not out:
            raise UsageError(f"{printable(self.name)} contains no edit", code="no-edit", file=self.name)
        return out

    def inherited(self, request: Request) -> Request:
        """Returns the request of a line: that of the script, with the options of the line from `request`."""
        return replace(
            self._request,
            require_change=request.require_change or self._request.require_change,
            changes_values=request.changes_values or self._request.changes_values,
            others=(),
            report=None,
            functions=request.functions,
            form="model",
            repairs=False,
        )

    def take(self, request: Request, edits: Sequence[Instruction]) -> None:
        """Adds the edits of a line."""
        self._taken.append((request, edits))

    def _instructions(self, line: ScriptLine, called: str, earlier: Sequence[Instruction]) -> list[Instruction]:
        """Returns the instructions of `line`. Raises GdsurgeonError."""
        if line.error is not None:
            raise line.error
        if earlier and self._request.form in ENDS and not self._is_ended:
            self._is_ended = True  # reported once, for any number of lines
            message = f"{earlier[-1].called} must be the last line: its result cannot be edited"
            raise UsageError(message, code="not-the-last-line")
        if self._reads_input and not STANDARD_INPUT.isdisjoint(line.words):
            message = f"standard input is already read by {printable(self._reads_input)}"
            raise ConflictingOptions(message)
        self._taken.clear()
        before = vars(terminal).copy()
        try:
            with inside(self._folder):
                self._run(line)
        finally:  # parsing a line sets them to its options, or the defaults
            vars(terminal).update(before)
        if not self._taken:
            raise UsageError(f"{quoted(line.words[0])} made no edit", code="not-an-edit", name=line.words[0])
        ((request, edits),) = self._taken
        if not STANDARD_INPUT.isdisjoint(request.others):
            self._reads_input = called
        own = self._request
        own.repairs = own.repairs or (request.repairs and not earlier)
        own.others += tuple(path if path == "-" else os.path.join(self._folder, path) for path in request.others)
        own.settings = own.settings.reading(request.settings.reads)
        own.form = request.form if request.form != "model" else own.form
        edits = [edits[0]._replace(edit=self._reporting(edits[0].edit, line)), *edits[1:]]
        return [edit._replace(called=called) for edit in edits]

    def _run(self, edit: ScriptLine) -> None:
        """Runs the command of a line, which adds its edit."""
        name, *arguments = edit.words
        try:
            command = self._group.get_command(self._context, name)
            if command is None or not getattr(command.callback, "edits", False) or name == "apply":
                line = f"{quoted(name)} is not an edit: each line of a script is an edit"
                raise UsageError(line, code="not-an-edit", name=name)
            given = [self._request.model, *arguments]
            with command.make_context(name, given, parent=self._context, help_option_names=[]) as context:
                context.obj = self
                _check_own(command, context)
                command.invoke(context)
        except click.NoSuchOption as error:
            if error.option_name in self._context.help_option_names:
                line = f"options that show help cannot be used in a script: run 'gdsurgeon help {printable(name)}'"
                raise UsageError(line, code="not-in-a-script", option=error.option_name) from error
            raise usage_error(error) from error
        except (click.ClickException, UsageError) as error:
            model = self._request.model
            is_model = self._has_model and arguments and arguments[0] in (model, os.path.basename(model))
            if is_model and arguments[0] not in STANDARD_INPUT:
                line = f"lines are written without MODEL: leave out {quoted(arguments[0])}"
                raise UsageError(line, code="model-in-a-script", value=arguments[0]) from error
            if isinstance(error, UsageError):
                raise
            raise usage_error(error) from error

    def _reporting(self, edit: Edit, line: ScriptLine) -> Edit:
        """Returns `edit` such that it runs in the folder of the script, and its result names `line`."""

        def reporting(graph: Graph) -> EditResult:
            with inside(self._folder):
                result = edit(graph)
            result.told.insert(0, Entry("line", f"{line.number}: {line.text}"))
            return result

        return reporting


def _check_own(command: click.Command, context: click.Context) -> None:
    """Raises UsageError if the line of `context` has an option of the whole script, or makes no edit."""
    refused = {option.name for option in common_options()} - {*_OWN} | {*_LOOKING}
    for parameter in command.params:
        if parameter.name in refused and is_given(context, parameter):
            option = max(parameter.opts, key=len)
            why = "makes no edit" if parameter.name in _LOOKING else "is an option of apply, not of a line"
            raise UsageError(f"{option} {why}", code="not-in-a-script", option=option)


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """Makes `folder` the current folder while the context is active."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
