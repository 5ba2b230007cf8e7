# SPDX-License-Identifier: Apache-2.0
shardmark_test(memory
               FILES memory/label_test.cpp memory/ledger_test.cpp memory/chaining_test.cpp
                     memory/budget_test.cpp memory/process_memory_test.cpp
               LIBS shardmark_memory)

shardmark_must_not_compile(buffer_of_non_trivial FILE must_not_compile/buffer_of_non_trivial.cpp
                           REGEX "element type must be trivially copyable" LIBS shardmark_memory)
shardmark_must_not_compile(buffer_copy FILE must_not_compile/buffer_copy.cpp
                           REGEX "deleted (function|constructor)" LIBS shardmark_memory)
shardmark_must_not_compile(int_as_category FILE must_not_compile/int_as_category.cpp
                           REGEX "(invalid conversion|cannot (convert|initialize)|no matching function)"
                           LIBS shardmark_memory)
