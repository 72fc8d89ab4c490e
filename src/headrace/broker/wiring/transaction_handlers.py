"""The handlers of producer ids and transactions."""

from __future__ import annotations

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.marker_writer import MarkerWriter
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.transactions.add_offsets_to_txn import AddOffsetsToTxn
from headrace.handlers.transactions.add_partitions_to_txn import AddPartitionsToTxn
from headrace.handlers.transactions.describe_transactions import DescribeTransactions
from headrace.handlers.transactions.end_txn import EndTxn
from headrace.handlers.transactions.init_producer_id import InitProducerId
from headrace.handlers.transactions.list_transactions import ListTransactions
from headrace.handlers.transactions.write_txn_markers import WriteTxnMarkers


def transaction_handlers(
    transactions: TransactionCoordinator, groups: GroupCoordinator, marker_writer: MarkerWriter, view: ClusterView
) -> list[Handler]:
    return [
        InitProducerId(transactions),
        AddPartitionsToTxn(transactions, view),
        AddOffsetsToTxn(transactions, groups),
        EndTxn(transactions),
        DescribeTransactions(transactions),
        ListTransactions(transactions),
        WriteTxnMarkers(marker_writer),
    ]
