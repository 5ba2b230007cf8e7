// SPDX-License-Identifier: Apache-2.0
// How data moves between ranks. A process group has one abstract Communicator. The back-ends
// `self`, `mpi`, `shm`, `node` and `nccl` implement it; decorators (counting, watching,
// delaying, congesting, faulty, proving) wrap it.
//
// A communicator is one lane: its collectives run in the order in which they were started, and all
// ranks of the group must start the same collectives in the same order. Starting never blocks;
// `test` and `wait` make progress, the oldest collective first. Buffers belong to the caller. From
// `start` until the ticket is done the caller must not touch the receive buffer and must not write
// the send buffer.
// What collectives take out of this rank's send buffers and put into its receive buffers. A
// back-end counts it where it moves the data, beneath the counters of calls, so that a piece that
// is left out shows even if its call was made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <core/plan/deck/choices.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// What one kind of collective has moved on one rank.
struct Moved {
  std::int64_t sent_elems = 0, sent_bytes = 0, received_elems = 0, received_bytes = 0;
  bool operator==(const Moved&) const = default;
  void send(std::int64_t elems, Dtype dtype) {
    sent_elems += elems;
    sent_bytes += elems * dtype_bytes(dtype);
  }
  void receive(std::int64_t elems, Dtype dtype) {
    received_elems += elems;
    received_bytes += elems * dtype_bytes(dtype);
  }
  void add(const Moved& other) {
    sent_elems += other.sent_elems, sent_bytes += other.sent_bytes;
    received_elems += other.received_elems, received_bytes += other.received_bytes;
  }
  /// Returns what was moved since `other`, an earlier state of the same counters.
  Moved since(const Moved& other) const {
    return {sent_elems - other.sent_elems, sent_bytes - other.sent_bytes,
            received_elems - other.received_elems, received_bytes - other.received_bytes};
  }
};

/// By operation; barriers move nothing and are absent.
using MovedVolume = std::map<Op, Moved>;

/// The description of one collective, as a plain value that decorators can inspect and pass on.
///
/// `elems` is S as defined by nccl-tests, the size of the whole array: all_gather receives S
/// elements and sends S/size of them; reduce_scatter sends S and receives S/size; all_to_all sends
/// S and receives S, S/size of them to and from each rank, in rank order. `size` must divide S for
/// these three. In place means send == recv + rank*S/size for all_gather, recv == send +
/// rank*S/size for reduce_scatter (whose other elements are undefined afterwards), and send == recv
/// for the other operations; all_to_all has no such form, so its buffers must not overlap.
///
/// The parts of an all_to_all may differ by pair of ranks. `parts` then has how many elements this
/// rank sends to each rank, and behind these how many it receives from each, and the buffers hold
/// the parts one after the other in rank order. No pair exchanges more than S/size elements, so S
/// is the same on all ranks, and some pair should.
struct Collective {
  Op op = Op::barrier;
  Dtype dtype = Dtype::fp32;
  Reduction reduction = Reduction::none;  // sum, max, or average (the sum, divided once)
  int root = -1;                          // of reduce and broadcast
  std::int64_t elems = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  // Memory of the caller, of collective_scratch_bytes() (core/plan/collective_scratch.hpp).
  void* scratch = nullptr;
  std::int64_t scratch_bytes = 0;
  const std::int64_t* parts = nullptr;  // 2 * size counts, which must outlive the ticket
  std::string_view name;  // for messages: "grad.block3"; the text must outlive the ticket
};

/// Identifies a started collective: its sequence number on its communicator, counted from 1.
using Ticket = std::uint64_t;

/// One lane of collectives over a process group. Unless a function says that it is collective, a
/// rank may call it at any time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Backend backend() const = 0;
  /// For reports: what the back-end chose for this machine and why; empty if it had no choice.
  virtual std::string about() const { return {}; }

  /// Collective. Starts `c` on this lane and returns at once. Throws CommError when `c` is invalid.
  virtual Ticket start(const Collective& c) = 0;
  /// Makes progress; true when `ticket` and all tickets before it are done. Throws CommError.
  virtual bool test(Ticket ticket) = 0;
  /// Blocks until `ticket` and all tickets before it are done. Throws CommError on failure or
  /// timeout.
  virtual void wait(Ticket ticket) = 0;
  /// Makes progress without blocking; the executor calls it between kernels. Throws CommError.
  virtual void progress() = 0;

  /// What the back-end itself has moved on this lane since it was made, counted where it moves it.
  /// Complete for collectives that are done.
  virtual const MovedVolume& moved() const = 0;

  /// Whether collectives run on a stream of the device. If so, `start` orders the collective after
  /// all work queued on the compute stream by an event. If not, that work must have finished before
  /// `start`.
  virtual bool on_stream() const { return false; }
  /// Tries to order the compute stream after `ticket` without blocking the host. True: work
  /// launched from now on runs after `ticket` and all tickets before it, because they are done or
  /// because the stream waits for them. False: the caller has to try again. Throws CommError.
  virtual bool holds_compute(Ticket ticket) { return test(ticket); }

  /// Collective; nothing may be in flight. Gathers `bytes` bytes of each rank in rank order into
  /// `all`, in host memory. Returns the ticket that was used, or 0 when the back-end used none.
  virtual Ticket exchange(const void* own, void* all, std::int64_t bytes) {
    Collective c;
    c.op = Op::all_gather, c.dtype = Dtype::uint8, c.elems = bytes * size();
    c.send = own, c.recv = all, c.name = "exchange";
    const Ticket ticket = start(c);
    wait(ticket);
    return ticket;
  }

  /// Collective. Ranks with equal `color` form a group, ordered by `key` and then by rank. The new
  /// communicator is a lane of its own. Throws CommError.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
};

/// Orders work launched from now on after `ticket`. The host blocks only as long as it has to.
inline void hold_compute(Communicator& comm, Ticket ticket) {
  if (!comm.on_stream()) return comm.wait(ticket);
  while (!comm.holds_compute(ticket)) std::this_thread::yield();
}

/// Starts `c` and waits for it. Used by the driver's own collectives and by tests.
inline void run(Communicator& comm, const Collective& c) {
  comm.wait(comm.start(c));
}

}  // namespace shardmark
