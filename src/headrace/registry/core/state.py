"""The state of the registry: subjects, versions, ids, configuration, modes, contexts.

Only `replay` of the topic's records, in order, changes it. So all instances that have read to the same offset have the
same state, and a restart is a replay. Reads are dictionary look-ups. Schemas are parsed only when an operation needs
them.

Invariants: within a context an id has one content (`ids` and `hashes` agree); the highest id only grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.kernel.json_values import JsonValue
from headrace.registry.core import records
from headrace.registry.core.records import Entry, SubjectVersion
from headrace.registry.core.subjects import DEFAULT_CONTEXT, context_of, in_context_of, matches_prefix

Place = tuple[str, int]  # subject and version


class Context:
    """Ids of one context."""

    __slots__ = ("hashes", "highest_id", "ids")

    def __init__(self) -> None:
        self.highest_id = 0
        self.ids: dict[int, dict[Place, None]] = {}
        self.hashes: dict[bytes, int] = {}

    def copy(self) -> Context:
        made = Context()
        made.highest_id = self.highest_id
        made.ids = {key: dict(places) for key, places in self.ids.items()}
        made.hashes = dict(self.hashes)
        return made


class State:
    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SubjectVersion]] = {}
        self.contexts: dict[str, Context] = {DEFAULT_CONTEXT: Context()}
        self.configs: dict[str | None, Mapping[str, JsonValue]] = {}
        self.modes: dict[str | None, str] = {}
        self.referrers: dict[Place, dict[Place, None]] = {}

    def copy(self) -> State:
        """A copy that can change independently. Versions are immutable and shared."""
        made = State()
        made.subjects = {name: dict(versions) for name, versions in self.subjects.items()}
        made.contexts = {name: context.copy() for name, context in self.contexts.items()}
        made.configs, made.modes = dict(self.configs), dict(self.modes)
        made.referrers = {place: dict(found) for place, found in self.referrers.items()}
        return made

    def replay(self, entry: Entry) -> None:
        subject = entry.key.get("subject")
        if entry.kind == records.SCHEMA:
            self._schema(str(subject), int(entry.key.get("version", 0)), entry.value)
        elif entry.kind == records.CONFIG:
            _set(self.configs, subject, entry.value)
        elif entry.kind == records.MODE:
            _set(self.modes, subject, None if entry.value is None else str(entry.value.get("mode")))
        elif entry.kind == records.DELETE_SUBJECT and entry.value is not None:
            self._soft_delete(str(subject), int(entry.value.get("version", 0)))
        elif entry.kind == records.CLEAR_SUBJECT and entry.value is not None:
            for each in self.versions(str(subject), deleted=True):
                if each.deleted:
                    self._forget(each)
        elif entry.kind == records.CONTEXT:
            self._context_record(str(entry.key.get("context")), exists=entry.value is not None)

    def _context_record(self, name: str, *, exists: bool) -> None:
        if exists:
            self.contexts.setdefault(name, Context())
        elif name in self.contexts and name != DEFAULT_CONTEXT and not self.contexts[name].ids:
            del self.contexts[name]

    def _schema(self, subject: str, number: int, value: Mapping[str, JsonValue] | None) -> None:
        before = self.subjects.get(subject, {}).get(number)
        if value is None:
            if before is not None:
                self._forget(before)
            return
        version = records.version_of(value)
        if version is None:
            return
        if before is not None:
            self._forget(before)
        self._keep(version)

    def _keep(self, version: SubjectVersion) -> None:
        place = (version.subject, version.version)
        self.subjects.setdefault(version.subject, {})[version.version] = version
        context = self.contexts.setdefault(context_of(version.subject), Context())
        context.highest_id = max(context.highest_id, version.id)
        context.ids.setdefault(version.id, {})[place] = None
        context.hashes[version.md5] = version.id
        for reference in version.content.references:
            target = (in_context_of(version.subject, reference.subject), reference.version)
            self.referrers.setdefault(target, {})[place] = None

    def _forget(self, version: SubjectVersion) -> None:
        place = (version.subject, version.version)
        versions = self.subjects[version.subject]
        del versions[version.version]
        if not versions:
            del self.subjects[version.subject]
        context = self.contexts[context_of(version.subject)]
        places = context.ids[version.id]
        places.pop(place, None)
        if not places:
            del context.ids[version.id]
            if context.hashes.get(version.md5) == version.id:
                del context.hashes[version.md5]
        for reference in version.content.references:
            target = (in_context_of(version.subject, reference.subject), reference.version)
            referrers = self.referrers.get(target, {})
            referrers.pop(place, None)
            if not referrers:
                self.referrers.pop(target, None)

    def _soft_delete(self, subject: str, up_to: int) -> None:
        versions = self.subjects.get(subject, {})
        for number, each in versions.items():
            if number <= up_to and not each.deleted:
                versions[number] = SubjectVersion(subject, number, each.id, each.content, each.md5, deleted=True)

    def versions(self, subject: str, *, deleted: bool = False) -> list[SubjectVersion]:
        """In ascending order; soft-deleted ones only on request."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        return any(deleted or not each.deleted for each in self.subjects.get(subject, {}).values())

    def subjects_in(self, scope: str | None, *, deleted: bool = False) -> Iterator[str]:
        """One subject, all subjects of a context (`:.ctx:`), or for None those of the default context."""
        context = DEFAULT_CONTEXT if scope is None else context_of(scope)
        is_scope = scope is None or scope == f":{context}:"
        for subject in self.subjects:
            matches = context_of(subject) == context if is_scope else subject == scope
            if matches and self.has_subject(subject, deleted=deleted):
                yield subject

    def aliases(self, prefix: str) -> dict[str, list[str]]:
        """The aliases that begin with the prefix, by the subject that they stand for."""
        found: dict[str, list[str]] = {}
        for alias, config in self.configs.items():
            if alias is not None and config.get("alias") and matches_prefix(alias, prefix):
                found.setdefault(in_context_of(alias, str(config["alias"])), []).append(alias)
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> SubjectVersion | None:
        """`-1` is the latest version that is not deleted."""
        if number == -1:
            alive = self.versions(subject) or (self.versions(subject, deleted=True) if deleted else [])
            return alive[-1] if alive else None
        found = self.subjects.get(subject, {}).get(number)
        return found if found is not None and (deleted or not found.deleted) else None

    def places(self, id_: int, context: str = DEFAULT_CONTEXT) -> list[SubjectVersion]:
        """Every version that has this id, in the order of subjects and versions."""
        known = self.contexts.get(context)
        found = known.ids.get(id_, {}) if known is not None else {}
        return [self.subjects[subject][number] for subject, number in sorted(found)]

    def referenced_by(self, subject: str, number: int, *, deleted: bool) -> list[SubjectVersion]:
        found = self.referrers.get((subject, number), {})
        versions = (self.subjects[name][version] for name, version in sorted(found))
        return [each for each in versions if deleted or not each.deleted]


def _set(settings: dict[str | None, JsonValue], subject: JsonValue, value: JsonValue) -> None:
    key = None if subject is None else str(subject)
    if value is None:
        settings.pop(key, None)
    else:
        settings[key] = value
