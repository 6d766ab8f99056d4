"""weft.pslib: the parameter server, and publications of a model to readers outside the job."""

from .options import CheckpointOptions, Compression, Consistency, Optimizer, Rule, RuleStep, Schedule
from .publication import Publication, PublicationStatistics, PublishedTensor, Publisher, Reader, ReaderStatistics
from .server import ParameterServer, ShardPiece, TensorSpec, shard_map
from .sparse import SparseStatistics, SparseTable
from .table import CompressionStatistics, Table, TableStatistics

__all__ = [
    "CheckpointOptions", "Compression", "CompressionStatistics", "Consistency", "Optimizer", "ParameterServer",
    "Publication", "PublicationStatistics", "PublishedTensor", "Publisher", "Reader", "ReaderStatistics", "Rule",
    "RuleStep", "Schedule", "ShardPiece", "SparseStatistics", "SparseTable", "Table", "TableStatistics", "TensorSpec",
    "shard_map",
]
