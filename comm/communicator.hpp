// SPDX-License-Identifier: Apache-2.0
// How bytes cross ranks. One abstract Communicator a process group; `self`, `mpi`, `shm` and `nccl`
// stand behind it, decorators (counting, delaying, fault-making, watching) around it.
//
// A communicator is one lane: collectives run in the order in which they were started, and all
// ranks of the group must start the same ones in the same order. Starting never blocks; `test` and
// `wait` make progress, for the oldest first. Buffers belong to the caller and may not be touched
// (send: not written) from `start` until the ticket is done.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// One collective, as a plain value: decorators look at it and pass it on.
///
/// `elems` is nccl-tests' S, the whole array: all_gather receives S elements and sends S/size of
/// them; reduce_scatter sends S and receives S/size. In place: all_gather with send == recv +
/// rank*S/size; reduce_scatter with recv == send + rank*S/size (the rest of the array is then
/// undefined); the others with send == recv. `elems` of all_gather and reduce_scatter divides by
/// size.
struct Collective {
  Op op = Op::barrier;
  Dtype dtype = Dtype::fp32;
  Reduction reduction = Reduction::none;  // sum, average (divides after the sum, once) or max
  int root = -1;                          // reduce, broadcast
  std::int64_t elems = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  void* scratch =
      nullptr;  // the caller's, collective_scratch_bytes(…) of core/plan/collective_scratch.hpp
  std::int64_t scratch_bytes = 0;
  std::string_view name;  // for messages: "reduce_scatter grad.block3"; must outlive the ticket
};

/// Names a started collective: its sequence number on its communicator, from 1.
using Ticket = std::uint64_t;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view backend() const = 0;

  /// Collective. Starts `c` on this lane and returns at once. Throws CommError.
  virtual Ticket start(const Collective& c) = 0;
  /// Local. Makes progress; true when `ticket` and all before it are done. Throws CommError.
  virtual bool test(Ticket ticket) = 0;
  /// Waits until `ticket` and all before it are done. Throws CommError (failure, timeout).
  virtual void wait(Ticket ticket) = 0;
  /// Local. Lets what is in flight advance; called between kernels. Never blocks.
  virtual void progress() = 0;

  /// Local. Whether collectives run on a stream of the device: `start` then comes after what the
  /// compute stream has been given so far, by an event; else the caller's work must be done.
  virtual bool on_stream() const { return false; }
  /// Local. True when what is launched from now on comes after `ticket` and all before it: they are
  /// done, or, on a stream, the compute stream has been told to wait for them. False: ask again.
  /// Throws CommError.
  virtual bool holds_compute(Ticket ticket) { return test(ticket); }

  /// Collective. What ranks tell each other about themselves: `bytes` of each, side by side in
  /// `all`, in host memory. Nothing may be in flight. Returns the ticket that it took, 0: none.
  virtual Ticket exchange(const void* own, void* all, std::int64_t bytes) {
    Collective c;
    c.op = Op::all_gather, c.dtype = Dtype::uint8, c.elems = bytes * size();
    c.send = own, c.recv = all, c.name = "exchange";
    const Ticket ticket = start(c);
    wait(ticket);
    return ticket;
  }

  /// Collective over this communicator. Ranks of equal `color` form a group, ordered by `key`, then
  /// by rank here. The new communicator is a lane of its own.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
};

/// What is launched from now on comes after `ticket`; the host waits no longer than it must.
inline void hold_compute(Communicator& comm, Ticket ticket) {
  if (!comm.on_stream()) return comm.wait(ticket);
  while (!comm.holds_compute(ticket)) std::this_thread::yield();
}

/// Starts and waits: for the driver's own collectives and for tests.
inline void run(Communicator& comm, const Collective& c) {
  comm.wait(comm.start(c));
}

}  // namespace shardmark
