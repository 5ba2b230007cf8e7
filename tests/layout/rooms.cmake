# SPDX-License-Identifier: Apache-2.0
# The folders of sources ("rooms") from the bottom up, and which of the rooms above it in this table
# each may include. A room may not include one that is below it in the table, so there are no
# circles. `a/*` stands for all rooms in a that are above this one. A new folder needs a line here.
set(layout_rooms
  "core:"
  "core/plan/deck: core"
  "core/numeric: core core/plan/deck"
  "core/plan/model: core core/plan/deck"
  "core/plan/mesh: core core/plan/deck"
  "core/plan/partition: core core/plan/deck core/plan/model core/plan/mesh"
  "core/plan: core core/plan/deck core/plan/model core/plan/partition core/plan/mesh"
  "core/plan/write: core core/plan/deck core/plan/model core/plan/partition core/plan/mesh core/plan"
  "core/plan/work: core core/plan/deck core/plan/model core/plan/partition core/plan"
  "core/plan/interpret: core core/plan/deck core/plan/model core/plan/partition core/plan/mesh core/plan core/plan/work"
  "core/plan/price: core core/plan/deck core/plan/model core/plan/partition core/plan core/plan/work core/plan/interpret"
  "core/plan/paper: core core/plan/deck core/plan/model core/plan/partition core/plan/mesh core/plan core/plan/write"
  "core/plan/torch: core core/plan/deck core/plan/model core/plan/partition core/plan/mesh core/plan core/plan/write"
  "core/plan/deepspeed: core core/plan/deck core/plan/model core/plan/partition core/plan/mesh core/plan core/plan/write"
  "core/plan/deepspeed/stage0: core core/plan core/plan/*"
  "core/plan/deepspeed/stage12: core core/plan core/plan/*"
  "core/plan/deepspeed/stage3: core core/plan core/plan/*"
  "core/plan/build: core core/plan core/plan/*"
  "core/memory: core core/plan core/plan/deck core/plan/interpret"
  "core/memory/gpu: core core/memory"
  "core/nn/kernels: core core/numeric core/plan/deck"
  "core/nn/products: core core/numeric core/plan/deck core/nn/kernels"
  "core/nn/layers: core core/numeric core/plan/deck core/plan/model core/nn/kernels core/nn/products"
  "core/nn/models: core core/plan/deck core/plan/model core/nn/kernels core/nn/products core/nn/layers"
  "core/nn/optimizer: core core/numeric core/plan/deck core/plan/model core/nn/kernels core/nn/products"
  "core/nn/gpu: core core/numeric core/plan/deck core/nn/*"
  "core/nn/gpu/check_program: core core/numeric core/nn/gpu"
  "comm: core core/numeric core/plan core/plan/deck"
  "comm/self: core comm"
  "comm/mpi: core core/plan/deck comm"
  "comm/shm: core core/plan/deck comm comm/mpi"
  "comm/node: core core/plan core/plan/deck comm comm/mpi comm/shm"
  "comm/proof: core core/numeric core/plan/deck comm"
  "comm/decorators: core core/plan core/plan/deck core/plan/interpret comm comm/mpi comm/proof"
  "comm/nccl: core core/numeric core/plan/deck comm comm/mpi comm/decorators"
  "comm/nccl/info: core comm comm/mpi comm/nccl"
  "comm/factory: core core/plan/deck comm comm/*"
  "io/json: core"
  "io/keys: core core/plan/deck io/json"
  "io/files: core"
  "io/data: core core/plan/deck"
  "io/deepspeed/schema: core core/plan/deck io/json io/keys"
  "io/hf: core core/plan/deck io/json io/keys io/deepspeed/schema"
  "io/deepspeed: core core/plan/deck core/plan/model core/plan/partition core/plan/deepspeed/stage3 io/json io/keys io/deepspeed/schema"
  "io/deck: core core/plan/deck core/plan/write io/json io/keys io/files io/deepspeed io/deepspeed/schema io/hf"
  "io/machine: core core/plan/deck core/plan/price io/json io/keys"
  "io/archive: core io/files"
  "io/chakra:"
  "io/checkpoint: core core/numeric core/plan core/plan/deck core/plan/model core/plan/interpret io/json io/files"
  "miniapp/charts: core core/plan/deck"
  "miniapp/predict: core core/plan core/plan/* io/*"
  "miniapp/rules: core core/plan core/plan/* io/*"
  "miniapp/ranks: core core/memory core/plan core/plan/deck comm comm/*"
  "miniapp/energy: core miniapp/ranks"
  "miniapp/models: core core/memory core/numeric core/nn/* core/plan core/plan/* io/data"
  "miniapp/execute: core core/memory core/nn/kernels core/plan core/plan/* comm comm/* io/files io/checkpoint miniapp/ranks miniapp/models"
  "miniapp/execute/gpu: core core/memory comm comm/nccl miniapp/execute"
  "miniapp/prove: core core/* comm comm/* io/data miniapp/ranks miniapp/models miniapp/execute"
  "miniapp/measure: core core/* comm comm/* io/* miniapp/predict miniapp/ranks miniapp/energy miniapp/models miniapp/execute miniapp/prove miniapp/rules"
  "miniapp/provenance: core core/nn/* comm/* io/* miniapp/ranks miniapp/measure miniapp/rules"
  "miniapp/checkpoint: core core/* comm comm/* io/* miniapp/ranks miniapp/execute miniapp/prove miniapp/measure miniapp/provenance miniapp/rules"
  "miniapp/report: core core/plan core/plan/* io/* miniapp/predict miniapp/execute miniapp/prove miniapp/measure miniapp/provenance miniapp/rules"
  "miniapp/report/html: core core/plan core/plan/* miniapp/charts miniapp/predict miniapp/execute miniapp/measure miniapp/provenance miniapp/report miniapp/rules"
  "miniapp/run: core core/* comm comm/* io/* miniapp/*"
  "miniapp/tools/advise: core core/plan core/plan/* io/* miniapp/predict"
  "miniapp/tools/advise/answer: core core/plan core/plan/* io/* miniapp/charts miniapp/predict miniapp/tools/advise"
  "miniapp/tools/compare: core io/json miniapp/charts"
  "miniapp/tools/submission/read: core core/plan core/plan/* io/*"
  "miniapp/tools/submission/checks: core core/plan core/plan/* io/* miniapp/energy miniapp/execute miniapp/prove miniapp/measure miniapp/rules miniapp/tools/submission/read"
  "miniapp/tools/submission: core core/plan core/plan/* io/* miniapp/execute miniapp/measure miniapp/charts miniapp/report miniapp/rules miniapp/tools/submission/*"
  "miniapp/tools/noise: core core/* comm comm/* io/* miniapp/*"
  "miniapp/tools/calibrate: core core/* comm comm/* io/* miniapp/*"
  "miniapp/tools/sweep: core core/plan core/plan/* io/* miniapp/execute miniapp/measure miniapp/provenance miniapp/report miniapp/run miniapp/rules"
  "miniapp/tools/sweep/html: core core/plan core/plan/* miniapp/charts miniapp/tools/sweep miniapp/rules"
  "miniapp/commands/help: core"
  "miniapp/commands: core core/* comm comm/* io/* miniapp/*"
  "miniapp/planner: core miniapp/commands miniapp/provenance"
  "miniapp: core miniapp/commands miniapp/commands/help miniapp/provenance miniapp/report"
)

# Includes that break the table and should be removed: "file header".
set(layout_exceptions)

# Sets what each room may include, with `a/*` expanded: `room_<folder>`.
foreach(line IN LISTS layout_rooms)
  string(REGEX MATCH "^([^:]*): ?(.*)$" _ "${line}")
  set(room "${CMAKE_MATCH_1}")
  string(REPLACE " " ";" words "${CMAKE_MATCH_2}")
  set(room_${room} "${room}")
  foreach(word IN LISTS words)
    if(word MATCHES "^(.*)/[*]$")
      set(below ${layout_rooms_above})
      list(FILTER below INCLUDE REGEX "^${CMAKE_MATCH_1}/")
      list(APPEND room_${room} ${below})
    elseif(word IN_LIST layout_rooms_above)
      list(APPEND room_${room} "${word}")
    else()
      list(APPEND layout_room_mistakes "${room} may include ${word}, which does not stand above it")
    endif()
  endforeach()
  list(APPEND layout_rooms_above "${room}")
endforeach()

function(layout_room_table_violations out)
  set(found "")
  foreach(mistake IN LISTS layout_room_mistakes)
    list(APPEND found "tests/layout/rooms.cmake: ${mistake}")
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
