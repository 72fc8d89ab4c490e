#!/usr/bin/env bash
exec "$(dirname "${BASH_SOURCE[0]}")/headrace-tool" schema_consoles.json_schema_console_producer "$@"
