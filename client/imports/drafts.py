"""What a format's reader returns: drafts of jobs, and notes on what is lost or changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import msgspec

from rota.client.definitions import Definition, InvalidFile
from rota.client.imports.templates import literal_work
from rota.core.errors import Refused
from rota.core.timing.schedule import Schedule, checked

NO_LIMITS: Mapping[str, str] = MappingProxyType({})
_NEVER = ("never fires", "has no fire time between", "is before startAt")
"""What the refusal of a schedule says whose parts are valid, but which has no fire time."""
DESCRIPTION_MAX = 10_000
"""The most characters of a description, as for a node."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to import.

    Attributes:
        name: Its path, as the user named it.
        text: Its content.
        is_system: For a crontab, whether its entries have a user; None if the path decides.
    """

    name: str
    text: str
    is_system: bool | None = None


class Note(msgspec.Struct, frozen=True):
    """Something that the definitions lack, or do otherwise than the source.

    Attributes:
        file: The name of the source.
        line: The line in it, from 1.
        effect: ``lost`` if the definitions lack it; ``changed`` if they do it in another way.
        what: The part of the source, and its meaning there.
        remedy: What to do about it.
    """

    file: str
    line: int
    effect: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A job that has no unique name yet.

    Attributes:
        file: The name of the source.
        line: The line of the job in it, from 1.
        name: The preferred name; any text.
        definition: The other fields of the job.
    """

    file: str
    line: int
    name: str
    definition: Definition


@dataclass(frozen=True, slots=True)
class Findings:
    """The jobs and notes found so far in one source.

    Attributes:
        file: The name of the source.
        drafts: The jobs.
        notes: The notes.
        never: Schedules without a fire time, with ``startAt`` and ``endAt``; jobs do not get them.
    """

    file: str
    drafts: list[Draft] = field(default_factory=list[Draft])
    notes: list[Note] = field(default_factory=list[Note])
    never: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def add(
        self, line: int, name: str, definition: Definition, *, has_templates: bool = False
    ) -> None:
        """Add a job; fields without a value (None, empty text, list or object) are left out.

        Args:
            line: The line of the job, from 1.
            name: The preferred name; any text.
            definition: The fields of the job.
            has_templates: Whether its command, environment and input are templates of rota;
                otherwise ``{{`` in them is text for another program.
        """
        fields = definition if has_templates else literal_work(definition)
        for key in ("schedule", "schedules"):
            fields = {**fields, key: self._with_fire_times(fields.get(key))}
        kept = {key: value for key, value in fields.items() if value or value == 0}
        self.drafts.append(Draft(self.file, line, name, kept))

    def _with_fire_times(self, value: Any) -> object:  # Any: as in `Definition`
        """Return a schedule, or a list of them, without those that never fire."""
        if isinstance(value, list):
            given = cast("list[object]", value)
            return [each for each in given if self._with_fire_times(each)]
        fields = cast("Definition", value) if isinstance(value, dict) else {"schedule": value}
        text, limits = fields["schedule"], (fields.get("startAt", ""), fields.get("endAt", ""))
        is_never = self.never & {(text, "", ""), (text, *limits)}
        return None if is_never else cast("object", value)

    def hold(self, line: int, what: str, timing: Definition) -> Definition:
        """Return the fields of a schedule without it, and add a note, which has it."""
        held = {key: timing[key] for key in ("schedule", "schedules") if timing.get(key)}
        shown = ", ".join(f"{key}: {msgspec.json.encode(held[key]).decode()}" for key in held)
        self.lose(
            line,
            f"{what}; the definition has no schedule, so it does not fire",
            f"to let it fire, add {shown or 'a schedule'}; rota jobs pause stops a job",
        )
        return {key: value for key, value in timing.items() if key not in held}

    def lose(self, line: int, what: str, remedy: str) -> None:
        """Add a note on something that the definitions lack."""
        self.notes.append(Note(self.file, line, "lost", what, remedy))

    def change(self, line: int, what: str, remedy: str) -> None:
        """Add a note on something that the definitions do in another way."""
        self.notes.append(Note(self.file, line, "changed", what, remedy))

    def invalid(self, line: int, detail: str) -> InvalidFile:
        """Return the error about a line."""
        return InvalidFile(f"{self.file}:{line}: {detail}")

    def check_schedule(
        self,
        line: int,
        schedule: str,
        timezone: str,
        limits: Mapping[str, str] = NO_LIMITS,
        *,
        day_or: bool = True,
    ) -> None:
        """Check a schedule that is written in *line*, with its ``startAt`` and ``endAt``.

        One that never fires, such as ``0 0 31 2 *``, is lost: `add` leaves it out.

        Raises:
            InvalidFile: The schedule or the time zone is invalid.
        """
        if (schedule, "", "") in self.never and limits:
            return  # The note on the schedule without limits is enough.
        try:
            checked(
                Schedule(
                    text=schedule,
                    timezone=timezone,
                    day_or=day_or,
                    start_at=limits.get("startAt", ""),
                    end_at=limits.get("endAt", ""),
                )
            )
        except Refused as refusal:
            if any(each in refusal.detail for each in _NEVER):
                self.never.add((schedule, limits.get("startAt", ""), limits.get("endAt", "")))
                self.lose(
                    line,
                    f"{schedule} never fires",
                    "the job does not have this schedule; rota trigger starts it",
                )
                return
            raise self.invalid(line, refusal.detail) from refusal


Reader = Callable[[list[Source]], list[Findings]]
"""Returns the findings in all files of one format, in their order."""
