"""Tables in Apache Spark. Imported when a Spark DataFrame is given, and needs the extra `spark`.

engine      the engine: which jobs answer a query
source      a DataFrame as a table: its files, and the number of every row
jobs        a job, from start to end: progress, interrupts, errors that say nothing
tasks       what runs on executors, next to rows
settings    what is refused of a cluster: settings that show rows, other versions than the driver's
started     sessions of Spark for the command line
"""

from .engine import SparkEngine

__all__ = ["SparkEngine"]
