"""The hand-written OffsetCommit codec agrees with the general codec: every version, both directions, invalid bytes."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire import codec
from headrace.wire.codec import MalformedRequest
from headrace.wire.offset_commit import (
    TOPIC_IDS_FROM,
    OffsetCommitRequest,
    PartitionCommit,
    encode_offset_commit_response,
    read_offset_commit_request,
)

KEY = 8
VERSIONS = list(range(2, 11))
texts = st.text(st.characters(codec="utf-8"), max_size=200)
commits = st.builds(
    PartitionCommit, st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1), texts
)
topics = st.lists(st.tuples(texts, st.uuids(), st.lists(commits, max_size=4)), max_size=4)


def frame(version: int, request: OffsetCommitRequest, ids: list[uuid.UUID]) -> bytes:
    body = {
        "group_id": request.group_id,
        "generation_id_or_member_epoch": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "retention_time": request.retention_ms,
        "topics": [
            {
                "name": name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": p.partition,
                        "committed_offset": p.offset,
                        "committed_leader_epoch": p.leader_epoch,
                        "committed_metadata": p.metadata,
                    }
                    for p in partitions
                ],
            }
            for (name, partitions), topic_id in zip(request.topics, ids, strict=True)
        ],
    }
    return bytes(codec.encode_request(KEY, version, 7, "c", body))[4:]


def read(version: int, data: bytes) -> OffsetCommitRequest:
    _, at = codec.read_request_header(data)
    return read_offset_commit_request(memoryview(bytearray(data)), at, version)


@given(
    version=st.sampled_from(VERSIONS),
    commits=st.lists(commits.map(lambda commit: commit._replace(metadata="")), min_size=2, max_size=4),
    instance=st.none() | texts,
    topic=texts,
    topic_id=st.uuids(),
)
def test_cached_head_gives_the_right_numbers_for_each_commit(
    version: int,
    commits: list[PartitionCommit],
    instance: str | None,
    topic: str,
    topic_id: uuid.UUID,
) -> None:
    for commit in commits:
        sent = OffsetCommitRequest("readers", 3, "member", instance, -1, [(topic, [commit])])
        found = read(version, frame(version, sent, [topic_id]))
        kept = commit if version >= 6 else commit._replace(leader_epoch=-1)
        assert found.topics == [(topic if version < TOPIC_IDS_FROM else topic_id.bytes, [kept])]
        assert (found.group_id, found.generation, found.member_id) == ("readers", 3, "member")
        assert found.instance_id == (instance if version >= 7 else None)


@given(
    version=st.sampled_from(VERSIONS),
    group=texts,
    generation=st.integers(-1, 2**31 - 1),
    member=texts,
    instance=st.none() | texts,
    listed=topics,
)
def test_request_is_decoded_as_it_was_encoded(
    version: int,
    group: str,
    generation: int,
    member: str,
    instance: str | None,
    listed: list[tuple[str, uuid.UUID, list[PartitionCommit]]],
) -> None:
    named = [(name, partitions) for name, _, partitions in listed]
    ids = [topic_id for _, topic_id, _ in listed]
    sent = OffsetCommitRequest(group, generation, member, instance, 60_000, named)  # type: ignore[arg-type]
    got = read(version, frame(version, sent, ids))
    assert (got.group_id, got.generation, got.member_id) == (group, generation, member)
    assert got.instance_id == (instance if version >= 7 else None)
    assert got.retention_ms == (60_000 if version <= 4 else -1)
    expected = [topic_id.bytes for topic_id in ids] if version >= TOPIC_IDS_FROM else [name for name, _ in named]
    assert [topic for topic, _ in got.topics] == expected
    epochs = version >= 6
    assert [partitions for _, partitions in got.topics] == [
        [p if epochs else p._replace(leader_epoch=-1) for p in partitions] for _, partitions in named
    ]


@pytest.mark.parametrize("metadata", ["so far", ""])
@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_request_is_refused(version: int, metadata: str) -> None:
    request = OffsetCommitRequest("g", 3, "m", "i", 5, [("orders", [PartitionCommit(0, 5, 1, metadata)])])
    whole = frame(version, request, [uuid.uuid4()])
    _, body_at = codec.read_request_header(whole)
    assert read(version, whole).group_id == "g"
    for length in range(body_at, len(whole)):
        with pytest.raises(MalformedRequest):
            read(version, whole[:length])


@given(version=st.sampled_from(VERSIONS), noise=st.binary(max_size=80))
def test_random_bytes_are_decoded_or_raise_malformed_request(version: int, noise: bytes) -> None:
    try:
        read_offset_commit_request(memoryview(noise), 0, version)
    except MalformedRequest:
        return


@given(
    version=st.sampled_from(VERSIONS),
    listed=st.lists(
        st.tuples(texts, st.uuids(), st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 120)), max_size=3)),
        max_size=3,
    ),
)
def test_response_equals_the_general_codecs(
    version: int, listed: list[tuple[str, uuid.UUID, list[tuple[int, int]]]]
) -> None:
    by_schema = codec.encode_response(
        KEY,
        version,
        9,
        {
            "topics": [
                {
                    "name": name,
                    "topic_id": topic_id,
                    "partitions": [{"partition_index": p, "error_code": e} for p, e in outcomes],
                }
                for name, topic_id, outcomes in listed
            ]
        },
    )
    by_hand = encode_offset_commit_response(
        version,
        9,
        [(topic_id.bytes if version >= TOPIC_IDS_FROM else name, out) for name, topic_id, out in listed],
    )
    assert by_hand == by_schema
