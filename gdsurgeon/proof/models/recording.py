"""What was fed to a model and what it gave, sample by sample: to be kept in files, and held against such a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gdsurgeon.feeds.archive import save
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor


@dataclass
class Recording:
    """What is to be kept, and where.

    Attributes:
        feeds_path, outputs_path: .npz files to write, or None.
        feeds, outputs: what was noted, one mapping for each sample.
    """

    feeds_path: str | None = None
    outputs_path: str | None = None
    feeds: list[dict[str, Tensor]] = field(default_factory=list)
    outputs: list[dict[str, Tensor]] = field(default_factory=list)

    def note(self, executor: Executor, sample: int, feeds: Mapping[str, Tensor | Result], subject: Subject) -> None:
        """Keeps what was fed in SAMPLE and what SUBJECT has given, as far as it is wanted."""
        if self.feeds_path is not None:
            fed = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            self.feeds[sample:] = [fed | _defaults(executor, feeds, subject)]
        if self.outputs_path is not None:
            self.outputs[sample:] = [
                {
                    name: executor.tensor(subject.result(sample, group), i)
                    for group, names in enumerate(subject.plan.groups)
                    for i, name in enumerate(names)
                }
            ]

    def write(self) -> list[str]:
        """Writes the files; returns their paths.

        Raises:
            OutputError: one cannot be written.
        """
        written: list[str] = []
        for path, samples in ((self.feeds_path, self.feeds), (self.outputs_path, self.outputs)):
            if path is not None and samples:
                save(path, samples)
                written.append(path)
        return written


def _defaults(executor: Executor, feeds: Mapping[str, Tensor | Result], subject: Subject) -> dict[str, Tensor]:
    """The values of the inputs that FEEDS leave at their defaults: an archive has a value of each input."""
    names = sorted(subject.optional - feeds.keys())
    if not names or not feeds.keys() <= {*subject.feedable}:
        return {}
    executor.wait(executor.run(subject.key, "defaults", feeds, names))
    return {name: executor.tensor("defaults", i) for i, name in enumerate(names)}
