"""A pipeline's definitions, loaded into a graph of outputs and flows.

PySpark's decorators (`@dp.table`, `@dp.temporary_view`, `dp.create_sink`, `@dp.append_flow` …) pass plain dataclasses
to the active registry, here `PipelineGraph`. This module makes the same dataclasses from the statements of SQL files.
`resolve` then calls the functions of the flows. If a function needs a view or table that does not exist yet, `resolve`
calls it again after the others.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation

from headrace.pipelines.auto_cdc.flows import change_frame, classic_expressions, source_rows, writer_for
from headrace.pipelines.errors import OptionError, PipelineError, nearest
from headrace.pipelines.failure_reasons import failure_reason, user_place
from headrace.pipelines.flows.dead_letter_headers import DEAD_LETTERS
from headrace.pipelines.flows.spec import PipelineSpec
from headrace.pipelines.sql_statements import statements_in, without_comments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipelines.connectors.sources import SourceFrames

# Column of decoded rows that marks tombstones (see `decode`).
DELETED: Final = "_deleted"
_NAME: Final = r"(?P<name>`[^`]+`|[\w.]+)"
_CREATE: Final = re.compile(
    rf"CREATE\s+(?:OR\s+REFRESH\s+)?(?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW)"
    rf"\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}(?P<clauses>.*?)(?:\s+AS\s+(?P<query>(?:SELECT|WITH|FROM|VALUES)\b.*))?\Z",
    re.IGNORECASE | re.DOTALL,
)
_FLOW: Final = re.compile(
    rf"CREATE\s+FLOW\s+{_NAME}\s+AS\s+INSERT\s+INTO\s+(?P<target>`[^`]+`|[\w.]+)\s+BY\s+NAME\s+(?P<query>.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_FORMAT: Final = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)
_NOT_THERE_YET: Final = ("TABLE_OR_VIEW_NOT_FOUND", "STREAM_NOT_FOUND", "VIEW_NOT_FOUND")


@dataclass(frozen=True)
class BatchSink(Output):  # type: ignore[misc]
    """A target that gets every batch as a DataFrame with its number. It must recognise a batch that it has written
    before."""

    write: Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class ResolvedFlow:
    flow: Flow
    target: Output
    frame: DataFrame

    @property
    def writes_dead_letters(self) -> bool:
        """Whether the rows are dead letters, by the mark that `decode.dead_letters` leaves on their headers."""
        return any(field.metadata.get(DEAD_LETTERS) for field in self.frame.schema.fields)


@dataclass
class PipelineGraph(GraphElementRegistry):  # type: ignore[misc]
    spark: SparkSession
    outputs: dict[str, Output] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    # Path of a table of the pipeline.
    place_of: Callable[[str], str] = str
    auto_cdc: dict[str, AutoCdcFlow] = field(default_factory=dict)

    def register_output(self, output: Output) -> None:
        if output.name in self.outputs:
            raise PipelineError(f"{_place(output)}: {output.name!r} is defined twice")
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        if flow.name in self.flows:
            raise PipelineError(f"{_place(flow)}: flow {flow.name!r} is defined twice")
        self.flows[flow.name] = flow

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        name = str(flow.name)
        self.register_flow(
            Flow(
                name=name,
                target=flow.target,
                spark_conf=flow.spark_conf,
                source_code_location=flow.source_code_location,
                func=lambda: source_rows(self.spark, flow),
            )
        )
        self.auto_cdc[name] = flow

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        for line, statement in statements_in(sql_text):
            at = SourceCodeLocation(filename=str(file_path), line_number=line)
            self._register_statement(without_comments(statement).strip(), at)

    def _register_statement(self, statement: str, at: SourceCodeLocation) -> None:
        if match := _FLOW.match(statement):
            self.register_flow(self._sql_flow(_bare(match["name"]), _bare(match["target"]), match["query"], at))
            return
        match = _CREATE.match(statement)
        if match is None:
            raise PipelineError(
                f"{at.filename}:{at.line_number}: only CREATE STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW "
                f"and FLOW define a pipeline, found {' '.join(statement.split())[:60]!r}"
            )
        name, kind = _bare(match["name"]), " ".join(match["kind"].upper().split())
        if kind == "TEMPORARY VIEW":
            self.register_output(TemporaryView(name=name, comment=None, source_code_location=at))
        else:
            table = StreamingTable if kind == "STREAMING TABLE" else MaterializedView
            chosen = _FORMAT.search(match["clauses"])
            self.register_output(
                table(
                    name=name,
                    comment=None,
                    source_code_location=at,
                    table_properties={},
                    partition_cols=None,
                    cluster_by=None,
                    schema=None,
                    format=chosen[1] if chosen else None,
                )
            )
        if match["query"]:
            self.register_flow(self._sql_flow(name, name, match["query"], at))

    def _sql_flow(self, name: str, target: str, query: str, at: SourceCodeLocation) -> Flow:
        return Flow(
            name=name, target=target, spark_conf={}, source_code_location=at, func=lambda: self.spark.sql(query)
        )

    def resolve(self, prepare: Callable[[Output, DataFrame], None]) -> list[ResolvedFlow]:
        """Every flow with its DataFrame, in an order in which each flow finds its inputs. `prepare` registers a flow's
        target in Spark before the flows that read it are resolved."""
        resolved: list[ResolvedFlow] = []
        waiting = dict(self.flows)
        while waiting:
            problems: dict[str, AnalysisException] = {}
            for name, flow in list(waiting.items()):
                target = self._target(flow)
                try:
                    frame = flow.func()
                except AnalysisException as error:
                    if error.getCondition() not in _NOT_THERE_YET:
                        raise _broken(flow, error) from error
                    problems[name] = error
                    continue
                except Exception as error:
                    # Boundary to the author's code, which may raise anything: the user gets file, line and cause.
                    raise _broken(flow, error) from error
                _check_frame(flow, target, frame)
                if name in self.auto_cdc:
                    target, frame = self._applied(self.auto_cdc[name], target, frame)
                prepare(target, frame)
                resolved.append(ResolvedFlow(flow, target, frame))
                del waiting[name]
            if len(problems) == len(waiting) and waiting:
                name, problem = next(iter(problems.items()))
                raise _broken(waiting[name], problem)
        return resolved

    def _applied(self, flow: AutoCdcFlow, target: Output, rows: DataFrame) -> tuple[Output, DataFrame]:
        """The target of an auto CDC flow as a function that applies changes, and the rows as changes."""
        at = flow.source_code_location
        try:
            write = writer_for(flow, target, rows, self.place_of)
            return BatchSink(target.name, None, at, write), change_frame(flow, rows)
        except Exception as error:
            # Boundary to Spark, which resolves the flow's expressions: the user gets file, line and cause.
            raise _broken(self.flows[str(flow.name)], error) from error

    def _target(self, flow: Flow) -> Output:
        if flow.target not in self.outputs:
            raise PipelineError(
                f"{_place(flow)}: flow {flow.name!r} writes to {flow.target!r}, which is not defined"
                f"{nearest(flow.target, self.outputs)}"
            )
        return self.outputs[flow.target]


def _check_frame(flow: Flow, target: Output, frame: DataFrame) -> None:
    if not hasattr(frame, "isStreaming"):
        raise PipelineError(f"{_place(flow)}: flow {flow.name!r} returned {type(frame).__name__}, not a DataFrame")
    if isinstance(target, TemporaryView):
        return
    if isinstance(target, MaterializedView):
        if frame.isStreaming:
            raise PipelineError(
                f"{_place(flow)}: materialized view {target.name!r} needs a batch query: use spark.read"
            )
    elif not frame.isStreaming:
        raise PipelineError(f"{_place(flow)}: flow {flow.name!r} needs a streaming query: use spark.readStream")


def _place(element: Flow | Output) -> str:
    at = element.source_code_location
    name = Path(at.filename).name if at and at.filename else "?"
    return f"{name}:{at.line_number}" if at and at.line_number else name


def _broken(flow: Flow, error: Exception) -> PipelineError:
    """The refusal of a flow whose function failed, with the line of the user's code or else of the flow."""
    if isinstance(error, PipelineError):
        return error
    reason = failure_reason(error)
    place = user_place(error)
    reason = reason.removeprefix(f"{place}: ")
    if not isinstance(error, (PySparkException, Py4JError)) and type(error).__name__ not in reason:
        reason = f"{type(error).__name__}: {reason}"
    return PipelineError(f"{place or _place(flow)}: flow {flow.name!r}: {reason}")


def _bare(name: str) -> str:
    return name.replace("`", "")


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """Lets definition files use paths relative to their pipeline and import modules next to them."""
    before = Path.cwd()
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(directory))


def load_graph(spark: SparkSession, spec: PipelineSpec) -> PipelineGraph:
    """Runs the pipeline's definition files. Raises PipelineError with the name of a wrong file."""
    files = spec.files()
    if not files:
        raise PipelineError(
            f"{spec.directory}: no definition files match {', '.join(spec.globs) or 'an empty libraries list'}"
        )
    graph = PipelineGraph(spark, place_of=lambda name: spec.storage_uri("tables", name))
    with _inside(spec.directory), graph_element_registration_context(graph), classic_expressions():
        for file in files:
            if file.suffix == ".py":
                _run_python(spark, file)
            elif file.suffix == ".sql":
                graph.register_sql(file.read_text(), file.relative_to(spec.directory))
            else:
                raise PipelineError(f"{file}: only .py and .sql files define a pipeline")
    if not graph.flows:
        raise PipelineError(f"{spec.directory}: the definition files define no flow")
    return graph


def connector_graph(
    spark: SparkSession,
    name: str,
    source: SourceFrames,
    select: str | None,
    target: tuple[Output, Callable[[DataFrame], DataFrame]],
    brokers: dict[str, str],
) -> PipelineGraph:
    """The graph of a connector: one flow from its source through its SELECT to its target, one for dead letters."""
    graph = PipelineGraph(spark)
    output, fit = target
    at = output.source_code_location

    def rows() -> DataFrame:
        return fit(_selected(spark, source.rows, select))

    graph.register_output(output)
    graph.register_flow(Flow(name=name, target=output.name, spark_conf={}, source_code_location=at, func=rows))
    if source.dead is not None:
        letters = f"{name}-dead-letters"
        graph.register_output(Sink(letters, None, at, "headrace", brokers))
        graph.register_flow(
            Flow(name=letters, target=letters, spark_conf={}, source_code_location=at, func=lambda: source.dead)
        )
    return graph


def _selected(spark: SparkSession, rows: DataFrame, select: str | None) -> DataFrame:
    """The rows after the SELECT. Tombstones pass only if the SELECT keeps `_deleted`: otherwise nothing would tell them
    from rows of nulls."""
    if select is None:
        return rows
    rows.createOrReplaceTempView("source")
    chosen = spark.sql(select)
    if DELETED in rows.columns and DELETED not in chosen.columns:
        rows.where(f"NOT {DELETED}").createOrReplaceTempView("source")
        chosen = spark.sql(select)
    return chosen


def _run_python(spark: SparkSession, file: Path) -> None:
    module_spec = importlib.util.spec_from_file_location(f"headrace_pipeline_{file.stem}", file)
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module.__dict__["spark"] = spark
    try:
        module_spec.loader.exec_module(module)
    except (PipelineError, OptionError):
        raise
    except Exception as error:
        # Boundary to the author's code, which may raise anything: the user gets file and message.
        place = user_place(error) or file.name
        reason = failure_reason(error).removeprefix(f"{place}: ")
        raise PipelineError(f"{place}: {type(error).__name__}: {reason}") from error


__all__ = [
    "BatchSink",
    "PipelineGraph",
    "ResolvedFlow",
    "Sink",
    "Table",
    "load_graph",
]
