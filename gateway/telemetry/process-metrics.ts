/** The metrics of the process itself: the build, and the standard ones of every Prometheus client. */
export const PROCESS_METRICS = {
  tributary_event_loop_lag_p99_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'Event loop delay in the last 5 to 10 seconds, 99th percentile.',
  },
  tributary_event_loop_lag_max_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'Event loop delay in the last 5 to 10 seconds, maximum. Above 1: not ready.',
  },
  tributary_build_info: {
    kind: 'gauge',
    labels: ['version', 'node_version'],
    meaning: 'Always 1, with the version of the gateway and of Node.js.',
  },
  process_cpu_seconds_total: {
    kind: 'counter',
    labels: [],
    meaning: 'CPU time of the process, user and system.',
  },
  process_resident_memory_bytes: {
    kind: 'gauge',
    labels: [],
    meaning: 'Resident memory of the process.',
  },
  process_virtual_memory_bytes: {
    kind: 'gauge',
    labels: [],
    meaning: 'Virtual memory of the process (Linux).',
  },
  process_open_fds: {
    kind: 'gauge',
    labels: [],
    meaning: 'Open file descriptors of the process (Linux). Each client connection is one.',
  },
  process_max_fds: {
    kind: 'gauge',
    labels: [],
    meaning: 'Limit of open file descriptors (Linux).',
  },
  process_threads: { kind: 'gauge', labels: [], meaning: 'Threads of the process (Linux).' },
  process_start_time_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'Start time of the process, in Unix time.',
  },
} as const;
