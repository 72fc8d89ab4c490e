"""kafka-dump-log: prints the files of a log in the format of Kafka's DumpLogSegments."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.cli.kafka_tools.support.internal_records import (
    describe_group_record,
    describe_share_record,
    describe_transaction_record,
)
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import ToolFailed, guarded
from headrace.kernel.errors import Fault
from headrace.records.batch import BatchView, TimestampType
from headrace.records.builder import Record
from headrace.records.control import read_control
from headrace.records.reader import read_records
from headrace.storage.files import offset_of_file
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery import inspection
from headrace.storage.segment.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from headrace.storage.segment.segment import Segment

OPTIONS = (
    Option("files", "The files: .log, .index, .timeindex, .txnindex, .snapshot.", "a,b,…", required=True),
    Option("print-data-log", "Print keys and values too."),
    Option("deep-iteration", "Print records, not only batches."),
    Option("skip-record-metadata", "Print only keys and values of records."),
    Option("verify-index-only", "Check that index entries lead where they should; print nothing else."),
    Option("index-sanity-check", "Check that an index looks like one."),
    Option("max-message-size", "Accepted.", "bytes", int, default=5242880),
    Option("max-bytes", "Read at most this much of a .log.", "bytes", int, default=1 << 31),
    Option("offsets-decoder", "Read values as those of __consumer_offsets."),
    Option("transaction-log-decoder", "Read values as those of __transaction_state."),
    Option("share-group-state-decoder", "Read values as those of __share_group_state."),
    Option("value-decoder-class", "Only text is built in.", "class"),
    Option("key-decoder-class", "Only text is built in.", "class"),
)

_DECODERS = {
    "offsets-decoder": describe_group_record,
    "transaction-log-decoder": describe_transaction_record,
    "share-group-state-decoder": describe_share_record,
}


def run(arguments: Arguments) -> int:
    wrong: list[str] = []
    for name in arguments["files"].split(","):
        path = Path(name)
        print(f"Dumping {path}")
        if not path.is_file():
            raise ToolFailed(f"there is no file {path}")
        dump = _BY_SUFFIX.get(path.suffix)
        if dump is None:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
            continue
        if offset_of_file(path.name) is None:
            raise ToolFailed(f"{path}: the name of a segment file is its first offset in 20 digits")
        try:
            wrong += dump(path, arguments)
        except Fault as fault:
            raise ToolFailed(f"{path}: {fault.message}") from fault
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def _dump_data(path: Path, arguments: Arguments) -> list[str]:
    deep = any(arguments[name] for name in ("deep-iteration", "print-data-log", *_DECODERS))
    print(f"Log starting offset: {offset_of_file(path.name)}")
    for position, batch in inspection.batches_in(path):
        if position >= arguments["max-bytes"]:
            break
        print(_batch_line(position, batch))
        if deep:
            for at, record in enumerate(read_records(batch)):
                print(_record_line(batch, at, record, arguments))
    return []


def _flag(value: bool) -> str:
    return str(value).lower()


def _batch_line(position: int, batch: BatchView) -> str:
    horizon = batch.delete_horizon_ms
    time = "LogAppendTime" if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch} "
        f"isTransactional: {_flag(batch.is_transactional)} isControl: {_flag(batch.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {position} {time}: {batch.max_timestamp_ms} size: {batch.size_bytes} magic: {batch.magic} "
        f"compresscodec: {batch.codec.name.lower()} crc: {batch.crc} "
        f"isvalid: {_flag(batch.computed_crc() == batch.crc)}"
    )


def _record_line(batch: BatchView, at: int, record: Record, arguments: Arguments) -> str:
    time = "LogAppendTime" if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"
    sequence = -1 if batch.base_sequence < 0 else (batch.base_sequence + at) & 0x7FFFFFFF
    line = "|"
    if not arguments["skip-record-metadata"]:
        line += f" offset: {record.offset} {time}: {record.timestamp_ms} keySize: {_length(record.key)} "
        line += f"valueSize: {_length(record.value)} sequence: {sequence} "
        line += f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
    if batch.is_control:
        control = read_control(record)
        return f"{line} endTxnMarker: {control.type.name} coordinatorEpoch: {control.coordinator_epoch}"
    decode = next((_DECODERS[name] for name in _DECODERS if arguments[name]), None)
    if decode is not None:
        key, value = decode(record.key, record.value)
    elif arguments["print-data-log"]:
        key = None if record.key is None else record.key.decode(errors="replace")
        value = None if record.value is None else record.value.decode(errors="replace")
    else:
        return line
    if key is not None:
        line += f" key: {key}"
    return f"{line} payload: {'<DELETE>' if value is None and key is not None else value or ''}"


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _segment(path: Path) -> Segment:
    base = offset_of_file(path.name)
    assert base is not None, path
    if not path.with_suffix(".log").is_file():
        raise ToolFailed(f"{path}: the data file {path.with_suffix('.log').name} is not beside it")
    return Segment.load(path.parent, base, LogConfig())


def _dump_index(path: Path, arguments: Arguments) -> list[str]:
    segment = _segment(path)
    segment.offset_index.file.open_sealed()
    if path.stat().st_size == 0:
        print(f"{path} is empty.")
        return []
    if arguments["index-sanity-check"]:
        # As in Kafka's tool, the size must be a multiple of an entry. An active index is preallocated with zeros.
        if path.stat().st_size % OFFSET_ENTRY_BYTES:
            return [f"{path} did not pass the sanity check"]
        print(f"{path} passed sanity check.")
        return []
    wrong = []
    for at, (offset, position) in enumerate(segment.offset_index.entries()):
        if at and offset == segment.base_offset:
            break  # from here on it is room
        place = next(segment.places(position), None)
        if place is None or place.last_offset != offset:
            found = "nothing" if place is None else place.last_offset
            wrong.append(f"Mismatches in :{path}\n  Index offset: {offset}, log offset: {found}")
        if not arguments["verify-index-only"]:
            print(f"offset: {offset} position: {position}")
    return wrong


def _dump_time_index(path: Path, arguments: Arguments) -> list[str]:
    segment = _segment(path)
    sound = segment.time_index.file.open_sealed()
    if arguments["index-sanity-check"]:
        if not sound or not segment.time_index.looks_sound():
            return [f"{path} did not pass the sanity check"]
        print(f"{path} passed sanity check.")
        return []
    wrong = []
    newest = -1
    for at, (timestamp, offset) in enumerate(segment.time_index.entries()):
        if at and offset == segment.base_offset:
            break  # from here on it is room
        if timestamp < newest:
            wrong.append(f"Found out of order timestamp in :{path}\n  Index timestamp: {timestamp}, previous: {newest}")
        newest = timestamp
        if not arguments["verify-index-only"]:
            print(f"timestamp: {timestamp} offset: {offset}")
    return wrong


def _dump_aborted(path: Path, arguments: Arguments) -> list[str]:
    for entry in _segment(path).txn_index.entries:
        print(
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )
    return []


def _dump_snapshot(path: Path, arguments: Arguments) -> list[str]:
    producers = inspection.producers_in(path)
    if producers is None:
        return [f"{path}: not a whole producer snapshot (wrong checksum or length)"]
    for entry in producers:
        transaction = (
            "OptionalLong.empty" if entry.txn_first_offset is None else f"OptionalLong[{entry.txn_first_offset}]"
        )
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
        )
        line += f"currentTxnFirstOffset: {transaction} lastTimestamp: {entry.last_timestamp_ms} "
        if entry.batches:
            first, last = entry.batches[0], entry.batches[-1]
            line += f"firstSequence: {first.first_sequence} lastSequence: {last.last_sequence} "
            line += f"lastOffset: {last.last_offset} "
            line += f"offsetDelta: {last.offset_delta} timestamp: {last.timestamp_ms}"
        print(line)
    return []


_BY_SUFFIX = {
    ".log": _dump_data,
    ".index": _dump_index,
    ".timeindex": _dump_time_index,
    ".txnindex": _dump_aborted,
    ".snapshot": _dump_snapshot,
}


def check(arguments: Arguments) -> None:
    if sum(bool(arguments[name]) for name in _DECODERS) > 1:
        raise UsageError("Only one decoder can be used at a time")


def main(argv: list[str] | None = None) -> int:
    return guarded("Print what the files of a log hold.", OPTIONS, run, argv, check=check)


if __name__ == "__main__":
    sys.exit(main())
