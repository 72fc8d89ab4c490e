"""`CREATE PIPELINE totals AS SELECT …` saves a statement as a pipeline directory, which a person can read and change.

The rows of the statement become records of the topic `totals`: the value is the row as JSON, the column `key` is the
key. `headrace pipeline run totals` runs it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.pipelines.errors import PipelineError
from headrace.tables.sql_errors import SqlError

_COMMENTS: Final = r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*"
_BEGINS: Final = re.compile(_COMMENTS + r"CREATE\s+PIPELINE\b", re.IGNORECASE | re.DOTALL)
_WHOLE: Final = re.compile(
    _COMMENTS + r'CREATE\s+PIPELINE\s+("?)(?P<name>[\w.-]+)\1\s+AS\s+(?P<query>(?:SELECT|WITH)\b.*?);?\s*\Z',
    re.IGNORECASE | re.DOTALL,
)
_SPEC: Final = """# Run with: headrace pipeline run {name}
name: {name}
storage: storage
configuration:
  headrace.bootstrap.servers: "{bootstrap}"
libraries:
  - glob: {{include: transformations/**}}
"""
_FILE: Final = '''"""Topic {name}: the rows of a statement. 'headrace sql' wrote this file; you may change it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from headrace.pipelines.brokers import broker_options
from headrace.tables.spark_sql.relations import as_records, streamed

spark = SparkSession.active()
STATEMENT = """
{query}
"""
dp.create_sink({name!r}, "headrace", {{**broker_options(spark), "topic": {name!r}}})


@dp.append_flow(target={name!r}, name={name!r})
def rows() -> DataFrame:
    """The value of a record is the row as JSON; the column "key" is its key."""
    return as_records(streamed(spark, STATEMENT{settings}))
'''


def may_create_pipeline(text: str) -> bool:
    """Whether one of the statements of a text may be CREATE PIPELINE, which the embedded engine does not know."""
    return re.search(r"\bCREATE\s+PIPELINE\b", text, re.IGNORECASE) is not None


def is_create_pipeline(statement: str) -> bool:
    return _BEGINS.match(statement) is not None


@dataclass(frozen=True)
class SavedPipeline:
    name: str
    query: str

    @classmethod
    def parse(cls, statement: str) -> SavedPipeline:
        found = _WHOLE.match(statement)
        if found is None:
            raise SqlError("CREATE PIPELINE needs a name and a query: CREATE PIPELINE totals AS SELECT … FROM orders")
        return cls(found["name"], found["query"].strip())

    def write(self, parent: Path, bootstrap: str, registry: str | None = None, watermark: str | None = None) -> Path:
        directory = parent / self.name
        if directory.exists() and any(directory.iterdir()):
            raise PipelineError(f"{directory} is not empty: choose another name for the pipeline")
        file = directory / "transformations" / f"{self.name}.py"
        file.parent.mkdir(parents=True)
        (directory / "spark-pipeline.yml").write_text(_SPEC.format(name=self.name, bootstrap=bootstrap))
        given = {"registry": registry, "watermark": watermark}
        settings = "".join(f", {name}={value!r}" for name, value in given.items() if value)
        escaped = self.query.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        file.write_text(_FILE.format(name=self.name, query=escaped, settings=settings))
        return directory
