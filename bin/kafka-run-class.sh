#!/usr/bin/env bash
exec "$(dirname "${BASH_SOURCE[0]}")/headrace-tool" run_class "$@"
