"""Runs a user's function on blocks of records, each in a process of its own.

In a subsample-and-aggregate release one record may change the answer of one block and of no other. The noise is calibrated
to that, so it has to be true of any function: one that counts its calls, keeps a cache, draws from a global generator, breaks
its process or never ends. Every block therefore runs in a fresh fork of processes that have never seen a record:

    zygote      started, not forked, by this process, once; has loaded numpy and pandas, and sees no function either
    template    a fork of the zygote that has loaded the function; the last one is kept for another run of the same function
    worker      a fork of the template, for one run; hands blocks on unread
    block       a fork of the worker, for one block

They end with this process, however it ends. On Windows, which cannot fork, a new process is started for every block.

What a function meets there:

- Its state is as it was when it was sent: globals, default arguments, attributes and closures start anew in each block.
- `random` and `numpy.random` are seeded afresh from the operating system in each block, so blocks draw independently. A
  generator that the function brought along, or another library's, starts the same in each block.
- No descriptors but standard input, output and error, and these lead nowhere. Files can be read; no bytes can be written to them.
- Numerical libraries use one thread, and joblib stays in the process.
- `Limits.seconds` of computing, twice as many on the clock, and `Limits.memory` bytes. A block that exceeds them is ended, with
  every process it started, and answers NaN.

An answer comes back as a fixed number of floats in a file of fixed length. Nothing a block wrote is ever unpickled, and no
reason for a failure leaves its process, unless the block is public (`Isolated.trial`).

`query.functions.ASSUMPTIONS` says what this cannot enforce. Less is enforced outside Linux: macOS does not limit memory, Windows
has only the limit on the clock, and on both a process that a block has detached may live on.

    isolated    a function, how it is sent, and its answers in order
    pool        the workers of one run
    backends    the two kinds of worker: one forks for every block, the other starts a process for it
    zygote      this side of the processes that stay between runs: the zygote and the last template
    processes   how processes are started, found again and ended
    worker      the other side: all that runs in those processes
"""

from .isolated import Isolated, Outcomes

__all__ = ["Isolated", "Outcomes"]
