// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <core/plan/exact_sum.hpp>
#include <core/plan/gpt2_sizes.hpp>
#include <core/plan/paper.hpp>
#include <core/plan/scratch.hpp>
#include <core/plan/writer.hpp>
#include <numeric>

namespace shardmark {
namespace {

constexpr int none = -1;

// The slots that belong to one unit; `none` where the stage or the model has no such buffer.
struct UnitSlots {
  int param = none, grad = none, momentum = none, variance = none;
  int gathered = none;  // stage 3: the unit's full parameters
  int bucket = none;    // stages 2, 3: the unit's full gradient, before it is reduced
  int part = none;      // stages 2, 3: this rank's reduced share, before it is accumulated
  int x_in = none;      // residual stream that enters the unit
  int saved = none;     // what its forward saves for its backward
  int workspace_forward = none, workspace_backward = none;
};

class PaperWriter {
 public:
  PaperWriter(Program& program, const Deck& deck, const Profile& profile)
      : p_(program), w_(program), trains_(deck.run.compute == Compute::train), profile_(profile) {
    declare_states();
    if (trains_) declare_activations(gpt2_dims(deck.model, p_.batch.micro));
    declare_staging();
  }

  void write() {
    init();
    const std::int64_t accumulation = p_.batch.accumulation;
    if (accumulation == 1) {
      micro(SegmentKind::micro_only, 0);
    } else {
      micro(SegmentKind::micro_first, 0);
      if (accumulation > 2) micro(SegmentKind::micro_middle, 1);
      micro(SegmentKind::micro_last, static_cast<int>(accumulation - 1));
    }
    boundary();
    update();
  }

 private:
  int stage() const { return p_.stage; }
  int units() const { return static_cast<int>(p_.model.units.size()); }
  const Unit& unit(int u) const { return p_.model.units[u]; }
  // Without training there are no activations: every unit is a list of parameters.
  UnitKind kind(int u) const { return trains_ ? unit(u).kind : UnitKind::list; }

  std::vector<int> params_of(int u) const {
    std::vector<int> ids(unit(u).param_count);
    std::iota(ids.begin(), ids.end(), unit(u).first_param);
    return ids;
  }

  void declare_states() {
    slots_.resize(units());
    for (int u = 0; u < units(); ++u) {
      const UnitPartition& part = p_.partition.units[u];
      const std::string name = unit(u).name;
      auto fp32 = [&](const char* prefix, Category c, std::int64_t elems) {
        return w_.slot(prefix + name, c, Dtype::fp32, elems);
      };
      UnitSlots& s = slots_[u];
      s.param = fp32("param.", Category::param, stage() < 3 ? part.padded : part.shard);
      s.momentum = fp32("momentum.", Category::momentum, part.shard);
      s.variance = fp32("variance.", Category::variance, part.shard);
      s.grad = fp32("grad.", Category::grad, stage() < 2 ? part.padded : part.shard);
      if (stage() >= 2) s.bucket = fp32("bucket.", Category::bucket, part.padded);
      if (stage() >= 2 && p_.batch.accumulation > 1)
        s.part = fp32("part.", Category::bucket, part.shard);
      if (stage() == 3) s.gathered = fp32("gathered.", Category::gathered, part.padded);
    }
    sum_ = p_.reductions == Reductions::ordered
               ? w_.slot("norm_limbs", Category::workspace, Dtype::int64, exact_sum_limbs)
               : w_.slot("norm_sum", Category::workspace, Dtype::fp64, 1);
    clip_ = w_.slot("clip", Category::workspace, Dtype::fp64, 2);
  }

  void declare_activations(const Gpt2Dims& d) {
    const std::int64_t rows = d.rows();
    tokens_ = w_.slot("tokens", Category::activation, Dtype::int32,
                      d.micro_batch * (d.sequence + 1));
    dx_ = w_.slot("dx", Category::activation, Dtype::fp32, rows * d.hidden);
    loss_ = w_.slot("loss", Category::workspace, Dtype::fp64, 1);
    for (int u = 0; u < units(); ++u) {
      UnitSlots& s = slots_[u];
      if (u > 0) s.x_in = w_.slot("x." + unit(u).name, Category::activation, Dtype::fp32,
                                  rows * d.hidden);
      auto workspace = [&](const char* prefix, Kernel k) {
        const std::int64_t bytes = workspace_bytes(d, kind(u), k, profile_.workspace_cap_bytes);
        return bytes == 0 ? none
                          : w_.slot(prefix + unit(u).name, Category::workspace, Dtype::uint8, bytes);
      };
      s.workspace_forward = workspace("forward.", Kernel::forward);
      s.workspace_backward = workspace("backward.", Kernel::backward);
      if (const std::int64_t elems = saved_elems(d, kind(u)); elems > 0)
        s.saved = w_.slot("saved." + unit(u).name, Category::activation, Dtype::fp32, elems);
    }
  }

  // One staging buffer serves every collective: the lane runs them one after another.
  void declare_staging() {
    std::int64_t bytes = 0;
    auto need = [&](Op op, Dtype dtype, std::int64_t elems) {
      bytes = std::max(bytes, collective_scratch_bytes(op, dtype, elems, p_.world, p_.reductions,
                                                       profile_.staging_cap_bytes));
    };
    for (const UnitPartition& u : p_.partition.units) {
      need(stage() == 0 ? Op::all_reduce : Op::reduce_scatter, Dtype::fp32, u.padded);
      if (stage() > 0) need(Op::all_gather, Dtype::fp32, u.padded);
    }
    if (stage() > 0) need(Op::all_reduce, w_[sum_].dtype, w_[sum_].elems);
    if (bytes > 0) staging_ = w_.slot("staging", Category::staging, Dtype::uint8, bytes);
  }

  // This rank's own part of a buffer that holds the whole unit.
  Operand own(int slot, int u, bool reads, bool writes) const {
    return {slot, writes, reads, p_.partition.offset(u, p_.rank), p_.partition.units[u].shard};
  }

  void collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                  std::span<const int> params) {
    send.reads = true, send.writes = false;
    receive.writes = true, receive.reads = false;
    const std::int64_t elems = std::max(send.elems, receive.elems);
    std::vector<Operand> operands{send, receive};
    const std::int64_t scratch =
        collective_scratch_bytes(op, w_[send.slot].dtype, elems, p_.world, p_.reductions,
                                 profile_.staging_cap_bytes);
    if (scratch > 0) operands.push_back({staging_, true, false, 0, scratch});
    w_.collective(op, reduction, elems, operands, u, params);
  }

  void init() {
    w_.begin(SegmentKind::init, Gradients::none);
    w_.phase(Phase::init);
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_[u];
      w_.acquire(s.param);
      const Operand param = w_.write(s.param);
      w_.compute(Kernel::init_param, u, {&param, 1}, params_of(u));
      for (int state : {s.momentum, s.variance}) {
        w_.acquire(state);
        const Operand all = w_.write(state);
        w_.compute(Kernel::zero, u, {&all, 1});
      }
    }
    for (int persistent : {sum_, clip_, loss_, staging_})
      if (persistent != none) w_.acquire(persistent);
    w_.end(Gradients::none);
  }

  void micro(SegmentKind segment, int g) {
    first_ = g == 0;
    last_ = g == p_.batch.accumulation - 1;
    const Gradients pending = stage() >= 2 ? Gradients::reduced : Gradients::accumulated;
    w_.begin(segment, first_ ? Gradients::none : pending);
    w_.phase(Phase::forward, g);
    if (trains_) {
      w_.acquire(tokens_);
      const Operand tokens = w_.write(tokens_);
      w_.compute(Kernel::load_batch, none, {&tokens, 1});
    }
    std::vector<int> order(units());
    std::iota(order.begin(), order.end(), 0);
    pass(order, [&](int u) { forward(u); });

    w_.phase(Phase::backward, g);
    std::reverse(order.begin(), order.end());
    in_flight_ = none;
    pass(order, [&](int u) {
      backward(u);
      reduce_gradient(u);
    });
    retire_reduction();
    if (trains_) w_.release(tokens_);
    w_.end(last_ ? Gradients::reduced : pending);
  }

  // Runs `compute` over the units. At stage 3 each pass gathers a unit once: one compute ahead of its
  // first use; it is dropped right after its last.
  template<class Compute>
  void pass(const std::vector<int>& order, Compute compute) {
    const int n = static_cast<int>(order.size());
    auto needs = [&](int j) {
      std::vector<int> all = unit(order[j]).also_reads;
      all.push_back(order[j]);
      return all;
    };
    std::vector<int> last_use(units(), -1);
    for (int j = 0; j < n; ++j)
      for (int u : needs(j)) last_use[u] = j;
    for (int j = 0; j < n; ++j) {
      if (stage() == 3)
        for (int ahead = j; ahead <= std::min(j + 1, n - 1); ++ahead)
          for (int u : needs(ahead)) gather(u);
      compute(order[j]);
      if (stage() == 3)
        for (int u : needs(j))
          if (last_use[u] == j) w_.release(slots_[u].gathered);
    }
  }

  void gather(int u) {
    const UnitSlots& s = slots_[u];
    if (w_.alive(s.gathered)) return;
    w_.acquire(s.gathered);
    collective(Op::all_gather, Reduction::none, w_.read(s.param), w_.write(s.gathered), u,
               params_of(u));
  }

  // The unit's full parameters, wherever the stage keeps them.
  int full_param(int u) const { return stage() == 3 ? slots_[u].gathered : slots_[u].param; }
  int full_grad(int u) const { return stage() >= 2 ? slots_[u].bucket : slots_[u].grad; }
  // The tied weight: the first parameter of the embeddings.
  Operand tied(int slot, bool reads, bool writes) const {
    return {slot, writes, reads, 0, p_.model.params[0].elems};
  }
  bool is_tied_head(int u) const {
    return kind(u) == UnitKind::head && !unit(u).also_reads.empty();
  }

  void forward(int u) {
    const UnitSlots& s = slots_[u];
    std::vector<Operand> ops;
    ops.reserve(8);
    ops.push_back(w_.read(full_param(u)));
    const int x_out = trains_ && u + 1 < units() ? slots_[u + 1].x_in : none;
    for (int made : {x_out, s.saved, s.workspace_forward})
      if (made != none) w_.acquire(made);
    switch (kind(u)) {
      case UnitKind::embeddings:
        ops.insert(ops.end(), {w_.read(tokens_), w_.write(x_out)});
        break;
      case UnitKind::block:
        ops.insert(ops.end(), {w_.read(s.x_in), w_.write(x_out), w_.write(s.saved),
                               w_.write(s.workspace_forward)});
        break;
      case UnitKind::head:
        ops.insert(ops.end(), {w_.read(s.x_in), w_.read(tokens_), w_.write(s.saved),
                               w_.whole(loss_, !first_, true), w_.write(s.workspace_forward)});
        if (is_tied_head(u)) ops.push_back(tied(full_param(0), true, false));
        break;
      case UnitKind::list:
        for (int r : unit(u).also_reads) ops.push_back(w_.read(full_param(r)));
        break;
    }
    w_.compute(Kernel::forward, u, ops);
    if (s.workspace_forward != none) w_.release(s.workspace_forward);
  }

  // Stages 0 and 1 add up over micro-batches in place; 2 and 3 make each micro-batch's gradient anew.
  bool adds() const { return stage() < 2 && !first_; }

  void acquire_full_grad(int u) {
    if (!w_.alive(full_grad(u))) w_.acquire(full_grad(u));
  }

  void backward(int u) {
    const UnitSlots& s = slots_[u];
    std::vector<int> params = params_of(u);
    std::vector<Operand> ops;
    ops.reserve(8);
    ops.push_back(w_.read(full_param(u)));
    acquire_full_grad(u);
    if (s.workspace_backward != none) w_.acquire(s.workspace_backward);
    const Operand grad = w_.whole(full_grad(u), adds(), true);
    switch (kind(u)) {
      case UnitKind::head:
        w_.acquire(dx_);
        ops.insert(ops.end(), {w_.read(s.x_in), w_.read(s.saved), w_.write(dx_), grad,
                               w_.write(s.workspace_backward)});
        if (is_tied_head(u)) {
          acquire_full_grad(0);
          ops.push_back(tied(full_param(0), true, false));
          ops.push_back(tied(full_grad(0), adds(), true));
          params.push_back(0);
        }
        break;
      case UnitKind::block:
        ops.insert(ops.end(), {w_.read(s.x_in), w_.read(s.saved), w_.update(dx_), grad,
                               w_.write(s.workspace_backward)});
        break;
      case UnitKind::embeddings: {
        ops.insert(ops.end(), {w_.read(tokens_), w_.read(dx_)});
        if (is_tied_head(units() - 1)) {
          const Operand made = tied(full_grad(0), true, true);
          ops.push_back(made);
          ops.push_back({made.slot, true, adds(), made.elems, grad.elems - made.elems});
        } else {
          ops.push_back(grad);
        }
        break;
      }
      case UnitKind::list: ops.push_back(grad); break;
    }
    w_.compute(Kernel::backward, u, ops, params);
    for (int done : {s.workspace_backward, s.saved, s.x_in})
      if (done != none) w_.release(done);
    if (kind(u) == UnitKind::embeddings) w_.release(dx_);
  }

  // Starts the reduction of the unit whose backward is just done, then retires the one before it: at
  // most one unit's gradient is in flight while the next one is computed.
  void reduce_gradient(int u) {
    const UnitSlots& s = slots_[u];
    const std::vector<int> params = params_of(u);
    if (stage() < 2) {
      if (!last_) return;
      if (stage() == 0)
        collective(Op::all_reduce, Reduction::average, w_.read(s.grad), w_.write(s.grad), u, params);
      else
        collective(Op::reduce_scatter, Reduction::average, w_.read(s.grad),
                   own(s.grad, u, false, true), u, params);
      return;
    }
    const int into = first_ ? s.grad : s.part;
    w_.acquire(into);
    collective(Op::reduce_scatter, Reduction::average, w_.read(s.bucket), w_.write(into), u, params);
    retire_reduction();
    in_flight_ = u;
  }

  void retire_reduction() {
    if (in_flight_ == none) return;
    const UnitSlots& s = slots_[in_flight_];
    if (!first_) {
      const std::array<Operand, 2> ops{w_.update(s.grad), w_.read(s.part)};
      w_.compute(Kernel::accumulate, in_flight_, ops);
      w_.release(s.part);
    }
    w_.release(s.bucket);
    in_flight_ = none;
  }

  Operand owned_grad(int u) const {
    return stage() == 1 ? own(slots_[u].grad, u, true, false) : w_.read(slots_[u].grad);
  }

  void boundary() {
    w_.begin(SegmentKind::boundary, Gradients::reduced);
    w_.phase(Phase::step);
    std::vector<Operand> ops{w_.write(sum_)};
    for (int u = 0; u < units(); ++u) ops.push_back(owned_grad(u));
    w_.compute(Kernel::grad_norm, none, ops);
    // At stage 0 every rank holds all gradients, so every rank has the norm already.
    if (stage() > 0)
      collective(Op::all_reduce, Reduction::sum, w_.read(sum_), w_.write(sum_), none, {});
    const std::array<Operand, 2> clip{w_.write(clip_), w_.read(sum_)};
    w_.compute(Kernel::clip, none, clip);
    w_.end(Gradients::reduced);
  }

  void update() {
    w_.begin(SegmentKind::update, Gradients::reduced);
    w_.phase(Phase::step);
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_[u];
      const bool in_full_buffer = stage() == 1 || stage() == 2;
      const Operand param = in_full_buffer ? own(s.param, u, true, true) : w_.update(s.param);
      const std::array<Operand, 5> ops{param, owned_grad(u), w_.update(s.momentum),
                                       w_.update(s.variance), w_.read(clip_)};
      const std::vector<int> params = params_of(u);
      w_.compute(Kernel::adamw, u, ops, params);
      w_.release(s.grad);
      if (in_full_buffer)
        collective(Op::all_gather, Reduction::none, own(s.param, u, true, false),
                   w_.write(s.param), u, params);
    }
    w_.end(Gradients::none);
  }

  Program& p_;
  PlanWriter w_;
  const bool trains_;
  const Profile& profile_;
  std::vector<UnitSlots> slots_;
  int tokens_ = none, dx_ = none, loss_ = none, sum_ = none, clip_ = none, staging_ = none;
  bool first_ = true, last_ = true;  // of the micro-batch that is being written
  int in_flight_ = none;             // unit whose reduction has started and is not retired
};

}  // namespace

void write_paper(Program& program, const Deck& deck, const Profile& profile) {
  PaperWriter(program, deck, profile).write();
}

}  // namespace shardmark
