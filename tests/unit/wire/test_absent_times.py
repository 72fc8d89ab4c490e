"""The start time of a transaction that never began is -1; the codec reads it as None."""

from __future__ import annotations

from headrace.wire import codec

DESCRIBE_TRANSACTIONS = 65


def test_a_start_time_of_minus_one_reads_as_none() -> None:
    state = {
        "error_code": 0,
        "transactional_id": "idle",
        "transaction_state": "Empty",
        "transaction_timeout": 60_000,
        "transaction_start_time": -1,
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": [],
    }
    frame = codec.encode_response(DESCRIBE_TRANSACTIONS, 0, 1, {"transaction_states": [state]})
    _, answer = codec.read_response(DESCRIBE_TRANSACTIONS, 0, frame[4:])
    assert answer.transaction_states[0].transaction_start_time is None
