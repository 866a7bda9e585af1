"""Moved to native/buffers.py; to be deleted when nothing imports it from here any more."""

from whence.recurrent.native.buffers import KEPT as KEPT
from whence.recurrent.native.buffers import _free as _free
from whence.recurrent.native.buffers import borrow as borrow
from whence.recurrent.native.buffers import give_back as give_back
