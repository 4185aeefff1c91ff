"""Where files lie: one protocol, and the POSIX file system as its first implementation."""

from mayfly.storage.store.addresses import absolute_address, open_store, register_scheme
from mayfly.storage.store.posix import PosixStore, local_root
from mayfly.storage.store.protocol import TEMPORARY, FileInfo, NewFile, Store

__all__ = [
    "TEMPORARY",
    "FileInfo",
    "NewFile",
    "PosixStore",
    "Store",
    "absolute_address",
    "local_root",
    "open_store",
    "register_scheme",
]
