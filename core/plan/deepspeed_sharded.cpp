// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 3: each parameter is sharded by itself, gathered when the coordinator says,
// and its gradient is reduce-scattered through one bucket in every backward.
//
// Source: DeepSpeed 0.19's runtime/zero/stage3.py and partition_parameters.py, and recordings of
// 0.19.8.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <core/plan/checked.hpp>
#include <core/plan/coordinator.hpp>
#include <core/plan/deepspeed_writer.hpp>
#include <core/plan/sub_groups.hpp>

namespace shardmark {
namespace {

class ShardedWriter : public DeepSpeedWriter, public FetchActions {
 public:
  ShardedWriter(Program& program, const Deck& deck, const Profile& profile, const SubGroups& groups)
      : DeepSpeedWriter(program, deck, profile),
        groups_(groups),
        slots_(groups.groups().size()),
        gathered_(program.model.params.size(), no_slot),
        stand_{Coordinator(program.model, deck.zero.knobs),
               std::vector<Operand>(program.model.params.size()),
               {},
               {}} {}

  void write() {
    init();
    stand_.alive = p_.segments[0].exit;
    add_step();
    for (std::size_t s = 0; s < p_.steps.size(); ++s) write_step(static_cast<int>(s));
  }

 private:
  struct GroupSlots {
    int param = no_slot, grad = no_slot, master = no_slot, momentum = no_slot, variance = no_slot;
    int flat = no_slot, grad32 = no_slot;  // of the step
  };
  // What one segment hands to the next: how the coordinator stands, where gathered parameters lie.
  struct Stand {
    Coordinator coordinator;
    std::vector<Operand> where;  // by parameter: whole, while it is gathered
    std::map<int, int> users;    // parameters that lie in a summed buffer
    EndState alive;
    std::string key() const;
  };
  struct Written {
    int segment;
    Stand after;
  };

  int params() const { return static_cast<int>(p_.model.params.size()); }
  std::int64_t shard(int id) const { return groups_.shard(id); }
  std::int64_t whole(int id) const { return shard(id) * world(); }
  Operand own_shard(int id, bool reads, bool writes) const {
    return w_.part(slots_[groups_.group_of(id)].param, groups_.offset_of(id), shard(id), reads,
                   writes);
  }
  // Elements of this rank's shard that are not padding.
  std::int64_t real(int id) const {
    return std::clamp<std::int64_t>(elems(id) - shard(id) * p_.rank, 0, shard(id));
  }

  // ---- start-up -------------------------------------------------------------------------------

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {true, true, true, true};
    for (std::size_t g = 0; g < slots_.size(); ++g) declare_group(g);
    // Built one parameter at a time, so that no rank ever holds the whole model; each is broadcast
    // as DeepSpeed does it: by the engine, and when it is partitioned.
    for (int pass = 0; pass < 2; ++pass)
      for (int id = 0; id < params(); ++id) build_param(id);
    for (int i = 0; i < 3; ++i) w_.collective(Op::barrier, Reduction::none, Dtype::uint8, 0, {});
    for (int id = 0; id < params() && world() > 1; ++id) {  // to hook each one's gradient
      gather_alone(id);
      drop(id);
    }
    for (const GroupSlots& s : slots_) {
      w_.acquire(s.master);
      w_.compute(Kernel::convert, {w_.write(s.master), w_.read(s.param)});
      for (int zeroed : {s.momentum, s.variance, s.grad}) acquire_zeroed(w_, zeroed);
    }
    if (knobs_.contiguous_gradients) {
      bucket_ = w_.slot("bucket", Category::bucket, precision_.model, knobs_.reduce_bucket_size);
      w_.acquire(bucket_);
    }
    acquire_shared();
    end(Gradients::none);
  }

  void declare_group(std::size_t g) {
    const SubGroup& group = groups_.groups()[g];
    GroupSlots& s = slots_[g];
    const std::string suffix = slots_.size() > 1 ? "." + std::to_string(g) : "";
    auto slot = [&](const char* name, Category category, Dtype dtype, std::string_view kind) {
      return w_.slot(name + suffix, category, dtype, group.elems, Tier::device, kind);
    };
    s.param = slot("param", Category::param, precision_.model, recorded::param_partitions);
    s.grad = slot("grad", Category::grad, precision_.grad_accum, recorded::grad_partitions);
    s.master = slot("master", Category::master, Dtype::fp32, {});
    s.momentum = slot("momentum", Category::momentum, Dtype::fp32, {});
    s.variance = slot("variance", Category::variance, Dtype::fp32, {});
    for (int id : group.params) {
      const FlatParam alone{id, 0};
      for (auto [state, at] :
           {std::pair{State::param, s.param}, std::pair{State::master, s.master},
            std::pair{State::momentum, s.momentum}, std::pair{State::variance, s.variance}})
        place_state(p_, state, at, groups_.offset_of(id), {&alone, 1}, shard(id) * p_.rank,
                    shard(id));
    }
    acquire_zeroed(w_, s.param);
  }

  void build_param(int id) {
    const int full = gathered_slot(id);
    w_.acquire(full);
    w_.compute(Kernel::init_param, {write_part(full, 0, elems(id))}, {&id, 1});
    broadcast_bytes(read_part(full, 0, elems(id)), id);
    if (real(id) > 0) {
      Operand into = own_shard(id, false, true);
      into.elems = real(id);
      w_.compute(Kernel::convert, {into, read_part(full, shard(id) * p_.rank, real(id))});
    }
    w_.release(full);
  }

  // ---- gathering: what the coordinator asks for -----------------------------------------------

  int gathered_slot(int id) {
    return lazily(gathered_[id], "gathered." + name(id), Category::gathered, precision_.model,
                  whole(id), recorded::params);
  }

  // Straight into the parameter's own buffer.
  void gather_alone(int id) {
    const int slot = gathered_slot(id);
    w_.acquire(slot);
    collective(Op::all_gather, Reduction::none, own_shard(id, true, false), w_.write(slot), {id});
    stand_.where[id] = read_part(slot, 0, elems(id));
  }

  void fetch(const std::vector<int>& list) override {
    if (world() == 1) {  // the shard is the parameter
      for (int id : list) {
        stand_.where[id] = own_shard(id, true, false);
        stand_.where[id].elems = elems(id);
      }
      return;
    }
    if (list.size() == 1 || knobs_.allgather_sequential) {
      for (int id : list) gather_alone(id);
      return;
    }
    if (knobs_.use_all_reduce_for_fetch_params)
      fetch_by_sum(list);
    else
      fetch_together(list);
  }

  int flat_slot(const std::vector<int>& list) {
    std::int64_t sum = 0;
    for (int id : list) sum = checked_add(sum, whole(id), "gathered parameters");
    const auto [it, fresh] = flat_of_.try_emplace(list, no_slot);
    return lazily(it->second, fmt::format("fetch.{}", flat_of_.size()), Category::gathered,
                  precision_.model, sum, recorded::params);
  }

  void fetch_together(const std::vector<int>& list) {
    const int flat = flat_slot(list);
    const std::int64_t row = w_[flat].elems / world();
    w_.acquire(flat);
    std::int64_t at = row * p_.rank;
    for (int id : list) {
      w_.compute(Kernel::convert, {write_part(flat, at, shard(id)), own_shard(id, true, false)});
      at += shard(id);
    }
    collective(Op::all_gather, Reduction::none, read_part(flat, row * p_.rank, row), w_.write(flat),
               list);
  }

  // A zero-filled copy in which each rank sets its shards: the sum over ranks is the parameters.
  void fetch_by_sum(const std::vector<int>& list) {
    const int flat = flat_slot(list);
    acquire_zeroed(w_, flat);
    std::int64_t at = 0;
    for (int id : list) {
      w_.compute(Kernel::convert, {write_part(flat, at + shard(id) * p_.rank, shard(id)),
                                   own_shard(id, true, false)});
      stand_.where[id] = read_part(flat, at, elems(id));
      at += whole(id);
    }
    collective(Op::all_reduce, Reduction::sum, w_.read(flat), w_.write(flat), {});
    stand_.users[flat] = static_cast<int>(list.size());
  }

  void arrive(const std::vector<int>& list) override {
    if (world() == 1 || list.size() == 1 || knobs_.allgather_sequential ||
        knobs_.use_all_reduce_for_fetch_params)
      return;
    const int flat = flat_slot(list);
    const std::int64_t row = w_[flat].elems / world();
    std::int64_t at = 0;
    for (int id : list) {
      const int slot = gathered_slot(id);
      w_.acquire(slot);
      w_.compute(Kernel::rearrange,
                 {w_.write(slot), read_part(flat, at, row * (world() - 1) + shard(id))});
      stand_.where[id] = read_part(slot, 0, elems(id));
      at += shard(id);
    }
    w_.release(flat);
  }

  void release(int id) override {
    if (world() > 1) drop(id);
  }
  void drop(int id) {
    const int slot = stand_.where[id].slot;
    if (auto users = stand_.users.find(slot); users != stand_.users.end()) {
      if (--users->second > 0) return;
      stand_.users.erase(users);
    }
    w_.release(slot);
  }

  // DeepSpeed makes sure that all ranks have recorded the same: a length, then the list.
  void compare_lists(std::int64_t count) override {
    for (std::int64_t n : {std::int64_t{1}, count}) {
      const int slot =
          w_.slot(fmt::format("trace.{}", traces_++), Category::workspace, Dtype::int64, n);
      acquire_zeroed(w_, slot);
      const std::vector<Operand> operands{w_.read(slot), w_.write(slot)};
      w_.collective(Op::broadcast, Reduction::none, Dtype::int64, n, operands, {}, 0, 0);
      w_.release(slot);
    }
  }

  // ---- one micro-batch ------------------------------------------------------------------------

  std::vector<Operand> module_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module)) operands.push_back(stand_.where[id]);
    return operands;
  }

  int micro(int step, int g) {
    const bool first = g == 0;
    first_micro_ = first;
    Coordinator& coordinator = stand_.coordinator;
    const int index = w_.begin(SegmentKind::micro, fmt::format("step{}.micro{}", step, g),
                               first ? Gradients::none : Gradients::reduced);
    w_.phase(Phase::forward, g);
    coordinator.begin_pass(*this);
    compute_.begin_micro(g);
    bool backward_begun = false;
    for (const Visit& v : p_.model.visits) {
      if (v.kind == VisitKind::pre_backward && !backward_begun) {
        backward_begun = true;
        w_.phase(Phase::backward, g);
        begin_backward();
      }
      coordinator.visit(v, *this);
      const bool computes = p_.model.modules[v.module].role != Role::container;
      if (v.kind == VisitKind::pre_forward && computes)
        compute_.forward(v.module, module_params(v.module));
      if (v.kind == VisitKind::pre_backward && computes) {
        backward(v.module, module_params(v.module), false);
        for (int id : ready_after(v.module)) add_to_bucket(id);
      }
    }
    flush();
    retire();
    coordinator.end_pass(*this);
    compute_.end_micro();
    end(Gradients::reduced);
    return index;
  }

  void add_to_bucket(int id) {
    if (held_ + elems(id) > knobs_.reduce_bucket_size && held_ > 0) flush();
    Operand at = w_.read(grad_slot(id));
    if (knobs_.contiguous_gradients && held_ + elems(id) <= knobs_.reduce_bucket_size) {
      at = read_part(bucket_, held_, elems(id));
      w_.compute(Kernel::convert, {write_part(bucket_, held_, elems(id)), w_.read(grad_slot(id))});
      w_.release(grad_slot(id));
    }
    in_bucket_.push_back({id, at});
    held_ += elems(id);
  }

  struct Entry {
    int param;
    Operand grad;  // in the bucket, or its own tensor
  };
  // A bucket on its way: `reduced` holds this rank's shards of the entries, one after another, or,
  // after an all_reduce, whole gradients.
  struct Sent {
    std::vector<Entry> entries;
    Operand reduced;
    bool whole = false;
    int flattened = no_slot;
  };

  void flush() {
    if (in_bucket_.empty()) return;
    retire();
    Sent sent;
    sent.entries = std::move(in_bucket_);
    in_bucket_.clear();
    const bool in_buffer = knobs_.contiguous_gradients && held_ <= knobs_.reduce_bucket_size;
    if (in_buffer && !knobs_.reduce_scatter)
      reduce_whole(sent);
    else
      reduce_scatter(sent);
    held_ = 0;
    in_flight_ = std::move(sent);
    if (!knobs_.overlap_comm) retire();
  }

  std::vector<int> ids(const Sent& sent) const {
    std::vector<int> list;
    for (const Entry& e : sent.entries) list.push_back(e.param);
    return list;
  }

  void reduce_whole(Sent& sent) {
    sent.whole = true;
    sent.reduced = update_part(bucket_, 0, held_);
    const auto ranks = static_cast<double>(world());
    const double factor = knobs_.gradient_predivide_factor;
    Divisors divisors{ranks, 1};
    if (!knobs_.prescale_gradients && factor != 1) {
      divisors.before = ranks * factor;
      if (factor != ranks) divisors.after = 1 / factor;
    }
    all_reduce(sent.reduced, divisors, ids(sent));
  }

  // Rank-major and padded shard by shard, unless a tensor alone is that already.
  void reduce_scatter(Sent& sent) {
    std::sort(sent.entries.begin(), sent.entries.end(),
              [](const Entry& a, const Entry& b) { return a.param < b.param; });
    Operand data = sent.entries[0].grad;
    if (sent.entries.size() > 1 || elems(sent.entries[0].param) % world() != 0) {
      std::int64_t row = 0;
      for (const Entry& e : sent.entries) row += shard(e.param);
      const int flat = w_.slot(fmt::format("interleaved.{}", flats_++), Category::bucket,
                               precision_.model, row * world());
      w_.acquire(flat);
      std::int64_t at = 0;
      for (const Entry& e : sent.entries) {
        w_.compute(Kernel::interleave,
                   {write_part(flat, at, row * (world() - 1) + shard(e.param)), e.grad});
        at += shard(e.param);
      }
      sent.flattened = flat;
      data = w_.update(flat);
      for (Entry& e : sent.entries)
        if (w_.alive(grad_slot(e.param))) w_.release(grad_slot(e.param));
    }
    data.reads = data.writes = true;
    const std::int64_t row = data.elems / world();
    sent.reduced = update_part(data.slot, data.offset + row * p_.rank, row);
    const std::vector<int> list = ids(sent);
    as_comm_type(data, [&](Operand wire) {
      if (!ordered()) divide(wire, world());
      Operand own = wire;
      own.offset += row * p_.rank;
      own.elems = row;
      collective(Op::reduce_scatter, ordered() ? Reduction::average : Reduction::sum, wire, own,
                 list);
    });
  }

  // Adds this rank's shards to its gradient partitions; the first micro-batch overwrites.
  void retire() {
    if (!in_flight_) return;
    const Sent sent = std::move(*in_flight_);
    in_flight_.reset();
    std::int64_t at = sent.reduced.offset;
    for (const Entry& e : sent.entries) {
      const std::int64_t from = sent.whole ? at + shard(e.param) * p_.rank : at;
      at += sent.whole ? elems(e.param) : shard(e.param);
      if (real(e.param) > 0) {
        const GroupSlots& s = slots_[groups_.group_of(e.param)];
        const Operand into =
            w_.part(s.grad, groups_.offset_of(e.param), real(e.param), !first_micro_, true);
        w_.compute(first_micro_ ? Kernel::convert : Kernel::accumulate,
                   {into, read_part(sent.reduced.slot, from, real(e.param))});
      }
      if (w_.alive(grad_slot(e.param))) w_.release(grad_slot(e.param));
    }
    if (sent.flattened != no_slot) w_.release(sent.flattened);
  }

  // ---- the step, and which steps there are ----------------------------------------------------

  int add_step() {
    const auto [it, fresh] = step_of_.try_emplace(stand_.key(), static_cast<int>(p_.steps.size()));
    if (fresh) {
      p_.steps.emplace_back();
      starts_.push_back(stand_);
    }
    return it->second;
  }

  // Goes on from `written` if there is such a segment, else from what `write` writes.
  template<class Write>
  int segment(std::map<std::string, Written>& known, const std::string& key, Write write) {
    auto it = known.find(key);
    if (it == known.end()) {
      w_.resume(stand_.alive);
      const int index = write();
      stand_.alive = p_.segments[index].exit;
      it = known.emplace(key, Written{index, stand_}).first;
    }
    stand_ = it->second.after;
    return it->second.segment;
  }

  void write_step(int s) {
    stand_ = starts_[s];
    Step step;
    for (int g = 0; g < p_.batch.accumulation; ++g)
      step.micros.push_back(
          segment(micro_of_, stand_.key() + (g == 0 ? "first" : ""), [&] { return micro(s, g); }));
    step.boundary = segment(boundary_of_, stand_.key(), [&] { return boundary(); });
    const Stand closed = stand_;
    if (precision_.check_overflow) {
      step.skip = segment(skip_of_, "", [&] { return skip(); });
      stand_.coordinator = closed.coordinator;
      step.after_skip = add_step();
      stand_ = closed;
    }
    step.update = segment(update_of_, "", [&] { return update(closed.coordinator.persistent()); });
    stand_.coordinator = closed.coordinator;
    stand_.coordinator.gathered_persistent();
    step.after_update = add_step();
    p_.steps[s] = std::move(step);
  }

  int boundary() {
    const int index =
        w_.begin(SegmentKind::boundary,
                 boundaries_ == 0 ? "boundary" : fmt::format("boundary.{}", boundaries_),
                 Gradients::reduced);
    ++boundaries_;
    w_.phase(Phase::step);
    stand_.coordinator.release_all(*this);
    if (precision_.check_overflow) {
      std::vector<Operand> grads;
      for (const GroupSlots& s : slots_) grads.push_back(w_.read(s.grad));
      overflow_flag(grads, true);
    }
    end(Gradients::reduced);
    return index;
  }

  int update(const std::vector<int>& persistent) {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    const auto sums = static_cast<int>(slots_.size());
    acquire_step_scalars(sums);
    for (int g = 0; g < sums; ++g) {
      sum_of_squares(g, {w_.read(slots_[g].grad)});
      reduce_sum(g, Dtype::fp64, false);
    }
    clip(sums);
    for (std::size_t g = 0; g < slots_.size(); ++g) update_group(g);
    if (world() > 1)
      for (int id : persistent) gather_alone(id);
    release_step_scalars();
    if (precision_.check_overflow) w_.release(flag());
    end(Gradients::none);
    return index;
  }

  void update_group(std::size_t g) {
    GroupSlots& s = slots_[g];
    const std::string suffix = slots_.size() > 1 ? "." + std::to_string(g) : "";
    const std::int64_t size = groups_.groups()[g].elems;
    w_.acquire(
        lazily(s.flat, "step_gradients" + suffix, Category::grad, precision_.grad_accum, size));
    w_.compute(Kernel::convert, {w_.write(s.flat), w_.read(s.grad)});
    int grad = s.flat;
    if (precision_.grad_accum != Dtype::fp32) {
      grad = lazily(s.grad32, "step_gradients_fp32" + suffix, Category::grad, Dtype::fp32, size);
      w_.acquire(grad);
      w_.compute(Kernel::convert, {w_.write(grad), w_.read(s.flat)});
      w_.release(s.flat);
    }
    adamw(w_.update(s.master), w_.read(grad), w_.update(s.momentum), w_.update(s.variance),
          groups_.groups()[g].params);
    w_.release(grad);
    w_.compute(Kernel::convert, {w_.write(s.param), w_.read(s.master)});
  }

  int skip() {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    w_.release(flag());
    end(Gradients::none);
    return index;
  }

  const SubGroups& groups_;
  std::vector<GroupSlots> slots_;
  std::vector<int> gathered_;                // by parameter
  std::map<std::vector<int>, int> flat_of_;  // coalesced gathers by their parameters
  int bucket_ = no_slot;
  std::vector<Entry> in_bucket_;
  std::int64_t held_ = 0;
  std::optional<Sent> in_flight_;
  bool first_micro_ = true;
  int flats_ = 0, traces_ = 0, boundaries_ = 0;
  Stand stand_;                         // where the plan is being written
  std::vector<Stand> starts_;           // by step
  std::map<std::string, int> step_of_;  // by what it starts from
  std::map<std::string, Written> micro_of_, boundary_of_, update_of_, skip_of_;
};

std::string ShardedWriter::Stand::key() const {
  std::string text = coordinator.key();
  for (const auto& [slot, count] : users) text += fmt::format(";{}x{}", slot, count);
  return text;
}

}  // namespace

void write_deepspeed_sharded(Program& program, const Deck& deck, const Profile& profile) {
  const SubGroups groups(program.model, deck.zero.knobs.sub_group_size, program.world);
  for (const SubGroup& g : groups.groups()) program.partition.per_rank += g.elems;
  program.partition.padded = checked_mul(program.partition.per_rank, program.world, "partition");
  ShardedWriter(program, deck, profile, groups).write();
}

}  // namespace shardmark
