# SPDX-License-Identifier: Apache-2.0
"""The system calls by name.

`clone`, `socket`, `socketpair` and `personality` are in seccomp.py: they depend on their arguments.
`clone3` is in neither list: its arguments cannot be seen, so it does not exist. Neither are
`io_setup` and its kin: all of them on a machine share one bound (fs.aio-max-nr), which one sandbox
could use up.
"""

# fmt: off
DONE: tuple[str, ...] = ("sync", "syncfs")
"""What is answered as if it were done: it would make the whole host write. `fsync` is there."""

ALLOWED: tuple[str, ...] = (
    # files and directories
    "access", "chdir", "chmod", "chown", "chroot", "close", "close_range", "copy_file_range",
    "creat", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir",
    "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
    "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate",
    "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "getxattrat",
    "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "lchown",
    "lgetxattr", "link", "linkat", "listxattr", "listxattrat", "llistxattr", "lremovexattr",
    "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "name_to_handle_at",
    "newfstatat", "open", "openat", "openat2", "readahead", "readlink", "readlinkat",
    "removexattr", "removexattrat", "rename", "renameat", "renameat2", "rmdir", "setxattr",
    "setxattrat", "stat", "statfs", "statx", "symlink", "symlinkat", "sync_file_range",
    "truncate", "umask", "unlink", "unlinkat", "ustat", "utime", "utimensat", "utimes",
    # reading and writing
    "ioctl", "pipe", "pipe2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2",
    "read", "readv", "sendfile", "splice", "tee", "vmsplice", "write", "writev",
    # memory
    "brk", "cachestat", "get_mempolicy", "madvise", "map_shadow_stack", "membarrier",
    "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap",
    "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free",
    "pkey_mprotect", "process_madvise", "process_mrelease", "remap_file_pages",
    # processes and threads
    "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "futex",
    "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list",
    "get_thread_area", "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getitimer",
    "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid",
    "getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kcmp",
    "kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "pause",
    "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "prctl", "prlimit64", "process_vm_readv",
    "process_vm_writev", "ptrace", "restart_syscall", "rseq", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval",
    "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "seccomp", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid",
    "setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid",
    "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sigaltstack", "tgkill", "time",
    "times", "tkill", "uretprobe", "vfork", "wait4", "waitid",
    # clocks and timers
    "adjtimex", "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday",
    "nanosleep", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    # waiting
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2",
    "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "poll", "ppoll", "pselect6", "select",
    "signalfd", "signalfd4",
    # sockets
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    # messages between processes
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
    "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat",
    "shmctl", "shmdt", "shmget",
    # the machine
    "getrandom", "sysinfo", "uname",
)
"""What programs need."""

REFUSED: tuple[str, ...] = (
    # other namespaces
    "setns", "unshare",
    # mounts
    "fsconfig", "fsmount", "fsopen", "fspick", "listmount", "mount", "mount_setattr",
    "move_mount", "open_tree", "open_tree_attr", "pivot_root", "statmount", "umount", "umount2",
    # large kernel surfaces
    "bpf", "fanotify_init", "fanotify_mark", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "memfd_secret", "perf_event_open", "userfaultfd",
    # keys, which know no namespace
    "add_key", "keyctl", "request_key",
    # the machine itself
    "acct", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module",
    "init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load", "lookup_dcookie", "mbind",
    "migrate_pages", "modify_ldt", "move_pages", "nfsservctl", "open_by_handle_at", "quotactl",
    "quotactl_fd", "reboot", "set_mempolicy", "set_mempolicy_home_node", "setdomainname",
    "sethostname", "settimeofday", "stime", "swapoff", "swapon", "syslog", "vhangup", "vm86",
    "vm86old",
)
"""What would let a sandbox out, or reach more of the kernel than programs need."""
