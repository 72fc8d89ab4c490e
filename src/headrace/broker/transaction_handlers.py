"""The handlers of producer ids and transactions."""

from __future__ import annotations

from headrace.broker.coordinators import Coordinators
from headrace.cluster.view import ClusterView
from headrace.handlers.add_offsets_to_txn import AddOffsetsToTxn
from headrace.handlers.add_partitions_to_txn import AddPartitionsToTxn
from headrace.handlers.describe_transactions import DescribeTransactions
from headrace.handlers.end_txn import EndTxn
from headrace.handlers.init_producer_id import InitProducerId
from headrace.handlers.list_transactions import ListTransactions
from headrace.handlers.table import AnyHandler
from headrace.handlers.write_txn_markers import WriteTxnMarkers


def transaction_handlers(coordinators: Coordinators, view: ClusterView) -> list[AnyHandler]:
    transactions = coordinators.transactions
    return [
        InitProducerId(transactions),
        AddPartitionsToTxn(transactions, view),
        AddOffsetsToTxn(transactions, coordinators.groups),
        EndTxn(transactions),
        DescribeTransactions(transactions),
        ListTransactions(transactions),
        WriteTxnMarkers(coordinators.marker_writer),
    ]
